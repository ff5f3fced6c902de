#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a folder that Bascule saved in Transformers and compares the model's outputs with those that Bascule wrote.

    verify_with_transformers.py FOLDER                       does it load without a warning about weights?
    verify_with_transformers.py FOLDER --expect FOLDER/embeddings.safetensors --manifest validation.jsonl
    verify_with_transformers.py FOLDER --expect embeddings.safetensors --batch batch.safetensors
    verify_with_transformers.py FOLDER --predictions FOLDER/predictions.jsonl --manifest test.jsonl --image-column image
    verify_with_transformers.py FOLDER --predictions FOLDER/predictions.jsonl        of texts, whose lines hold them

FOLDER holds config.json, model.safetensors and, for --manifest, the tokenizer and preprocessor files. --expect holds some of
`text_embeds`, `image_embeds`, `cross_embeds`, float32 [rows, width], row i of which belongs to row i of the manifest or the batch.
--batch holds `pixel_values`, `input_ids` and `attention_mask`, as they are or as `batch0.NAME`.
--predictions: of a classifier of pictures, with data.preprocessing = "training", or of texts; differences of logarithms of probabilities, or of
values. Texts are cut at --max-seq-length.

Prints one JSON document. Exit 0: loaded without a warning, every element within --tolerance; 1: not so; 2: wrong use.
Needs torch, transformers, safetensors, and for --manifest Pillow and torchvision.
"""
import argparse
import itertools
import json
import logging
import math
import pathlib
import sys
import warnings

import torch
import transformers
from safetensors.torch import load_file

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)  # for the published folders, whose preprocessor files lack them
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
# Transformers 5 says this of every T5 whose head is not its table of words, whatever config.json says.
HEAD_OF_ITS_OWN = "specifies to tie shared.weight to lm_head.weight, but both are present"
EMBEDDINGS = ("text_embeds", "image_embeds", "cross_embeds")


class Said(logging.Handler):
    """Keeps what Transformers logs from warnings up."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def load_model(folder):
    """The model of the class that config.json names, and everything that was said about its weights."""
    said = Said()
    transformers.utils.logging.get_logger("transformers").addHandler(said)
    config = json.loads((folder / "config.json").read_text())
    auto = next(iter(config.get("auto_map", {})), None)  # of a model whose code is in the folder
    model_class = getattr(transformers, auto or config["architectures"][0])
    trust = {"trust_remote_code": True} if auto else {}
    with warnings.catch_warnings(record=True) as python_warnings:
        warnings.simplefilter("always")
        model, info = model_class.from_pretrained(folder, output_loading_info=True, ignore_mismatched_sizes=True, **trust)
    problems = {kind: sorted(map(str, info.get(kind) or [])) for kind in
                ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")}
    expected = HEAD_OF_ITS_OWN if config.get("model_type") == "t5" else None
    problems["warnings"] = [line for line in said.lines if expected is None or expected not in line] + [
        str(warning.message) for warning in python_warnings if "weight" in str(warning.message).lower()]
    return model.eval(), {kind: found for kind, found in problems.items() if found}


def training_pixels(path, side, mean, std):
    """Preprocessing "training": the shorter side to `side`, antialiased bicubic in float, centre crop, nothing rounded."""
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms import functional as F
    from transformers.image_utils import load_image

    picture = F.to_tensor(load_image(str(path)).convert("RGB"))
    picture = F.resize(picture, [side], interpolation=InterpolationMode.BICUBIC, antialias=True)
    return F.normalize(F.center_crop(picture, [side, side]), mean, std)


def processor_pixels(path, side, processor):
    from transformers.image_utils import load_image

    size = {"shortest_edge": side}
    return processor(load_image(str(path)).convert("RGB"), size=size, crop_size=size, return_tensors="pt").pixel_values[0]


def manifest_batches(folder, model, arguments, rows):
    """Batches of a JSON-lines manifest; relative pictures lie beside it."""
    manifest = pathlib.Path(arguments.manifest)
    lines = [json.loads(line) for line in manifest.read_text().splitlines() if line.strip()][:rows]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    side = model.config.vision_config.image_size
    if arguments.preprocessing == "processor":
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
        pixels = lambda path: processor_pixels(path, side, processor)
    else:
        settings = json.loads((folder / "preprocessor_config.json").read_text())
        mean, std = settings.get("image_mean", CLIP_MEAN), settings.get("image_std", CLIP_STD)
        pixels = lambda path: training_pixels(path, side, mean, std)
    for start in range(0, len(lines), arguments.batch_size):
        part = lines[start:start + arguments.batch_size]
        text = tokenizer([line[arguments.caption_column] for line in part], padding=True, truncation=True,
                         max_length=arguments.max_seq_length, return_tensors="pt")
        yield {"input_ids": text.input_ids, "attention_mask": text.attention_mask,
               "pixel_values": torch.stack([pixels(manifest.parent / line[arguments.image_column]) for line in part])}


def file_batches(path):
    tensors = load_file(path)
    pick = lambda name: tensors.get(name, tensors.get("batch0." + name))
    yield {name: pick(name) for name in ("pixel_values", "input_ids", "attention_mask")}


def compare(folder, model, arguments):
    """Largest difference of each tensor of --expect to what the model computes, and whether all are within the tolerance."""
    expected = {name: tensor for name, tensor in load_file(arguments.expect).items() if name in EMBEDDINGS}
    if not expected:
        raise SystemExit(f"{arguments.expect}: holds none of {', '.join(EMBEDDINGS)}")
    rows = min(len(tensor) for tensor in expected.values())
    rows = min(rows, arguments.rows or rows)
    batches = manifest_batches(folder, model, arguments, rows) if arguments.manifest else file_batches(arguments.batch)
    computed = {name: [] for name in expected}
    with torch.no_grad():
        for batch in batches:
            output = model(**batch)
            for name in expected:
                computed[name].append(getattr(output, name))
    differences = {}
    for name, parts in computed.items():
        values = torch.cat(parts)
        if len(values) < rows:
            raise SystemExit(f"{arguments.expect}: {rows} rows of {name}, but only {len(values)} inputs")
        differences[name] = (values[:rows].double() - expected[name][:rows].double()).abs().max().item()
    passed = all(difference <= arguments.tolerance for difference in differences.values())  # NaN is not within
    return {"rows": rows, "largest_difference": differences, "tolerance": arguments.tolerance}, passed


def picture_inputs(folder, model, arguments, ours):
    manifest = pathlib.Path(arguments.manifest)
    rows = [json.loads(line) for line in manifest.read_text().splitlines() if line.strip()]
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    for row, line in zip(rows, ours, strict=True):
        pixels = training_pixels(manifest.parent / row[arguments.image_column], model.config.image_size, settings["image_mean"], settings["image_std"])
        yield line, {"pixel_values": pixels[None]}


def text_inputs(folder, arguments, ours):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for line in ours:
        yield line, tokenizer(line["text"], line.get("text_pair"), truncation=True, max_length=arguments.max_seq_length, return_tensors="pt")


def compare_predictions(folder, model, arguments):
    """Largest difference between the logarithms of our probabilities and those of the model, over the classes that we wrote; or between values."""
    ours = [json.loads(line) for line in pathlib.Path(arguments.predictions).read_text().splitlines()]
    number = {name: int(key) for key, name in json.loads((folder / "config.json").read_text())["id2label"].items()}
    inputs = picture_inputs(folder, model, arguments, ours) if arguments.manifest else text_inputs(folder, arguments, ours)
    largest, compared = 0.0, 0
    with torch.no_grad():
        for line, batch in itertools.islice(inputs, arguments.rows or None):
            logits = model.eval()(**batch).logits[0].double()
            if not isinstance(line["predicted"], list):
                largest, compared = max(largest, abs(logits[0].item() - line["predicted"])), compared + 1
                continue
            theirs = torch.log_softmax(logits, 0)
            for one in line["predicted"]:
                name = one["class"]
                place = name if isinstance(name, int) else number[name]
                largest = max(largest, abs(theirs[place].item() - math.log(one["probability"])))
                compared += 1
    return {"rows": len(ours), "compared": compared, "largest_difference": largest, "tolerance": arguments.tolerance}, largest <= arguments.tolerance


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--expect", help="safetensors file of embeddings that Bascule computed")
    parser.add_argument("--predictions", help="predictions.jsonl that Bascule wrote for the rows of --manifest")
    parser.add_argument("--manifest", help="JSON-lines file whose rows gave the embeddings")
    parser.add_argument("--batch", help="safetensors file of inputs, in place of --manifest")
    parser.add_argument("--image-column", default="image")
    parser.add_argument("--caption-column", default="caption")
    parser.add_argument("--max-seq-length", type=int, default=128)
    parser.add_argument("--preprocessing", choices=("training", "processor"), default="training")
    parser.add_argument("--rows", type=int, default=0, help="compare the first ROWS only")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()
    if arguments.expect and not (arguments.manifest or arguments.batch):
        parser.error("--expect needs --manifest or --batch")

    model, problems = load_model(arguments.folder)
    report = {"folder": str(arguments.folder), "class": type(model).__name__, "transformers": transformers.__version__,
              "parameters": sum(parameter.numel() for parameter in model.parameters()), "problems": problems}
    passed = not problems
    if arguments.expect:
        report["embeddings"], close = compare(arguments.folder, model, arguments)
        passed = passed and close
    if arguments.predictions:
        report["predictions"], close = compare_predictions(arguments.folder, model, arguments)
        passed = passed and close
    report["passed"] = passed
    print(json.dumps(report, indent=2))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
