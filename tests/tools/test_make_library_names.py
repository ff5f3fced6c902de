# SPDX-License-Identifier: Apache-2.0
"""tests/data/library-names is what tools/make_library_names.py writes, and what config/bert_embeddings_demo.toml says of it."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

from tool_modules import ROOT
from test_make_module_sentences import VERSION, installed_version
import make_library_names as tool
from make_module_sentences import key_of

DATA = ROOT / "tests" / "data" / "library-names"
SETTINGS = ROOT / "config" / "bert_embeddings_demo.toml"

ITEM = '<dl class="py {kind}"><dt class="sig sig-object py" id="{name}"><p>signature</p></dt><dd>{body}</dd></dl>'


def rows_of(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


class Data(unittest.TestCase):
    def test_no_definition_is_in_two_splits_and_each_is_in_the_corpus(self):
        train, names = rows_of("train.jsonl"), [row["_id"] for row in rows_of("corpus.jsonl")]
        found, texts = [row["name"] for row in train], [key_of(row["text"]) for row in train]
        for split in ("validation", "test"):
            queries = {row["_id"]: row["text"] for row in rows_of(f"{split}_queries.jsonl")}
            judged = [line.split("\t") for line in (DATA / f"{split}_relevance.tsv").read_text().splitlines()[1:]]
            self.assertEqual([query for query, _, _ in judged], list(queries))
            self.assertEqual(len(queries), tool.HELD_OUT)
            found += [name for _, name, _ in judged]
            texts += [key_of(text) for text in queries.values()]
        self.assertEqual(sorted(found), names)
        self.assertEqual((len(set(names)), len(set(texts))), (len(names), len(names)))

    def test_the_settings_name_these_files_and_their_numbers(self):
        text = SETTINGS.read_text()
        data = tomllib.loads(text)["data"]
        for key, name in [("train_file", "train.jsonl"), *((f"{split}_{kind}", f"{split}_{kind}.{end}") for split in ("validation", "test") for kind, end in (("queries", "jsonl"), ("relevance", "tsv")))]:
            self.assertEqual((SETTINGS.parent / data[key]).resolve(), DATA / name)
        self.assertEqual(data["validation_corpus"], data["test_corpus"])
        self.assertEqual(list(rows_of("train.jsonl")[0]), [data["text_column"], data["text_pair_column"]])
        said = [int(number.replace(",", "")) for number in re.findall(r"# (?:all )?([\d,]+) (?:pairs of|names|sentences|more)", text)]
        self.assertEqual(said, [len(rows_of("train.jsonl")), len(rows_of("corpus.jsonl")), tool.HELD_OUT, tool.HELD_OUT])

    def test_the_files_are_what_the_tool_writes(self):
        if installed_version() != VERSION:
            self.skipTest(f"needs python3.11-doc {VERSION}")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "tools/make_library_names.py", folder], check=True)
            for path in pathlib.Path(folder).iterdir():
                self.assertEqual((DATA / path.name).read_bytes(), path.read_bytes(), path.name)


class Definitions(unittest.TestCase):
    def found(self, *items):
        return list(tool.definitions_of("".join(ITEM.format(**item) for item in items)))

    def test_have_the_first_sentence_of_their_first_paragraph(self):
        self.assertEqual(self.found({"kind": "function", "name": "a.b", "body": "<p>Do <em>one</em>\nthing. Then another.</p><p>More.</p>"}), [("a.b", "Do one thing.")])
        self.assertEqual(self.found({"kind": "data", "name": "a.b", "body": "<p>A value.</p>"}, {"kind": "method", "name": "a.c", "body": "<p>It’s kept.</p>"}), [("a.c", "It's kept.")])
        self.assertEqual(self.found({"kind": "function", "name": "a", "body": '<div class="versionadded"><p>New.</p></div>'}), [])

    def test_those_within_a_class_are_found_too_and_its_text_is_its_own(self):
        inner = ITEM.format(kind="method", name="a.C.m", body="<p>Of the method.</p>")
        self.assertEqual(self.found({"kind": "class", "name": "a.C", "body": inner + "<p>Of the class.</p>"}), [("a.C.m", "Of the method."), ("a.C", "Of the class.")])

    def test_that_say_the_same_or_have_one_name_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            items = [("a", "Return the first 3 bytes."), ("b", "Return the first 4 bytes."), ("c", "Return the whole file."), ("d", "Read a line once."), ("d", "Read a line again."), ("e", "Too short.")]
            (pathlib.Path(folder) / "page.html").write_text("".join(ITEM.format(kind="function", name=name, body=f"<p>{text}</p>") for name, text in items))
            self.assertEqual(tool.read_definitions(pathlib.Path(folder)), [("c", "Return the whole file.")])
