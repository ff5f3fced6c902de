#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/entities.json: random results of token classification with the figures that seqeval gives them in its default mode, which are those of run_ner.py.

    make_entity_goldens.py [OUT_FILE]

A result has the number of its tags' list among the schemes, and for each row a letter a token, "a" for the first tag: what is labelled and what is predicted. Some tags are of other schemes than IOB: seqeval takes any. Needs seqeval.
"""
import argparse
import json
import pathlib
import random
import warnings

import seqeval
from seqeval.metrics import accuracy_score, classification_report

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = 200
FIGURES = ("precision", "recall", "f1", "accuracy")
SCHEMES = [["O", "B-PER", "I-PER"], ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"], ["O", "I-PER", "I-LOC"], ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"], ["NOUN", "VERB", "X", ".", "O"],
           ["B", "I", "O"], ["B-a-b", "I-a-b", "B-b", "I-b", "O"], ["O", "PER", "LOC"], ["Öl", "Ül", "O", "B-l"], ["X", "E", "S", ".", "NOUN-a", "O"]]


def result(draw):
    tags = draw.choice(SCHEMES)
    rows, likeness = draw.randint(1, 3), draw.choice([0.0, 0.5, 0.8, 0.95, 1.0])
    labelled = [[draw.randrange(len(tags)) for _ in range(draw.randint(1, 7))] for _ in range(rows)]
    predicted = [[tag if draw.random() < likeness else draw.randrange(len(tags)) for tag in row] for row in labelled]
    names = lambda rows: [[tags[tag] for tag in row] for row in rows]
    report = classification_report(names(labelled), names(predicted), output_dict=True, zero_division=0)["micro avg"]
    letters = lambda rows: ["".join(chr(ord("a") + tag) for tag in row) for row in rows]
    figures = {"precision": report["precision"], "recall": report["recall"], "f1": report["f1-score"], "accuracy": accuracy_score(names(labelled), names(predicted))}
    return {"tags": SCHEMES.index(tags), "labelled": letters(labelled), "predicted": letters(predicted), "figures": [float(figures[key]) for key in FIGURES]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(ROOT / "tests" / "data" / "entities.json"), help="default: tests/data/entities.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    draw = random.Random(1)
    made = [result(draw) for _ in range(RESULTS)]
    version = getattr(seqeval, "__version__", "1.2.2")
    pathlib.Path(arguments.out).write_text('{"made_with": {"seqeval": "' + version + '"},\n"schemes": ' + json.dumps(SCHEMES) + ',\n"figures": ' + json.dumps(FIGURES) + ',\n"results": [\n' + ",\n".join(json.dumps(one, separators=(",", ":")) for one in made) + "]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
