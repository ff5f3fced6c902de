# SPDX-License-Identifier: Apache-2.0
"""Texts of different lengths with a class, to time classification with: sentences of tests/data/module-sentences, some of them joined."""
import itertools
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SENTENCES = ROOT / "tests" / "data" / "module-sentences" / "train.jsonl"
WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
MOST_SENTENCES = 4


def joined_rows():
    """[{"text", "label"}]: of each module one sentence, then two, three, four, one again, ... that follow each other in the file."""
    rows = []
    sentences = [json.loads(line) for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    for label, group in itertools.groupby(sentences, key=lambda row: row["label"]):
        texts, taken = [row["text"] for row in group], 0
        for number in itertools.cycle(range(1, MOST_SENTENCES + 1)):
            if taken + number > len(texts):
                break
            rows.append({"text": " ".join(texts[taken:taken + number]), "label": label})
            taken += number
    return rows
