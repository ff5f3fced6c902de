# SPDX-License-Identifier: Apache-2.0
"""tools/run_tests counts what ran, and takes a crash, a hang-up and an empty run for failures."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tool_modules import ROOT, load

# A GoogleTest executable as far as the runner can see: says and reports what its first argument asks for.
FAKE_GTEST = """#!/usr/bin/env python3
import json, os, sys
cases, end = json.loads(sys.argv[1]), sys.argv[2]
report = next(word.split(":", 1)[1] for word in sys.argv if word.startswith("--gtest_output=json:"))
for case in cases:
    print("[       OK ] Fake.Case (0 ms)" if case == "ok" else "[  FAILED  ] Fake.Case (0 ms)")
sys.stdout.flush()
if end == "crash":
    os.abort()
suite = [{"status": "RUN", "result": "SKIPPED" if case == "skip" else "COMPLETED",
          **({"failures": [{}]} if case == "bad" else {})} for case in cases]
open(report, "w").write(json.dumps({"testsuites": [{"testsuite": suite}]}))
sys.exit(int(end))
"""


def run(tests, *options, names=()):
    """Runs the tool over [(name, protocol, command...)] and returns its exit code and its last line."""
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder, "fake_gtest")
        fake.write_text(FAKE_GTEST)
        listing = [{"name": name, "protocol": protocol, "cmd": [str(fake) if word == "FAKE" else word for word in command],
                    "is_parallel": True, "env": {}} for name, protocol, *command in tests]
        pathlib.Path(folder, "listing.json").write_text(json.dumps(listing))
        meson = pathlib.Path(folder, "meson")
        meson.write_text(f"#!/bin/sh\ncat {folder}/listing.json\n")
        for script in (fake, meson):
            script.chmod(0o755)
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
        names = names or [name for name, *_ in tests]
        done = subprocess.run([sys.executable, ROOT / "tools/run_tests", *options, folder, *names],
                              env=environment, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout or done.stderr).splitlines()[-1]


class RunTests(unittest.TestCase):
    def test_cases_are_summed_over_executables(self):
        self.assertEqual(run([("a", "gtest", "FAKE", '["ok", "ok", "skip"]', "0"), ("b", "exitcode", "true"),
                              ("c", "exitcode", "sh", "-c", "exit 77")]), (0, "3 passed, 0 failed, 2 skipped"))

    def test_a_failed_case_fails_the_run(self):
        self.assertEqual(run([("a", "gtest", "FAKE", '["ok", "bad"]', "1")]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(run([("a", "exitcode", "false"), ("b", "exitcode", "true")]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_one_that_takes_longer_than_the_limit_has_failed(self):
        tests = [("a", "exitcode", "sleep", "2"), ("b", "exitcode", "true")]
        self.assertEqual(run(tests, "--limit", "1"), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(run(tests), (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_crash_is_a_failure_beside_what_had_passed(self):
        self.assertEqual(run([("a", "gtest", "FAKE", '["ok", "ok"]', "crash")]), (1, "2 passed, 1 failed, 0 skipped"))

    def test_a_bad_exit_without_a_failed_case_is_a_failure(self):
        self.assertEqual(run([("a", "gtest", "FAKE", '["ok"]', "23")]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_python_file_without_a_test_is_a_failure(self):
        for output, expected in (("Ran 0 tests in 0.1s\n\nOK\n", (0, 1, 0)), ("Ran 0 tests in 0.1s\n\nOK (skipped=1)\n", (0, 0, 1)),
                                 ("Ran 0 tests in 0.1s\n\nFAILED (errors=1)\n", (0, 1, 0)), ("Ran 3 tests in 0.1s\n\nOK (skipped=1)\n", (2, 0, 1))):
            counted = load("run_tests").count_unittest(output)
            self.assertEqual((counted.passed, counted.failed, counted.skipped), expected, output)

    def test_only_the_tests_that_are_named_run(self):
        tests = [("a", "exitcode", "false"), ("b", "exitcode", "true")]
        self.assertEqual(run(tests, names=["b"]), (0, "1 passed, 0 failed, 0 skipped"))
        self.assertEqual(run(tests, names=["b", "test_bm25"])[0], 0)  # a file of tests by its last part

    def test_a_name_without_a_test_is_refused(self):
        self.assertEqual(run([("a", "exitcode", "true")], names=["a", "none"]), (2, "run_tests: error: there is no test none"))

    def test_a_name_that_quick_skips_is_refused_as_such(self):
        self.assertEqual(run([("a", "exitcode", "true")], "--quick", names=["a", "test_draw"]), (2, "run_tests: error: --quick skips tests/faults/test_draw.py"))

    def test_a_run_in_which_nothing_passes_is_a_failure(self):
        self.assertEqual(run([("a", "exitcode", "sh", "-c", "exit 77")]), (1, "0 passed, 0 failed, 1 skipped"))
