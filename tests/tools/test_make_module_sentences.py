# SPDX-License-Identifier: Apache-2.0
"""tests/data/module-sentences is what tools/make_module_sentences.py writes, and what config/bert_sentences_demo.toml says of it."""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest

from tool_modules import ROOT
import make_module_sentences as tool

DATA = ROOT / "tests" / "data" / "module-sentences"
SETTINGS = ROOT / "config" / "bert_sentences_demo.toml"
VERSION = "3.11.2-6+deb12u9"  # of Debian's package python3.11-doc, from which the files were made
SPLITS = ("train", "validation")


def rows_of(split, folder=DATA):
    return [json.loads(line) for line in (folder / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]


def installed_version():
    done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "python3.11-doc"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


class Data(unittest.TestCase):
    def test_every_module_has_as_many_sentences_as_the_settings_say(self):
        text, counts = SETTINGS.read_text(), {}
        for split in SPLITS:
            counts[split] = collections.Counter(row["label"] for row in rows_of(split))
            self.assertEqual(len(set(counts[split].values())), 1)
        self.assertEqual(set(counts["train"]), set(counts["validation"]))
        said = re.search(r"# (\d+) sentences of each of (\d+) modules\n.*# (\d+) of each$", text, re.M)
        self.assertEqual([int(number) for number in said.groups()], [counts["train"]["re"], len(counts["train"]), counts["validation"]["re"]])
        self.assertEqual([counts["train"]["re"], len(counts["train"]), counts["validation"]["re"]], [tool.TRAIN, tool.MODULES, tool.VALIDATION])

    def test_the_settings_name_these_files_and_columns(self):
        data = tomllib.loads(SETTINGS.read_text())["data"]
        for split in SPLITS:
            self.assertEqual((SETTINGS.parent / data[f"{split}_file"]).resolve(), (DATA / f"{split}.jsonl").resolve())
            for row in rows_of(split):
                self.assertEqual(list(row), [data["text_column"], data["label_column"]])

    def test_no_sentence_is_in_both_splits_or_of_two_modules(self):
        keys = collections.Counter(tool.key_of(row["text"]) for split in SPLITS for row in rows_of(split))
        self.assertEqual([key for key, times in keys.items() if times > 1], [])

    def test_the_files_are_what_the_tool_writes(self):
        if installed_version() != VERSION:
            self.skipTest(f"needs python3.11-doc {VERSION}")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "tools/make_module_sentences.py", folder], check=True)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), [f"{split}.jsonl" for split in SPLITS])
            for split in SPLITS:
                self.assertEqual((DATA / f"{split}.jsonl").read_bytes(), pathlib.Path(folder, f"{split}.jsonl").read_bytes())


class Sentences(unittest.TestCase):
    def sentences(self, text):
        return list(tool.sentences_of(text))

    def test_come_from_paragraphs_of_prose_without_mark_up(self):
        self.assertEqual(self.sentences("<p>Call <code>f</code>\n  with <em>two</em> arguments.</p><pre>Code is none.</pre>"), ["Call f with two arguments."])
        self.assertEqual(self.sentences("<dl><dt><p>A signature.</p></dt><dd><p>What it does.</p></dd></dl>"), ["What it does."])
        self.assertEqual(self.sentences("<table><tr><td><p>A cell.</p></td></tr></table><p>After<br>it.</p>"), ["After it."])
        self.assertEqual(self.sentences('<div class="versionadded"><p><span>New in version 3.8.</span></p></div><p>Kept.</p>'), ["Kept."])

    def test_end_at_a_full_stop_before_a_capital_but_not_after_an_abbreviation(self):
        self.assertEqual(self.sentences("<p>One ends. Another (it is short.) Uses e.g. Python or i.e. That. Version 3.11 is f.x here.</p>"),
                         ["One ends.", "Another (it is short.)", "Uses e.g. Python or i.e. That.", "Version 3.11 is f.x here."])

    def test_short_long_and_odd_ones_are_left_out(self):
        sentence = "Return the number of bytes that were read."
        self.assertTrue(tool.is_kept(sentence))
        for other in ("Return the number of bytes.", sentence[:-1] + " again" * 20 + ".", sentence.lower(), sentence[:-1] + ":", "Return 1, 2, 3, 4, 5, 6, 7, 8.", sentence[:-1] + " \u2014."):
            self.assertFalse(tool.is_kept(other), other)

    def test_that_stand_twice_count_nowhere_and_only_pages_of_a_module_count(self):
        with tempfile.TemporaryDirectory() as folder:
            own = {"a": "A sentence that only the first module has.", "bb": "A sentence that only the second module has.", "intro": "A sentence that no module of Python has."}
            for name, sentence in own.items():
                (pathlib.Path(folder) / f"{name}.html").write_text(f'<section id="{"module-" if name != "intro" else ""}{name}"><p>{sentence} This one is in version {len(name)} of all pages.</p>')
            self.assertEqual(tool.read_modules(pathlib.Path(folder)), {name: [own[name]] for name in ("a", "bb")})

    def test_of_validation_have_the_smallest_hashes(self):
        sentences = [f"Sentence number {number}." for number in range(150)]
        train, validation = tool.split(sentences)
        self.assertEqual((len(train), len(validation)), (tool.TRAIN, tool.VALIDATION))
        self.assertLess(max(map(tool.hash_of, validation)), min(map(tool.hash_of, train)))
        for part in (train, validation):
            self.assertEqual(part, sorted(part, key=sentences.index))
