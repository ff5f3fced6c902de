#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/run_goldens/predictions.json: what Transformers in float64 predicts for the rows of rows.jsonl with weights of tests/data/goldens.

    make_prediction_goldens.py [--bascule build/bascule] [OUT]

For image-text matching the caption that goes with each picture, the label, the probability of a match; for masked LM each labelled token's position, expected and predicted id and the
probability of the expected one; of both the mean loss, plain and with smoothed labels. Masks and foreign captions are those of epoch 0. tests/faults/test_predictions.py reads it.

Needs what make_run_goldens.py needs, and is made from the same inputs.
"""
import argparse
import json
import os
import pathlib

import make_run_goldens as golden
from drawn_rows import matching_sample
from fuzz_against_transformers import load_oracle

OUT = golden.OUT / "predictions.json"
CASES = {"matching": dict(model="itm_scaled_add", head="image_text_matching"), "masked_lm": dict(model="mlm_interpolate", head="masked_lm")}
SMOOTHING = 0.1
LEAST_GAP = 1e-4  # between the two largest logits: float32 predicts the same


def make_case(arguments, oracle, load_file, spec):
    torch = oracle.torch
    model = oracle.load(golden.DATA / "goldens" / spec["model"], spec, torch.float32).double()
    inputs = golden.Inputs(arguments, model.config, load_file)
    rows = range(golden.ROWS)
    batch, _ = golden.make_batch(torch, spec, inputs, 0, rows)
    with torch.no_grad():
        logits = oracle.forward(model, spec, batch)[1]["logits"]
    labels = batch["labels"]
    flat = logits.flatten(0, -2), labels.flatten()
    largest = logits[labels != -100].topk(2, -1).values
    assert (largest[:, 0] - largest[:, 1]).min() > LEAST_GAP
    probabilities, predicted = logits.softmax(-1), logits.argmax(-1)
    lines = []
    for row in rows:
        if spec["head"] == "image_text_matching":
            caption, label = matching_sample(golden.SEED, inputs.pictures, 0, row)
            lines.append({"caption_row": caption, "matched": bool(label), "predicted": bool(predicted[row]), "probability": probabilities[row, 1].item()})
            continue
        places = (labels[row] != -100).nonzero().flatten().tolist()
        lines.append([[at, labels[row, at].item(), predicted[row, at].item(), probabilities[row, at, labels[row, at]].item()] for at in places])
    loss = lambda smoothing: torch.nn.functional.cross_entropy(*flat, label_smoothing=smoothing).item()
    return {**spec, "loss": loss(0.0), "smoothed_loss": loss(SMOOTHING), "rows": lines}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", default=str(golden.ROOT / "build" / "bascule"))
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=OUT)
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    from safetensors.torch import load_file
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"])
    oracle.transformers.logging.disable_progress_bar()
    cases = {name: make_case(arguments, oracle, load_file, spec) for name, spec in CASES.items()}
    made_with = {"torch": oracle.torch.__version__.split("+")[0], "transformers": oracle.transformers.__version__}
    arguments.out.write_text(oracle.json_text({"made_with": made_with, "seed": golden.SEED, "smoothing": SMOOTHING, **cases}) + "\n")


if __name__ == "__main__":
    main()
