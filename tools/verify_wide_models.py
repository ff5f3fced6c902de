#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges models of width 768 by Transformers in float64, one of each head.

    verify_wide_models.py --bascule build/bascule [--heads contrastive,image_text_matching,masked_lm] [--width 768] [--isas avx2,avx512] [--threads 2] [--keep DIR]

One tower layer and one cross-modal layer of each kind, feed-forward layers of four times the width: the products of the published base model, on few rows. The cases are made on demand, by the
reference set's own oracle/make_goldens.py, and are too large to be kept in the repository. `bascule verify` judges them, with limits from 17 float32 runs of PyTorch. Besides, it prints how our
error compares with that of PyTorch's plain float32 run: the median over all gradients of the quotient of the two, and the largest quotient of an output
but the loss, which is one number and may be right by luck.

The reference set is found through BASCULE_REFERENCE_DIR. Needs torch, transformers and safetensors. Exit 0: all passed; 1: some failed.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import types

from fuzz_against_transformers import load_oracle, verify

ROOT = pathlib.Path(__file__).resolve().parent.parent


def describe(head, width):
    return dict(description=f"width {width}", head=head, seed=301, gradient_sample=512, layers=False,
                top=dict(hidden_size=width, num_hidden_layers=1, link_tower_type="add", **({"contrastive_hidden_size": width} if head == "contrastive" else {})),
                text=dict(hidden_size=width, num_hidden_layers=1, num_attention_heads=width // 64, intermediate_size=4 * width, vocab_size=500),
                vision=dict(hidden_size=width, num_hidden_layers=1, patch_size=16, image_size=64),
                batch=dict(lengths=[16, 5, 11, 8], length=16))


def quotients(result, errors, kind):
    """Our error by that of PyTorch's plain run, of each tensor that has both."""
    found = []
    for tensor in result["tensors"]:
        prefix, _, name = tensor["name"].partition(".") if kind == "gradients" else ("", "", tensor["name"])
        plain = errors[kind].get(name, {})
        plain = plain.get("sample", plain).get("rel_l2") if prefix in ("", "grad", "grad_sample") else None
        if plain and "relative_l2" in tensor and name != "loss":
            found.append(tensor["relative_l2"] / plain)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")
    parser.add_argument("--bascule", default=str(ROOT / "build" / "bascule"))
    parser.add_argument("--heads", type=names, default=["contrastive", "image_text_matching", "masked_lm"])
    parser.add_argument("--width", type=int, default=768, help="a multiple of 64")
    parser.add_argument("--isas", type=names, default=["avx2", "avx512"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--keep", help="a folder in which the cases stay")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"], "bridgetower")
    oracle.torch.set_num_threads(arguments.threads)
    oracle.transformers.logging.disable_progress_bar()
    all_passed = True
    with tempfile.TemporaryDirectory() as temporary:
        for head in arguments.heads:
            name = f"{head}_{arguments.width}"
            folder = os.path.join(arguments.keep or temporary, name)
            oracle.make_case(name, describe(head, arguments.width), arguments.keep or temporary)
            errors = json.loads(pathlib.Path(folder, "float32_error.json").read_text())
            for isa in arguments.isas:
                result, said = verify(types.SimpleNamespace(bascule=arguments.bascule, precision="float32", threads=arguments.threads, isa=isa), folder)
                failed = ["no result"] if result is None else [tensor["name"] for tensor in result["tensors"] if not tensor["passed"]]
                all_passed = all_passed and not failed
                figures = "" if result is None else (f"{len(result['tensors'])} tensors; beside PyTorch's plain float32: gradients {statistics.median(quotients(result, errors, 'gradients')):.2f} (median), "
                                                     f"outputs {max(quotients(result, errors, 'outputs')):.2f} (largest)")
                print(f"{'FAILED' if failed else 'passed'} {name} {isa}: {figures} {said} {', '.join(failed[:8])}", flush=True)
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
