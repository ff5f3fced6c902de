#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the entities that `bascule classify` finds with those of Transformers' token classification pipeline.

    entities_against_transformers.py --bascule build/bascule [--texts 200] [--seed 1] [--family bert | roberta | roberta-spaced | distilbert]

Makes a small model with random weights, saved by Transformers, and asks both of texts in several scripts, joined at random from the tokenizer's cases. The pipeline has aggregation_strategy
"first". Equal: the number of entities, their types and places; scores within 1e-5. roberta-spaced is RoBERTa as a run leaves it, whose tokenizer puts a space before a text; it is not asked of texts
that spell a special token, behind which Transformers moves places by a character. Needs torch and transformers. Exit 0: all texts are equal; 1: some are not.
"""
import argparse
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "MISC"]
COMMON = dict(id2label=dict(enumerate(TAGS)), label2id={tag: number for number, tag in enumerate(TAGS)})
FAMILIES = {
    "bert": ("Bert", DATA / "tokenizer" / "wordpiece", dict(vocab_size=4000, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=512)),
    "roberta": ("Roberta", DATA / "tokenizer" / "roberta-50k", dict(vocab_size=50265, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, max_position_embeddings=514, pad_token_id=1)),
    "distilbert": ("DistilBert", DATA / "tokenizer" / "wordpiece", dict(vocab_size=4000, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=512)),
}

FAMILIES["roberta-spaced"] = FAMILIES["roberta"]


def make_folder(family, seed, folder):
    prefix, tokenizer, config = FAMILIES[family]
    torch.manual_seed(seed)
    model = getattr(transformers, prefix + "ForTokenClassification")(getattr(transformers, prefix + "Config")(**config, **COMMON, initializer_range=0.2)).eval()
    model.save_pretrained(folder)
    for file in tokenizer.iterdir():
        if file.suffix in (".json", ".txt") and file.name != "unicode_classes.json":
            shutil.copy(file, folder)
    if family == "roberta-spaced":
        config = pathlib.Path(folder, "tokenizer_config.json")
        config.write_text(json.dumps({**(json.loads(config.read_text()) if config.exists() else {}), "add_prefix_space": True}))
    name = "RobertaTokenizer" if prefix == "Roberta" else "BertTokenizer"
    return transformers.pipeline("token-classification", model=model, tokenizer=getattr(transformers, name).from_pretrained(folder), aggregation_strategy="first", device="cpu")


def texts_of(count, seed):
    draw = random.Random(seed)
    pieces = [case["text"] for case in json.loads((DATA / "tokenizer" / "wordpiece_cases.json").read_text())["cases"]]
    pieces = [" ".join(piece.split()) for piece in pieces if not set("\0\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029") & set(piece)]
    pieces = [piece for piece in pieces if piece and len(piece) < 200]
    return [" ".join(draw.sample(pieces, draw.randint(1, 3))) for _ in range(count)]


def is_equal(ours, theirs):
    places = lambda one, key: (one[key], one["start"], one["end"])
    return [places(one, "entity") for one in ours] == [places(one, "entity_group") for one in theirs] and all(abs(a["score"] - float(b["score"])) < 1e-5 for a, b in zip(ours, theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", required=True, help="the program")
    parser.add_argument("--family", choices=FAMILIES, action="append", help="may be repeated; default: all")
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    failed = 0
    for family in arguments.family or FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            pipeline, texts = make_folder(family, arguments.seed, folder), texts_of(arguments.texts, arguments.seed)
            if family == "roberta-spaced":
                texts = [text for text in texts if not re.search("</?[a-z]+>", text)]
            done = subprocess.run([arguments.bascule, "classify", folder, "-", "--json"], input="".join(text + "\n" for text in texts), capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{family}: {done.stderr}")
            different, found = 0, 0
            for text, answer in zip(texts, json.loads(done.stdout)["texts"], strict=True):
                expected = pipeline(text)
                found += len(expected)
                if not is_equal(answer["entities"], expected):
                    different += 1
                    if different <= 3:
                        print(f"{family}: {text!r}\n  ours   {answer['entities']}\n  theirs {expected}")
            print(f"{family}: {len(texts) - different} of {len(texts)} texts are equal, {found} entities")
            failed += different
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
