#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cases of BertForSequenceClassification in the form of tests/data/goldens-families, which that set lacks.

    make_sequence_goldens.py [OUT_DIR] [--cases name,...]

The reference set is found through BASCULE_REFERENCE_DIR, and its rules for BERT are those of these cases: outputs, gradients and a training run in float64 on the CPU, the error of plain
float32 runs and of equivalent ones beside them, and what torch.autocast gets in bf16. Only the head and its labels differ (sequence_oracle.py). Needs torch, transformers and safetensors.
"""
import argparse
import os
import pathlib

from fuzz_against_transformers import load_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent

CASES = {
    "bert_sequence_classes": dict(
        description="BertForSequenceClassification with three classes: ragged pairs with token types, gelu, heads of 12, weight decay, cosine schedule, run; the classifier reads the pooled "
        "first row alone",
        family="bert", head="sequence_classification", seed=221,
        config=dict(vocab_size=70, hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=52, max_position_embeddings=32,
                    id2label={0: "neither", 1: "entailed", 2: "contradicted"}, label2id={"neither": 0, "entailed": 1, "contradicted": 2}, problem_type="single_label_classification"),
        batch=dict(lengths=[17, 6, 24, 5, 11], length=24), train=dict(weight_decay=0.05, lr_scheduler_type="cosine"), layers=False),
    "bert_sequence_values": dict(
        description="BertForSequenceClassification as a regression (one label: mean squared error) of single texts, a text of one token, relu, heads of 8, gradient accumulation 2, bfloat16 file, "
        "run",
        family="bert", head="sequence_classification", seed=222,
        config=dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, max_position_embeddings=20, hidden_act="relu", layer_norm_eps=1e-6,
                    num_labels=1, problem_type="regression"),
        batch=dict(lengths=[9, 16, 1, 12], length=16, pairs=False), train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(ROOT / "tests" / "data" / "more_goldens"), help="default: tests/data/more_goldens")
    parser.add_argument("--cases", default=",".join(CASES), help="default: all")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"], "bert")
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.disable_progress_bar()
    for name in arguments.cases.split(","):
        print(oracle.make_case(name, CASES[name], arguments.out))


if __name__ == "__main__":
    main()
