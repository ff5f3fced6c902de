#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/module-sentences: sentences of Python's library reference and the module that each documents.

  tools/make_module_sentences.py [FOLDER] [--library DIR]

FOLDER: where to write; default tests/data/module-sentences. DIR: the pages, by default those of Debian's package python3.11-doc.

- A label is the name of a page without `.html`. Pages that document no module of their name are left out.
- Sentences come from paragraphs of prose. Tables, code, signatures, boxed notes, footnotes and the notes on versions are left out.
- A sentence is kept where it has MIN_WORDS to MAX_WORDS words, begins with a capital letter, ends with a full stop and consists mostly of letters. One that
  stands twice, or differs only in case and digits from another, is left out altogether.
- The MODULES modules with the most sentences count. TRAIN + VALIDATION sentences of each are written, those whose hashes are smallest: the first
  VALIDATION of these to validation.jsonl, the others to train.jsonl. Rows stand in the order of the pages.
"""
import argparse
import collections
import hashlib
import html.parser
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = pathlib.Path("/usr/share/doc/python3.11/html/library")
MODULES, TRAIN, VALIDATION = 32, 80, 30
MIN_WORDS, MAX_WORDS = 6, 24
MIN_LETTERS = 0.75  # share of a sentence's characters that are ASCII letters or spaces
LEFT_OUT_TAGS = {"table", "pre", "dt", "nav", "aside", "h1", "h2", "h3", "h4", "h5", "h6", "script", "style"}
LEFT_OUT_CLASSES = {"versionadded", "versionchanged", "deprecated", "deprecated-removed", "availability", "sidebar", "topic", "footnote", "seealso", "sphinxsidebar", "related",
                    "footer", "admonition-title", "headerlink", "field-list", "contents"}
VOID_TAGS = {"br", "hr", "img", "input", "link", "meta", "col", "wbr"}
# Where a sentence ends: a full stop, with what closes after it, before a space and a capital; not after these abbreviations.
SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)(?<!cf)(?<!\b[A-Z])([.!?:][)\"”’]?) (?=[A-Z\"“(])")


class Paragraphs(html.parser.HTMLParser):
    """Collects the text of each <p> that stands in no element that is left out."""

    def __init__(self):
        super().__init__()
        self.open = []  # (tag, whether the element is left out)
        self.text = None
        self.found = []

    def handle_starttag(self, tag, attributes):
        if tag in VOID_TAGS:
            self.handle_data(" ")
            return
        classes = set((dict(attributes).get("class") or "").split())
        self.open.append((tag, tag in LEFT_OUT_TAGS or bool(classes & LEFT_OUT_CLASSES)))
        if tag == "p" and not self.is_left_out():
            self.text = []

    def handle_endtag(self, tag):
        if tag in VOID_TAGS:
            return
        while self.open and self.open.pop()[0] != tag:
            pass
        if tag == "p" and self.text is not None:
            self.found.append(" ".join("".join(self.text).split()))
            self.text = None

    def handle_data(self, data):
        if self.text is not None and not self.is_left_out():
            self.text.append(data)

    def is_left_out(self):
        return any(left_out for _, left_out in self.open)


def sentences_of(text):
    """All sentences of a page."""
    parser = Paragraphs()
    parser.feed(text)
    for paragraph in parser.found:
        yield from SENTENCE_END.sub("\\1\n", paragraph).split("\n")


def is_kept(sentence):
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in sentence)
    return (MIN_WORDS <= len(sentence.split()) <= MAX_WORDS and sentence[0].isupper() and sentence.endswith(".")
            and letters >= MIN_LETTERS * len(sentence) and sentence.isascii())


def key_of(sentence):
    """Equal for sentences that differ only in case and digits."""
    return re.sub(r"\d+", "0", sentence.lower())


def hash_of(sentence):
    return hashlib.sha256(sentence.encode()).hexdigest()


def read_modules(library):
    """{label: [sentence]} of the modules with the most sentences; labels by name, sentences in the order of the page."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in sorted(library.glob("*.html"))}
    found = {label: [sentence for sentence in sentences_of(text) if is_kept(sentence)] for label, text in pages.items() if f'id="module-{label}"' in text}
    times = collections.Counter(key_of(sentence) for sentences in found.values() for sentence in sentences)
    unique = {label: [sentence for sentence in sentences if times[key_of(sentence)] == 1] for label, sentences in found.items()}
    largest = sorted(unique, key=lambda label: (-len(unique[label]), label))[:MODULES]
    return {label: unique[label] for label in sorted(largest)}


def split(sentences):
    """(train, validation)"""
    chosen = sorted(sentences, key=hash_of)[:TRAIN + VALIDATION]
    held_out = set(chosen[:VALIDATION])
    return [s for s in sentences if s in chosen and s not in held_out], [s for s in sentences if s in held_out]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, default=ROOT / "tests" / "data" / "module-sentences")
    parser.add_argument("--library", type=pathlib.Path, default=LIBRARY)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    modules = {label: split(sentences) for label, sentences in read_modules(arguments.library).items()}
    for place, name in enumerate(("train", "validation")):
        lines = [json.dumps({"text": sentence, "label": label}) + "\n" for label, parts in modules.items() for sentence in parts[place]]
        (arguments.folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
