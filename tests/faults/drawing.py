# SPDX-License-Identifier: Apache-2.0
"""Runs that draw with the small pipelines of the reference cases: settings, copies of a pipeline, what a run leaves."""
import json
import pathlib
import shutil
import struct
import time

from bascule_run import ROOT, digest

PIPELINES = ROOT / "tests" / "data" / "goldens-families"
PARTS = ("tokenizer", "text_encoder", "unet", "vae", "scheduler")


def copy_pipeline(folder, name="sd_v1"):
    for part in PARTS:
        shutil.copytree(PIPELINES / name / part, folder / part)
    shutil.copy(PIPELINES / name / "model_index.json", folder)
    return folder


def change(path, **members):
    """Members of a JSON file; None removes one."""
    document = {**json.loads(path.read_text()), **members}
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


def damage(path, bits=0x7fc0, last=False):
    """The first number of a safetensors file in bfloat16, or the last one of its tensor, becomes NaN, or another with these bits; returns the name of the tensor."""
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    name = next(name for name, entry in header.items() if entry.get("dtype") == "BF16" and not name.startswith(("encoder.conv", "encoder.down", "encoder.mid", "quant_conv")))
    begin, end = header[name]["data_offsets"]
    place = start + (end - 2 if last else begin)
    data[place:place + 2] = struct.pack("<H", bits)
    path.write_bytes(data)
    return name


def drawing(folder, model=PIPELINES / "sd_v1", tables="", precision=None, **keys):
    """TOML of a run that draws four small pictures; keys of [draw] as TOML, None leaves one out."""
    values = {"output_dir": f'"{folder}/run"', "prompts": '["a cat", "a red heart"]', "num_images_per_prompt": "2", "num_inference_steps": "2", **keys}
    if "prompts_file" in keys:
        del values["prompts"]
    lines = "".join(f"{key} = {value}\n" for key, value in values.items() if value is not None)
    path = pathlib.Path(folder) / "run.toml"
    number_type = f'precision = "{precision}"\n' if precision else ""
    path.write_text(f'[model]\nmodel_name_or_path = "{model}"\n{number_type}[draw]\n{lines}{tables}')
    return path


def rows(run_folder):
    """The lines of images.jsonl, all of them whole."""
    text = (pathlib.Path(run_folder) / "images.jsonl").read_text()
    assert text.endswith("\n") or not text, "the last line is cut"
    return [json.loads(line) for line in text.splitlines()]


def timeless(lines):
    """The lines of images.jsonl without the seconds, and without the checksum, which is also of them."""
    return [{key: value for key, value in line.items() if key not in ("seconds", "check")} for line in lines]


def digests(lines):
    """{file: digests of its pixels and of its latents} of the lines of images.jsonl."""
    return {row["file"]: (row["digest"], row["latents"]) for row in lines}


def pixels(png):
    """A PNG file behind its text chunks, whose digest of the settings depends on paths."""
    data = png.read_bytes()
    return data[:33], data[data.index(b"IDAT") - 4:]


def pictures(run_folder):
    """{name: digest} of the PNG files."""
    return {path.name: digest(path) for path in sorted(pathlib.Path(run_folder).glob("*.png"))}


def wait_for_lines(folder, count, process):
    """Until images.jsonl of folder/run has so many lines, or the process has ended."""
    while process.poll() is None:
        try:
            if (folder / "run" / "images.jsonl").read_text().count("\n") >= count:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.001)
