# SPDX-License-Identifier: Apache-2.0
"""tools/bench_compare: equal builds do not differ, a kernel slowed by 10 % is named, and what cannot be compared is said."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from tool_modules import ROOT, load
import bench_files

SLOWER, USAGE = 7, 2
SLOWED = {"entry-1": {"layer_norm_backward": 1.1}}


tool = load("bench_compare")


def pair(seed, **changes):
    """Files of one machine, measured in turn."""
    own = {"noise": (0.03, 0.006), "entries": 6, **changes}
    before = {**own, "slower": None, "speed": 1.0}
    return bench_files.document(seed, side="old", **before), bench_files.document(seed, side="new", **own)


class BenchCompare(unittest.TestCase):
    def compare(self, old, new, *options):
        """(exit code, standard output, standard error)"""
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("old.json", "new.json")]
            for file, content in zip(files, (old, new)):
                file.write_text(json.dumps(content))
            with mock.patch.object(sys, "argv", ["bench_compare", *map(str, files), *options]), contextlib.redirect_stdout(io.StringIO()) as output, \
                    contextlib.redirect_stderr(io.StringIO()) as error:
                try:
                    code = tool.main()
                except SystemExit as ended:
                    code = ended.code
        return code, output.getvalue(), error.getvalue()

    def test_equal_builds_do_not_differ(self):
        for seed in range(20):
            code, output, _ = self.compare(*pair(seed, noise=(0.04, 0.015), pair="2026" if seed % 2 else None))
            self.assertEqual(code, 0, output)
            self.assertIn("0 slower, 0 faster, 0 larger, 0 smaller", output)

    def test_few_repeats_name_no_change_that_a_disturbed_one_can_be(self):
        for seed in range(12):
            old, new = pair(seed, entries=12, repeats=3, noise=(0.03, 0.012), pair="2026" if seed % 2 else None)
            for document in (old, new):  # large models run once
                for figure in (figure for entry in document["entries"][:3] for figure in entry["figures"]):
                    del figure["values"][1:]
            code, output, _ = self.compare(old, new)
            self.assertEqual(code, 0, output)
            self.assertIn("0 slower, 0 faster", output)
        self.assertEqual(self.compare(*pair(0, repeats=3, slower={"entry-1": {"layer_norm_backward": 1.3}}))[0], SLOWER)

    def test_what_was_never_repeated_is_not_compared(self):
        code, _, error = self.compare(*pair(0, repeats=1))
        self.assertEqual(code, USAGE)
        self.assertIn("entry-0: measured once, as all that is like it", error)

    def test_a_kernel_slowed_by_a_tenth_is_named_and_nothing_else(self):
        for seed in range(10):
            code, output, _ = self.compare(*pair(seed, slower=SLOWED))
            self.assertEqual(code, SLOWER, output)
            self.assertRegex(output, r"  slower  entry-1: layer_norm_backward: \S+ -> \S+ ms, time \+")
            self.assertIn("1 slower, 0 faster", output)
            self.assertEqual(self.compare(*reversed(pair(seed, slower=SLOWED)))[0], 0)  # faster

    def test_a_clock_that_moves_slows_no_kernel(self):
        """Every kind of every run takes longer, some runs more than others; the bring-ups say so, too."""
        everything = {f"entry-{number}": dict.fromkeys(bench_files.KINDS, 1.1) for number in range(6)}
        code, output, _ = self.compare(*pair(0, slower=everything, pair=None, speed=1 / 1.1))
        self.assertEqual((code, "0 slower" in output), (0, True), output)

    def test_a_program_that_is_slower_as_a_whole_is_named(self):
        code, output, _ = self.compare(*pair(0, slower={"entry-2": dict.fromkeys(bench_files.KINDS, 1.15)}, noise=(0.004, 0.004)))
        self.assertEqual(code, SLOWER)
        self.assertRegex(output, r"slower  entry-2: samples/s: ")
        self.assertNotIn("linear", output)

    def test_larger_memory_is_said_and_is_not_slower(self):
        old, new = pair(0)
        new["entries"][0]["figures"][2]["values"] = [330.0] * 5
        code, output, _ = self.compare(old, new)
        self.assertEqual(code, 0)
        self.assertIn("larger  entry-0: memory planned: 300 -> 330 MiB, bytes +10.0 %", output)

    def test_other_machines_are_refused_unless_asked_for(self):
        old, new = pair(0)
        new["machine"] = {**new["machine"], "cores": 4, "kernel": "6.2"}
        code, output, error = self.compare(old, new)
        self.assertEqual((code, output), (USAGE, ""))
        self.assertIn("the machines differ: cores: 2, 4; --other-machine compares all the same", error)
        code, output, _ = self.compare(old, new, "--other-machine")
        self.assertEqual(code, 0)
        self.assertIn("machines differ: cores: 2, 4", output)
        self.assertIn("another kernel", output)

    def test_what_is_not_compared_is_named(self):
        old, new = pair(0, slower={"entry-0": dict.fromkeys(bench_files.KINDS, 2.0), "entry-3": dict.fromkeys(bench_files.KINDS, 2.0)}, pair=None)
        new["entries"][0]["settings_digest"] = "e2" * 32
        del new["entries"][1]
        new["entries"][1]["name"] = "another"
        new["entries"][2]["disturbed"] = ["others took 40 % of the time of the bring-up"]
        new["entries"][3].update(state="not measured: needs 99.0 GiB", figures=[])
        code, output, _ = self.compare(old, new)
        self.assertEqual(code, 0, output)
        for line in ("entry-0: the settings or the command differ", "entry-1: only in OLD", "another: only in NEW", "entry-3: disturbed in NEW: others took 40 %",
                     "entry-4: only in OLD; not measured: needs 99.0 GiB"):
            self.assertIn(f"  not compared: {line}", output)
        found = json.loads(self.compare(old, new, "--json")[1])
        self.assertEqual({row["entry"] for row in found["figures"]}, {"entry-5"})
        self.assertEqual((found["same_machine"], found["in_turn"], len(found["not_compared"])), (True, False, 6))

    def test_a_disturbance_of_both_does_not_matter_where_they_took_turns(self):
        old, new = pair(0, slower=SLOWED)
        old["entries"][1]["disturbed"] = new["entries"][1]["disturbed"] = ["others took 40 % of the time of the bring-up"]
        self.assertEqual(self.compare(old, new)[0], SLOWER)

    def test_too_much_noise_is_said(self):
        code, output, _ = self.compare(*pair(0, noise=(0.2, 0.2)))
        self.assertEqual(code, 0)
        self.assertRegex(output, r"\d+ are too noisy to show a change of 10 %")

    def test_what_is_no_file_of_figures_is_refused(self):
        old, _ = pair(0)
        for other in ({}, [], {"format": "bascule bench 2"}):
            code, _, error = self.compare(old, other)
            self.assertEqual(code, USAGE)
            self.assertIn("not a JSON of tools/bench", error)
        self.assertEqual(self.compare(old, {**old, "entries": []})[0], USAGE)

    def test_a_damaged_file_is_refused_in_one_line(self):
        def damaged(change):
            old, new = pair(0, entries=2)
            change(new, new["entries"][1]["figures"][4])
            code, output, error = self.compare(old, new)
            self.assertEqual((code, output, error.count("\n")), (USAGE, "", 1), error)
            return error

        for member in bench_files.document(0):
            if member not in ("format", "set"):
                self.assertIn(f"damaged: {member} is missing", damaged(lambda new, _, member=member: new.pop(member)))
                self.assertIn(f"damaged: {member} is of another type", damaged(lambda new, _, member=member: new.update({member: 1.5})))
        for values, words in (([], "values are no numbers"), (["a"], "values are no numbers"), ([float("nan")] * 5, "values are no numbers"), ([1.0], "1 values, 5 of the first figure")):
            self.assertIn(f"damaged: entry-1: linear_backward: {words}", damaged(lambda _, figure, values=values: figure.update(values=values)))
        self.assertIn("figure 4: of is missing", damaged(lambda _, figure: figure.pop("of")))
        self.assertIn("entry-0: twice", damaged(lambda new, _: new["entries"][1].update(name="entry-0")))
        self.assertIn("entry 1: no object", damaged(lambda new, _: new["entries"].__setitem__(1, [])))
        self.assertIn("bring-up 0: a figure is no number above 0", damaged(lambda new, _: new["bringups"][0]["figures"].update(memory=0)))

    def test_the_file_of_an_interrupted_run_is_named(self):
        old, new = pair(0)
        new["complete"] = False
        self.assertIn("note: the run of new was interrupted: it lacks entries", self.compare(old, new)[1])

    def test_a_reader_that_closes_the_pipe_changes_only_what_it_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("old.json", "new.json")]
            for file, content in zip(files, pair(0, slower=SLOWED)):
                file.write_text(json.dumps(content))
            for option in ("--all", "--json"):
                read, write = os.pipe()
                os.close(read)
                done = subprocess.run([ROOT / "tools/bench_compare", *files, option], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
                os.close(write)
                self.assertEqual((done.returncode, done.stderr), (SLOWER, ""))

    def test_the_quantiles_are_those_of_student(self):
        for probability, degrees, expected in ((0.05, 1, 12.706), (0.05, 3, 3.1824), (0.05, 4, 2.7764), (0.01, 10, 3.1693), (0.001, 15, 4.0728)):
            self.assertAlmostEqual(tool.bench_noise.quantile(probability, degrees), expected, places=3)
