#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/library-names: functions, methods and classes of Python's library and the sentence that says what each does.

  tools/make_library_names.py [FOLDER] [--library DIR]

FOLDER: where to write; default tests/data/library-names. DIR: the pages, by default those of Debian's package python3.11-doc.

- A definition counts with its first name (`shutil.rmtree`) and the first sentence of its first paragraph, without notes on versions.
- Kept are sentences of MIN_WORDS to MAX_WORDS words in ASCII (quotation marks and dashes are made so). A sentence that stands twice, or differs only in case and
  digits from another, is left out altogether, and so is a name that is defined twice.
- The HELD_OUT definitions whose names have the smallest hashes are for validation, the next HELD_OUT for test, all others for training.

train.jsonl has pairs, {"text": the sentence, "name": the name}. The other files are a retrieval in the form of BEIR: corpus.jsonl has the names of all definitions, in order;
validation_queries.jsonl and test_queries.jsonl have the sentences that are held out, validation_relevance.tsv and test_relevance.tsv the name of each.
"""
import argparse
import collections
import html.parser
import json
import pathlib

from make_module_sentences import LIBRARY, ROOT, SENTENCE_END, VOID_TAGS, hash_of, key_of

HELD_OUT = 500
MIN_WORDS, MAX_WORDS = 3, 30
KINDS = {"function", "method", "class"}
LEFT_OUT_CLASSES = {"versionadded", "versionchanged", "deprecated", "deprecated-removed", "availability", "sidebar", "topic", "footnote", "seealso", "headerlink", "note", "warning"}
IN_ASCII = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "…": "..."})


class Definitions(html.parser.HTMLParser):
    """Collects (first name, first paragraph) of each <dl class="py ..."> of KINDS that has both."""

    def __init__(self):
        super().__init__()
        self.open = []         # (tag, whether the element is left out)
        self.definitions = []  # those that are open: {"kind", "depth", "name", "body", "text"}
        self.text = None       # of the paragraph that is open
        self.found = []

    def handle_starttag(self, tag, attributes):
        if tag in VOID_TAGS:
            self.handle_data(" ")
            return
        values = dict(attributes)
        classes = set((values.get("class") or "").split())
        self.open.append((tag, bool(classes & LEFT_OUT_CLASSES)))
        inner = self.definitions[-1] if self.definitions else None
        if tag == "dl" and "py" in classes:
            self.definitions.append({"is_kept": bool(classes & KINDS), "depth": len(self.open), "name": None, "body": None, "text": None})
        elif inner is None:
            return
        elif tag == "dt" and "sig" in classes:
            inner["name"] = inner["name"] or values.get("id")
        elif tag == "dd" and len(self.open) == inner["depth"] + 1:
            inner["body"] = len(self.open)
        elif tag == "p" and inner["text"] is None and inner["body"] and len(self.open) == inner["body"] + 1 and not self.is_left_out():
            self.text = []

    def handle_endtag(self, tag):
        if tag in VOID_TAGS:
            return
        if tag == "p" and self.text is not None:
            self.definitions[-1]["text"] = " ".join("".join(self.text).split())
            self.text = None
        while self.open:
            closed, _ = self.open.pop()
            if self.definitions and len(self.open) < self.definitions[-1]["depth"]:
                done = self.definitions.pop()
                if done["is_kept"] and done["name"] and done["text"]:
                    self.found.append((done["name"], done["text"]))
            if closed == tag:
                break

    def handle_data(self, data):
        if self.text is not None and not self.is_left_out():
            self.text.append(data)

    def is_left_out(self):
        return any(left_out for _, left_out in self.open)


def definitions_of(text):
    """(name, sentence) of a page."""
    parser = Definitions()
    parser.feed(text)
    parser.close()
    for name, paragraph in parser.found:
        yield name, SENTENCE_END.sub("\\1\n", paragraph).split("\n")[0].translate(IN_ASCII)


def is_kept(sentence):
    return MIN_WORDS <= len(sentence.split()) <= MAX_WORDS and sentence.isascii()


def read_definitions(library):
    """[(name, sentence)], in the order of the pages."""
    found = [pair for page in sorted(library.glob("*.html")) for pair in definitions_of(page.read_text(encoding="utf-8")) if is_kept(pair[1])]
    sentences = collections.Counter(key_of(sentence) for _, sentence in found)
    names = collections.Counter(name for name, _ in found)
    return [(name, sentence) for name, sentence in found if sentences[key_of(sentence)] == 1 and names[name] == 1]


def split(definitions):
    """{split: definitions}"""
    by_hash = sorted(definitions, key=lambda one: hash_of(one[0]))
    return {"validation": by_hash[:HELD_OUT], "test": by_hash[HELD_OUT:2 * HELD_OUT], "train": by_hash[2 * HELD_OUT:]}


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "tests" / "data" / "library-names")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    definitions = read_definitions(arguments.library)
    splits = split(definitions)
    write_lines(folder / "train.jsonl", ({"text": sentence, "name": name} for name, sentence in splits["train"]))
    write_lines(folder / "corpus.jsonl", ({"_id": name, "text": name} for name, _ in sorted(definitions)))
    for place in ("validation", "test"):
        write_lines(folder / f"{place}_queries.jsonl", ({"_id": f"q{number}", "text": sentence} for number, (_, sentence) in enumerate(splits[place])))
        lines = [f"q{number}\t{name}\t1\n" for number, (name, _) in enumerate(splits[place])]
        (folder / f"{place}_relevance.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
