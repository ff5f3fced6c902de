# SPDX-License-Identifier: Apache-2.0
"""tools/same_bits: what differs and what one of two programs lacks; every head, optimizer, scheduler and command that answers is among its runs."""
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tool_modules import PROGRAM, ROOT, load

same_bits = load("same_bits")
ROWS = [{"row": 0, "entities": [{"text": "x"}], "seconds": 1.0}, {"row": 1, "entities": [], "seconds": 2.0}]


class SameBits(unittest.TestCase):
    def compare(self, old, new):
        """(exit code, lines) of the tool, where two programs leave these documents in each run."""
        before, now = ((found if same_bits.REFUSED in found else same_bits.digests(found)) if found else None for found in (old, new))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as output:
            record = pathlib.Path(folder, "record.json")
            keys = [f"T5, {isa}, {way}" for isa in ("avx512", "avx2") for way in same_bits.WAYS]
            record.write_text(json.dumps(dict.fromkeys(keys, before) if old else {}))
            with mock.patch.object(same_bits, "run", return_value=now), \
                    mock.patch.object(sys, "argv", ["same_bits", "program", "--against", str(record), "--quick", "--heads", "T5"]):
                code = same_bits.main()
        return code, [line.partition(": ")[2] for line in output.getvalue().splitlines()]

    def test_the_same_is_no_difference_whatever_the_time_it_took(self):
        again = [{**row, "seconds": 9.0} for row in ROWS]
        self.assertEqual(self.compare({"run": ROWS, "weights": "ab"}, {"run": again, "weights": "ab"}), (0, ["5 digests"] * 2))

    def test_a_value_that_changed_or_is_gone_differs(self):
        changed = [ROWS[0], {**ROWS[1], "row": 2}]
        shorter = [{**ROWS[0], "entities": []}, ROWS[1]]
        without = [{"entities": row["entities"]} for row in ROWS]
        for rows, words in ((changed, "run[].row"), (shorter, "run[].entities, length, run[].entities[].text"), (without, "run[].row"), (ROWS[:1], "run, length, run[].entities, length, run[].row")):
            with self.subTest(words):
                self.assertEqual(self.compare({"run": ROWS}, {"run": rows}), (1, [f"DIFFERENT: {words}"] * 2))

    def test_what_one_program_lacks_is_told_and_does_not_count(self):
        added = [{**row, "cut": False} for row in ROWS]
        self.assertEqual(self.compare({"run": ROWS}, {"run": added, "more": "ab"}), (0, ["4 digests; new: more, run[].cut"] * 2))
        refused = {same_bits.REFUSED: "run: bascule: unknown key"}
        self.assertEqual(self.compare(None, {"run": ROWS}), (0, ["not compared: not in the record"] * 2))
        self.assertEqual(self.compare(refused, {"run": ROWS}), (0, ["not compared: the recorded program refused: run: bascule: unknown key"] * 2))
        self.assertEqual(self.compare(refused, refused), (0, ["refused: run: bascule: unknown key"] * 2))
        self.assertEqual(self.compare({"run": ROWS}, refused), (1, ["DIFFERENT: refused: run: bascule: unknown key"] * 2))

    def test_a_line_of_pictures_counts_without_its_seconds_and_their_check(self):
        found = []
        for seconds, check in ((1.0, "a"), (2.0, "b")):
            with tempfile.TemporaryDirectory() as folder:
                pathlib.Path(folder, "images.jsonl").write_text(json.dumps({"file": "00000.png", "seconds": seconds, "check": check}) + "\n")
                found.append(same_bits.contents(pathlib.Path(folder)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0]["images.jsonl"], [{"file": "00000.png"}])

    def test_the_digest_of_a_picture_is_of_its_pixels_and_not_of_its_texts(self):
        def digest(text, pixels):
            with tempfile.NamedTemporaryFile() as file:
                pathlib.Path(file.name).write_bytes(bytes(33) + text + b"IDAT" + pixels)
                return same_bits.picture_digest(pathlib.Path(file.name))

        self.assertEqual(digest(b"one", b"pixels"), digest(b"another", b"pixels"))
        self.assertNotEqual(digest(b"one", b"pixels"), digest(b"one", b"pixelz"))

    def test_every_head_optimizer_scheduler_and_answer_is_covered(self):
        listed = subprocess.run([PROGRAM, "settings", "--json"], capture_output=True, text=True, check=True)
        allowed = {entry["key"]: set(re.findall(r'"(\w+)"', entry["allowed"])) for entry in json.loads(listed.stdout)["keys"]}
        uses = list(same_bits.HEADS.values())
        texts = [(ROOT / f"config/{use.config}.toml").read_text() for use in uses]
        for table, key, usual in (("model", "head", ""), ("training", "optimizer", "adamw")):
            found = {str(use.changes.get(table, {}).get(key, "")).strip('"') or (re.search(rf'^{key} = "(\w+)"', text, re.M) or ["", usual])[1] for use, text in zip(uses, texts)}
            self.assertLessEqual(allowed[f"{table}.{key}"], found)
        self.assertEqual({question[0] for use in uses for question in use.questions}, {"search", "classify", "fill", "embed", "generate", "draw"})
        self.assertEqual({name.partition(", ")[2] for name in same_bits.HEADS if name.startswith("drawing")}, {"PNDM", "DDIM", "Euler"})
        for family in ("BERT", "RoBERTa", "DistilBERT"):
            self.assertLessEqual({f"{family} {head}" for head in ("masked_lm", "classes", "values", "tags")}, set(same_bits.HEADS))
