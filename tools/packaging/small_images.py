# SPDX-License-Identifier: Apache-2.0
"""The images of small.toml and its relatives, of one epoch of a demo and of a form without a demo, and the bits of their runs on this machine: what image_check and power_cuts share."""
import pathlib
import re
import shutil
import subprocess

from packages import file_digest as digest
from small_forms import write_form

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WEIGHTS = "image/model.safetensors"  # below the folder that is the disk
RESULTS = ("model.safetensors", "*.png", "generated_predictions.txt")


def make_image(config, name):
    """Makes an image anew; after the first, only its settings are compiled. Warnings are errors, as in the builds of the other checks."""
    output = ROOT / f"build-image-{name}/image"
    subprocess.run([ROOT / "tools/packaging/make_image", "--werror", "--output", output, config], check=True, stdout=subprocess.DEVNULL)
    return output


def image_of(name):
    return make_image(ROOT / f"tools/packaging/{name}.toml", name)


def image_of_one_epoch(demo):
    """The image of config/DEMO.toml with one epoch."""
    config = ROOT / f"build-image-settings/{demo}.toml"
    config.parent.mkdir(exist_ok=True)
    text, epochs = re.subn(r"num_train_epochs = \d+", "num_train_epochs = 1", (ROOT / f"config/{demo}.toml").read_text())
    text, folders = re.subn(r"runs/\w+", f"runs/{pathlib.Path(WEIGHTS).parent}", text)
    assert epochs == folders == 1, demo
    config.write_text(text)
    return make_image(config, f"{demo}-epoch")


def image_of_form(form):
    return make_image(write_form(form, ROOT / "build-image-settings"), form)


def bits_of(runs):
    """{name: digest} of the parameters, pictures and texts that a run has left, with names below the folder where the disk is mounted."""
    found = [path for pattern in RESULTS for path in sorted((runs / pathlib.Path(WEIGHTS).parent).glob(pattern))]
    assert found, runs
    return {path.relative_to(runs).as_posix(): digest(path) for path in found}


def bits_on_host(image, folder):
    """The bits of the unbroken run on this machine, by the tree's own program."""
    shutil.copytree(image / "tree", folder)
    subprocess.run([folder / "bin/bascule", "run"], check=True, capture_output=True)
    return bits_of(folder / "runs")
