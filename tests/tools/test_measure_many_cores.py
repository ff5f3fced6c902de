# SPDX-License-Identifier: Apache-2.0
"""tools/measure_many_cores: parts are kept, a call that runs out of time is gone on with, and the table sets measured beside simulated threads."""
import json
import os
import subprocess
import sys
import unittest

from tool_modules import ROOT, FolderTest

TOOL = ROOT / "tools" / "measure_many_cores"
# A program that takes a while for the part that the file SLOW names, notes each call, and is as fast as its threads; simulated ones are faster.
PROGRAM = """#!{python}
import json, os, pathlib, sys, time
folder = pathlib.Path(__file__).parent
words = sys.argv[1:]
if words[0] == "--version":
    print("bascule 0.1.0")
elif words[0] == "bringup":
    print(json.dumps({{"started": "now", "cores": 2, "isa": "avx512", "machine": {{"processor": {{}}, "kernel": {{}}, "caches": []}},
                      "figures": [{{"item": "products", "name": "float32", "place": "all cores", "median": 123.456, "unit": "GFLOP/s"}}]}}))
else:
    with open(folder / "calls", "a") as calls:
        print(*words, file=calls)
    slow = folder / "slow"
    if slow.is_file() and slow.read_text() in " ".join(words):
        time.sleep(60)
    if (folder / "fails").is_file() and "--simulate" not in words:
        sys.exit("bascule: not on this machine")
    threads = int(words[words.index("--threads") + 1])
    print(json.dumps({{"samples_per_second": {{"median": 100.0 * threads / (0.8 if "--simulate" in words and threads > 1 else 1)}}, "ceiling_samples_per_second": 125.0 * threads}}))
"""


@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
class ManyCores(FolderTest):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "bascule"
        self.program.write_text(PROGRAM.format(python=sys.executable))
        self.program.chmod(0o755)

    def run_tool(self, *options):
        command = [TOOL, "--program", self.program, "--out", self.folder / "out", "--threads", "1,2", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        calls = self.folder / "calls"
        made = calls.read_text().splitlines() if calls.is_file() else []
        calls.unlink(missing_ok=True)
        return done, made

    def test_measured_threads_stand_beside_simulated_ones(self):
        done, calls = self.run_tool("--only", "products", "bridgetower-demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("products: float32, all cores: 123.5 GFLOP/s", done.stdout)
        self.assertEqual([("--threads 2" in call, "--simulate" in call) for call in calls].count((True, True)), 1)
        self.assertIn("bridgetower-demo, float32, 2 threads: measured is 0.800 times simulated, more than 3% off\n", done.stdout)
        self.assertNotIn("1 threads", done.stdout)
        self.assertIn("| bridgetower-demo | float32 | 2 | 200 | 80.0% | 2.000 | 0.800 | 1.000 | - |", done.stdout)
        document = json.loads((self.folder / "out" / "many_cores.json").read_text())
        self.assertEqual([row["threads"] for row in document["rows"]], [2, 1])

    def test_what_is_there_is_not_measured_again(self):
        self.run_tool("--only", "bridgetower-demo-float32-1-measured")
        done, calls = self.run_tool("--only", "bridgetower-demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call for call in calls if "--threads 1 --steps" in call], [])
        self.assertEqual(self.run_tool("--only", "bridgetower-demo")[1:], ([],))

    def test_rounds_measure_all_parts_again(self):
        done, calls = self.run_tool("--only", "bridgetower-demo", "--rounds", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(calls[:4], calls[4:])
        document = json.loads((self.folder / "out" / "many_cores.json").read_text())
        self.assertEqual((len(document["rows"]), len(document["parts"])), (2, 8))

    def test_a_part_that_the_end_cuts_off_is_begun_anew_once(self):
        (self.folder / "slow").write_text("--threads 1 --simulate")
        done, _ = self.run_tool("--only", "bridgetower-demo", "--seconds", "3")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("1 of 4 parts are left", done.stderr)
        done, calls = self.run_tool("--only", "bridgetower-demo", "--seconds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(calls), 1)
        self.assertIn("bridgetower-demo-float32-1-simulated: not measured: takes longer than 1 s", done.stdout)

    def test_a_part_that_fails_leaves_its_reason(self):
        (self.folder / "fails").touch()
        done, _ = self.run_tool("--only", "bridgetower-demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("bridgetower-demo-float32-2-measured: not measured: bascule: not on this machine", done.stdout)
        self.assertEqual(json.loads((self.folder / "out" / "many_cores.json").read_text())["rows"], [])
