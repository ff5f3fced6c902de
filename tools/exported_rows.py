# SPDX-License-Identifier: Apache-2.0
"""Cells of a data set as export_dataset.py writes them: captions, classes, texts, words with tags; and its errors."""
import math

LONGEST_LINE = 2**20  # of a text corpus, as the program reads it
NO_LABELS = object()  # in place of the names of classes: the labels of a split are all -1


class ExportError(Exception):
    """What stops an export: the exit code, and one line."""

    def __init__(self, code, line):
        super().__init__(line)
        self.code = code


class BadRow(Exception):
    """A row that cannot become a line of the manifest."""


def row_captions(value):
    captions = value if isinstance(value, (list, tuple)) else [value]
    if not captions or not all(isinstance(c, str) and c.strip() for c in captions):
        raise BadRow("the caption is empty or not text")
    if any(0xD800 <= ord(character) <= 0xDFFF for caption in captions for character in caption):
        raise BadRow("the caption is not valid Unicode")
    return captions


def row_label(value):
    if value not in (0, 1):
        raise BadRow(f"the label is {value!r}, not 0 or 1")
    return int(value)


def row_class(value, names):
    """The name of a class, or its number where the data set names none; -1 in a split without labels (NO_LABELS)."""
    if names is NO_LABELS:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "" or (isinstance(value, int) and value < 0):
        raise BadRow(f"the class is {value!r}, neither a number nor a name")
    if names and isinstance(value, int):
        if value >= len(names):
            raise BadRow(f"the class is {value}, but the data set names {len(names)}")
        return names[value]
    return value


def row_text(value, column):
    """A cell as it is, for a column of texts or summaries."""
    if not isinstance(value, str) or not value.strip():
        raise BadRow(f"the {column} is empty or not text")
    if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
        raise BadRow(f"the {column} is not valid Unicode")
    return value


def labelled_text(row, columns, class_names):
    texts = {}
    for ours in ("text", "text_pair"):
        value = row[columns[ours]] if ours in columns else ""
        if not isinstance(value, str):
            raise BadRow(f"the {ours} is not text")
        if any(0xD800 <= ord(character) <= 0xDFFF for character in value):
            raise BadRow(f"the {ours} is not valid Unicode")
        if ours in columns:
            texts[ours] = value
    label = row[columns["class"]]
    is_value = isinstance(label, float) and math.isfinite(label)
    if not is_value:
        row_class(label, class_names)  # refuses what is no class
    return {**texts, "label": label}


def tagged_words(row, columns, names):
    """Words with the names of their tags, or where the data set names none with what it has."""
    words, tags = row[columns["text"]], row[columns["tag"]]
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise BadRow("the words are not a list of texts")
    if any(0xD800 <= ord(character) <= 0xDFFF or character == "\0" for word in words for character in word):
        raise BadRow("a word is not valid Unicode, or contains a zero byte")
    if not isinstance(tags, list) or len(tags) != len(words):
        raise BadRow("there are not as many tags as words")
    return {"tokens": words, "tags": [row_class(tag, names) for tag in tags]}


def row_lines(value):
    """The lines with text of a cell, or of a cell's texts."""
    texts = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise BadRow("the text is not text")
    lines = [" ".join(line.split()) for text in texts for line in text.splitlines()]
    if any(0xD800 <= ord(character) <= 0xDFFF for line in lines for character in line):
        raise BadRow("the text is not valid Unicode")
    longest = max((len(line.encode()) for line in lines), default=0)
    if longest > LONGEST_LINE:
        raise BadRow(f"the text has a line of {longest} bytes, the longest allowed is {LONGEST_LINE}")
    return [line for line in lines if line]
