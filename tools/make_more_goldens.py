#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/more_goldens: cases in the form of tests/data/goldens that the reference set lacks.

    make_more_goldens.py [--cases PATTERN] [OUT_DIR]

roberta_*, distilbert_*, deit_*: the families that the reference set lacks, by the rule of its cases of BERT and ViT; goldens-families/README.md says what the files hold.
itm_confident: a matching head whose logits lie far apart and far from zero, with the labels that it predicts. Its gradient is what is left of softmax minus label near 0 and 1, where a
softmax by way of a rounded logarithm loses all digits. Limits rest on 17 float32 runs of PyTorch. The reference set is found through BASCULE_REFERENCE_DIR. Needs torch, transformers and
safetensors.
"""
import argparse
import copy
import fnmatch
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
    "roberta_tied": dict(
        description="RobertaForMaskedLM, decoder tied, relu in the layers and gelu in the head, heads of 16, the padding token inside a text, a row of one token, weight decay, run",
        family="roberta", head="masked_lm", seed=311,
        config=dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, max_position_embeddings=26, type_vocab_size=1,
                    hidden_act="relu", layer_norm_eps=1e-5),
        batch=dict(lengths=[21, 7, 1, 24, 12], length=24, pairs=False, padding_inside=True),
        train=dict(weight_decay=0.01), layers=False),
    "roberta_untied": dict(
        description="RobertaForMaskedLM, decoder not tied (then lm_head.bias is dead), pad_token_id 0, two token types of which the first counts, gelu_new, heads of 10, "
                    "accumulation 2, bfloat16 file, run",
        family="roberta", head="masked_lm", seed=312,
        config=dict(vocab_size=50, hidden_size=30, num_hidden_layers=1, num_attention_heads=3, intermediate_size=44, max_position_embeddings=21, pad_token_id=0,
                    hidden_act="gelu_new", tie_word_embeddings=False),
        batch=dict(lengths=[9, 18, 4, 16], length=20, pairs=False),
        train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
    "deit_with_teacher": dict(
        description="DeiTForImageClassificationWithTeacher: the mean of two classifiers, gelu, heads of 16, label smoothing 0.1 and mixed labels, weight decay, cosine schedule, run",
        family="deit", head="image_classification_with_teacher", seed=331,
        config=dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48, image_size=20, patch_size=6, num_labels=5),
        batch=dict(rows=4, mixed=True), label_smoothing=0.1,
        train=dict(weight_decay=0.24, lr_scheduler_type="cosine"), layers=False),
    "deit_one_classifier": dict(
        description="DeiTForImageClassification, which reads the class token alone; interpolate_pos_encoding=True: 40x24 images of one channel in a model made for 30x30, no query/key/value "
                    "biases, relu, heads of 12, bfloat16 file; no run",
        family="deit", head="image_classification", seed=332,
        config=dict(hidden_size=36, num_hidden_layers=2, num_attention_heads=3, intermediate_size=50, image_size=30, patch_size=10, num_channels=1, num_labels=11, hidden_act="relu",
                    qkv_bias=False, layer_norm_eps=1e-5),
        batch=dict(rows=3, image=[40, 24]), forward=dict(interpolate_pos_encoding=True), save=dict(dtype="bfloat16"), layers=False),
    "distilbert_tied": dict(
        description="DistilBertForMaskedLM, decoder tied, gelu, heads of 12, the padding token inside a text, a row of one token, weight decay, run",
        family="distilbert", head="masked_lm", seed=321,
        config=dict(vocab_size=60, dim=36, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=24),
        batch=dict(lengths=[13, 22, 1, 8], length=22, pairs=False, padding_inside=True),
        train=dict(weight_decay=0.01), layers=False),
    "distilbert_untied": dict(
        description="DistilBertForMaskedLM, decoder not tied (its bias is the same tensor as ever), relu, heads of 8, accumulation 2, bfloat16 file, run",
        family="distilbert", head="masked_lm", seed=322,
        config=dict(vocab_size=40, dim=24, n_layers=1, n_heads=3, hidden_dim=33, max_position_embeddings=20, activation="relu", tie_word_embeddings=False),
        batch=dict(lengths=[16, 5, 11], length=18, pairs=False),
        train=dict(gradient_accumulation_steps=2), save=dict(dtype="bfloat16"), layers=False),
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
    parser.add_argument("--cases", default="*", help="a pattern of names; default: all")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    for family in ("bridgetower", "roberta"):  # whose oracle makes those of DistilBERT and DeiT too
        cases = {name: spec for name, spec in CASES.items() if ("family" in spec) == (family == "roberta") and fnmatch.fnmatch(name, arguments.cases)}
        if not cases:
            continue
        oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"], family)
        oracle.torch.set_num_threads(1)
        oracle.transformers.logging.disable_progress_bar()
        if family == "bridgetower":
            make_confident(oracle)
        for name, spec in cases.items():
            print(oracle.make_case(name, spec, arguments.out))


if __name__ == "__main__":
    main()
