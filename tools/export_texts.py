# SPDX-License-Identifier: Apache-2.0
"""Texts, as export_dataset.py writes them: a corpus, or rows with summaries, labels or tags."""
import json
import os
import sys

from export_source import class_names_of


class Texts:
    """OUTPUT/<name>.txt: a text corpus whose documents are the rows."""

    ENDING, BETWEEN = ".txt", b"\n"

    def __init__(self, name, output):
        self.path = output / (name + self.ENDING)
        self.beside = self.path.with_name(self.path.name + ".part")
        self.file = None

    def add(self, lines):
        if not lines:
            return 0
        if self.file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.file = open(self.beside, "wb")
        else:
            self.file.write(self.BETWEEN)
        self.file.write("".join(line + "\n" for line in lines).encode())
        return 1

    def finish(self):
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.beside, self.path)


class Rows(Texts):
    """OUTPUT/<name>.jsonl, a line a row."""

    ENDING, BETWEEN = ".jsonl", b""


def of_texts(columns):
    """What a split without pictures becomes."""
    return Rows if {"summary", "tag"} & set(columns) or {"text", "class"} <= set(columns) else Texts if "text" in columns else None


def has_no_labels(rows, columns):
    """Whether the labels, or the tags of all words, are -1, as in GLUE's test files."""
    if "tag" in columns:
        return {tag for tags in rows[columns["tag"]] for tag in tags} == {-1}
    return "class" in columns and set(rows[columns["class"]]) == {-1}


def tell_classes(tables, columns):
    """Rows of texts have the classes' numbers alone."""
    names = next((names for names in (class_names_of(rows, columns) for rows in tables.values()) if names), None)
    if names and {"text", "class"} <= set(columns):
        by_number = json.dumps({str(number): name for number, name in enumerate(names)}, ensure_ascii=False)
        print(f"labels are numbers of classes; to name them in the trained model, write \"id2label\": {by_number} into the model's config.json", file=sys.stderr)
