# SPDX-License-Identifier: Apache-2.0
"""The images of small.toml and small_ranks.toml, and the bits of their runs on this machine: what image_check and power_cuts share."""
import hashlib
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEIGHTS = "image/model.safetensors"  # below the folder that is the disk


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def image_of(name):
    """Made anew: where nothing has changed that takes seconds."""
    subprocess.run([ROOT / "tools/packaging/make_image", ROOT / f"tools/packaging/{name}.toml"], check=True, stdout=subprocess.DEVNULL)
    return ROOT / f"build-image-{name}" / "image"


def bits_on_host(image, folder):
    """Of the parameters after the unbroken run, by the program of the tree, on this machine."""
    shutil.copytree(image / "tree", folder)
    subprocess.run([folder / "bin/bascule", "run"], check=True, capture_output=True)
    return digest(folder / "runs" / WEIGHTS)
