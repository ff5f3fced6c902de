#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/more_goldens: cases in the form of tests/data/goldens that the reference set lacks.

    make_more_goldens.py [OUT_DIR]

itm_confident: a matching head whose logits lie far apart and far from zero, with the labels that it predicts. Its gradient is what is left of softmax minus label near 0 and 1, where a
softmax by way of a rounded logarithm loses all digits. Limits rest on 17 float32 runs of PyTorch. The reference set is found through BASCULE_REFERENCE_DIR. Needs torch, transformers and
safetensors.
"""
import argparse
import copy
import os
import pathlib

from fuzz_against_transformers import load_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent
GAIN, OFFSET = 4.0, 100.0  # of the logits

CASES = {
    "itm_confident": dict(
        description="image-text matching with logits some seven apart and an offset of 100, labels as predicted; gradients as norms and samples; saved in bfloat16; no training run",
        head="image_text_matching", seed=201,
        top=dict(hidden_size=24, num_hidden_layers=1, link_tower_type="add"),
        text=dict(hidden_size=24, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=60),
        vision=dict(hidden_size=64, num_hidden_layers=1, patch_size=8, image_size=24),
        batch=dict(lengths=[9, 3, 6, 4, 8, 2], length=9),
        save=dict(dtype="bfloat16"), gradient_sample=64, layers=False),
}


def make_confident(oracle):
    """Has the oracle draw confident heads, and labels that agree with them."""
    torch, randomise, make_batches = oracle.torch, oracle.randomise, oracle.make_batches
    drawn = []

    def confident(model, generator):
        randomise(model, generator)
        with torch.no_grad():
            model.itm_score.fc.weight.mul_(GAIN)
            model.itm_score.fc.bias.add_(OFFSET)
        drawn[:] = [model]

    def agreeing(spec, config, generator):
        batches = make_batches(spec, config, generator)
        model = copy.deepcopy(drawn[0]).to(torch.bfloat16).double().eval()
        for batch in batches:
            logits = oracle.forward(model, spec, batch)[1]["logits"]
            batch["labels"] = logits.argmax(1)
            print("margins:", [round(value, 2) for value in (logits.max(1).values - logits.min(1).values).tolist()])
        return batches

    oracle.randomise, oracle.make_batches = confident, agreeing


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(ROOT / "tests" / "data" / "more_goldens"), help="default: tests/data/more_goldens")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"], "bridgetower")
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.disable_progress_bar()
    make_confident(oracle)
    for name, spec in CASES.items():
        print(oracle.make_case(name, spec, arguments.out))


if __name__ == "__main__":
    main()
