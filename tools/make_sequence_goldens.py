#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes cases of sequence and token classification with BERT, RoBERTa and DistilBERT in the form of tests/data/goldens-families, which that set lacks.

    make_sequence_goldens.py [OUT_DIR] [--cases name,...]

The reference set is found through BASCULE_REFERENCE_DIR, and its rules for BERT are those of these cases: outputs, gradients and a training run in float64 on the CPU, the error of plain
float32 runs and of equivalent ones beside them, and what torch.autocast gets in bf16. Only the head and its labels differ (sequence_oracle.py, token_oracle.py). Needs torch, transformers and safetensors.
"""
import argparse
import os
import pathlib

from fuzz_against_transformers import load_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent

CASES = {
    "bert_sequence_classes": dict(
        description="BertForSequenceClassification with three classes: ragged pairs with token types, gelu, heads of 4, weight decay, cosine schedule, run; the classifier reads the pooled "
        "first row alone",
        family="bert", head="sequence_classification", seed=221,
        config=dict(vocab_size=24, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17, max_position_embeddings=20,
                    id2label={0: "neither", 1: "entailed", 2: "contradicted"}, label2id={"neither": 0, "entailed": 1, "contradicted": 2}, problem_type="single_label_classification"),
        batch=dict(lengths=[11, 6, 16, 5, 9], length=16), train=dict(weight_decay=0.05, lr_scheduler_type="cosine"), layers=False),
    "bert_sequence_values": dict(
        description="BertForSequenceClassification as a regression (one label: mean squared error) of single texts, a text of one token, relu, heads of 8, gradient accumulation 2, bfloat16 file, "
        "run",
        family="bert", head="sequence_classification", seed=222,
        config=dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=40, max_position_embeddings=20, hidden_act="relu", layer_norm_eps=1e-6,
                    num_labels=1, problem_type="regression"),
        batch=dict(lengths=[9, 16, 1, 12], length=16, pairs=False), train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
    "roberta_sequence_classes": dict(
        description="RobertaForSequenceClassification with four classes: pairs without types, the padding token inside a text, silu, heads of 5, weight decay, run; the head reads the first row "
        "alone, through a dense layer and tanh of its own",
        family="roberta", head="sequence_classification", seed=231,
        config=dict(vocab_size=20, hidden_size=15, num_hidden_layers=2, num_attention_heads=3, intermediate_size=12, max_position_embeddings=19, type_vocab_size=1, hidden_act="silu",
                    layer_norm_eps=1e-5, id2label={0: "a", 1: "b", 2: "c", 3: "d"}, label2id={"a": 0, "b": 1, "c": 2, "d": 3}, problem_type="single_label_classification"),
        batch=dict(lengths=[13, 6, 17, 5, 9], length=17, padding_inside=True), train=dict(weight_decay=0.05), layers=False),
    "roberta_sequence_values": dict(
        description="RobertaForSequenceClassification as a regression of single texts, a text of one token, pad_token_id 0, two token types of which the first counts, gelu, heads of 7, gradient "
        "accumulation 2, bfloat16 file, run",
        family="roberta", head="sequence_classification", seed=232,
        config=dict(vocab_size=18, hidden_size=14, num_hidden_layers=1, num_attention_heads=2, intermediate_size=17, max_position_embeddings=14, pad_token_id=0, num_labels=1,
                    problem_type="regression"),
        batch=dict(lengths=[8, 12, 1, 10], length=12, pairs=False), train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
    "distilbert_sequence_classes": dict(
        description="DistilBertForSequenceClassification with three classes: pairs without types, gelu in the layers and relu in the head, heads of 8, weight decay, cosine schedule, run",
        family="distilbert", head="sequence_classification", seed=241,
        config=dict(vocab_size=20, dim=16, n_layers=2, n_heads=2, hidden_dim=11, max_position_embeddings=16, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2},
                    problem_type="single_label_classification"),
        batch=dict(lengths=[11, 7, 16, 5], length=16), train=dict(weight_decay=0.05, lr_scheduler_type="cosine"), layers=False),
    "distilbert_sequence_values": dict(
        description="DistilBertForSequenceClassification as a regression of single texts, a text of one token, silu, heads of 4, gradient accumulation 2, bfloat16 file, run",
        family="distilbert", head="sequence_classification", seed=242,
        config=dict(vocab_size=18, dim=12, n_layers=1, n_heads=3, hidden_dim=20, max_position_embeddings=14, activation="silu", num_labels=1, problem_type="regression"),
        batch=dict(lengths=[9, 13, 1, 12], length=13, pairs=False), train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
    "bert_tokens": dict(
        description="BertForTokenClassification with five tags: ragged texts, a text of one token, gelu, heads of 4; tokens without a tag do not count",
        family="bert", head="token_classification", seed=251,
        config=dict(vocab_size=14, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=7, max_position_embeddings=14,
                    id2label={0: "B-LOC", 1: "B-PER", 2: "I-LOC", 3: "I-PER", 4: "O"}, label2id={"B-LOC": 0, "B-PER": 1, "I-LOC": 2, "I-PER": 3, "O": 4}),
        batch=dict(lengths=[9, 6, 12, 1], length=12, pairs=False), layers=False),
    "roberta_tokens": dict(
        description="RobertaForTokenClassification with three tags: a padding token inside a text, relu, heads of 4, bfloat16 file",
        family="roberta", head="token_classification", seed=252,
        config=dict(vocab_size=14, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=9, max_position_embeddings=14, type_vocab_size=1, hidden_act="relu",
                    num_labels=3),
        batch=dict(lengths=[8, 12, 3], length=12, pairs=False, padding_inside=True), save=dict(dtype="bfloat16"), layers=False),
    "distilbert_tokens": dict(
        description="DistilBertForTokenClassification with 21 tags: ragged texts, gelu, heads of 4",
        family="distilbert", head="token_classification", seed=254,
        config=dict(vocab_size=14, dim=8, n_layers=1, n_heads=2, hidden_dim=7, max_position_embeddings=12, num_labels=21),
        batch=dict(lengths=[11, 7, 5], length=12, pairs=False), layers=False),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(ROOT / "tests" / "data" / "more_goldens"), help="default: tests/data/more_goldens")
    parser.add_argument("--cases", default=",".join(CASES), help="default: all")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"], "roberta")  # and BERT
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.disable_progress_bar()
    for name in arguments.cases.split(","):
        print(oracle.make_case(name, CASES[name], arguments.out))


if __name__ == "__main__":
    main()
