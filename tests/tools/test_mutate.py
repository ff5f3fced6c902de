# SPDX-License-Identifier: Apache-2.0
"""tools/mutate puts every fault behind its number, and refuses one that the code has no single place for."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import placed_faults  # the path first


def load():
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools/mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    loader.exec_module(module)
    return module


mutate = load()


def fault(number, old, new, after=""):
    return placed_faults.Fault(number, "a.cpp", old, new, "it adds", ["kernels"], after)


def rendered(text, *faults):
    for one in faults:
        placed_faults.locate(one, text)
    first, _, rest = placed_faults.with_faults(text, list(faults)).partition("\n")
    assert first == '#include "mutation.h"'
    return rest


class Mutate(unittest.TestCase):
    def test_an_expression_is_chosen_by_the_faults_number(self):
        self.assertEqual(rendered("y = a + b;", fault(7, "a + b", "a - b")), "y = (bascule_mutation == 7 ? (a - b) : (a + b));")

    def test_a_statement_is_chosen_by_the_faults_number(self):
        self.assertEqual(rendered("f(); g();", fault(7, "f();", ";")), "{ if (bascule_mutation == 7) { ; } else { f(); } } g();")

    def test_faults_may_lie_within_each_other_and_share_a_place(self):
        inner = "(bascule_mutation == 3 ? (c) : (b))"
        self.assertEqual(rendered("y = a + b;", fault(2, "a + b", "a"), fault(3, "b", "c")),
                         f"y = (bascule_mutation == 2 ? (a) : (a + {inner}));")
        self.assertEqual(rendered("y = b;", fault(1, "b", "d"), fault(3, "b", "c")), f"y = (bascule_mutation == 1 ? (d) : ({inner}));")

    def test_a_fault_needs_one_place(self):
        for text, one in (("a; a;", fault(1, "a", "b")), ("c;", fault(1, "a", "b")), ("x a; x a;", fault(1, "a", "b", "x"))):
            with self.assertRaises(placed_faults.Misplaced):
                placed_faults.locate(one, text)
        one = fault(1, "a", "b", "second")
        placed_faults.locate(one, "a first\na second a a")
        self.assertEqual((one.begin, one.line), (17, 2))

    def test_a_fault_begins_with_a_whole_name(self):
        for text in ("a.b();", "a->b();", "a::b();", "ab();"):
            with self.subTest(text), self.assertRaises(placed_faults.Misplaced):
                placed_faults.locate(fault(1, "b()", "c()"), text)

    def test_a_fault_is_in_no_constexpr_function(self):
        for text in ("constexpr int f(int a) { return a + 1; }", "  static constexpr int f(int a) {\n    g();\n    return a + 1;\n  }\n"):
            with self.subTest(text), self.assertRaises(placed_faults.Misplaced):
                placed_faults.locate(fault(1, "a + 1", "a"), text)
        placed_faults.locate(fault(1, "a + 1", "a"), "constexpr int f(int b) {\n  return b;\n}\nconstexpr int c = 2;\nint g() {\n  return a + 1;\n}")

    def test_a_fault_is_an_expression_or_whole_statements(self):
        with self.assertRaises(placed_faults.Misplaced):
            placed_faults.locate(fault(1, "f(b).c();", "d();"), "const int a = f(b).c();")
        placed_faults.locate(fault(1, "f(b).c();", "d();"), "g();  // as a = b\nf(b).c();")
        for old in ("if (a)", "a = b;\n  c = d", "return a", "const int a = 1;", "constexpr int a = 1;",
                    "auto a = b();", "a ? b", "f(a, b", "a)", '"text', "{a",
                    "a, b", "a : b", "a ||", "&& a", "b(c) +", ""):
            with self.subTest(old), self.assertRaises(placed_faults.Misplaced):
                placed_faults.locate(fault(1, old, "b"), old)
            with self.subTest(old), self.assertRaises(placed_faults.Misplaced):
                placed_faults.locate(fault(1, "constant", old), "constant")
        for old in ("return a;", "constant", "const Lock a;\n  b();", "a<b, c>(d, e)", "a ? b : c::d", "*a + b++", "B{a, b}"):
            placed_faults.locate(fault(1, old, "b"), old)

    def test_overlapping_faults_are_named_with_both_lists(self):
        def pair(old, new):
            faults = [fault(1, "a + b", "a"), fault(2, old, new)]
            for one, name in zip(faults, ("sums", "terms")):
                placed_faults.locate(one, "a + b + c;")
                one.listed_in = name
            return placed_faults.overlaps(faults)
        self.assertEqual(pair("b + c", "c"), ["a.cpp:1: overlapping faults are in sums.toml, `a + b`, and in terms.toml, `b + c`"])
        self.assertEqual(pair("a + b", "a"), ["a.cpp:1: the same fault is in sums.toml, `a + b`, and in terms.toml, `a + b`"])
        for old, new in (("a + b", "b"), ("b", "c"), ("a + b + c", "c"), ("c", "a")):
            self.assertEqual(pair(old, new), [], old)

    def test_a_word_chooses_faults_by_list_file_promise_or_test(self):
        faults = [placed_faults.Fault(1, "a.cpp", "a", "b", "it adds", ["kernels"], listed_in="first"),
                  placed_faults.Fault(2, "b.cpp", "a", "b", "it counts", ["plan"], listed_in="second")]
        for word, number in (("first", 1), ("second", 2), ("b.cpp", 2), ("adds", 1), ("kernels", 1)):
            self.assertEqual([f.number for f in mutate.chosen(faults, [word], 0)], [number], word)
        of_list = mutate.chosen(placed_faults.read_faults(), ["fresh_two"], 0)
        self.assertEqual({f.listed_in for f in of_list}, {"fresh_two"})

    def test_a_test_that_overruns_its_limit_is_told_from_one_that_fails(self):
        outcomes = {"slow": (3.0, "overran", None), "wrong": (1.0, "failed", "wrong: A.B"), "right": (1.0, "passed", None)}
        one = fault(1, "a", "b")
        with unittest.mock.patch.object(mutate, "run_test", lambda jobs, test, number, limit: outcomes[test]):
            for tests, expected in ((["right", "slow"], ("slow", "overran", 4.0, None)), (["right", "wrong"], ("wrong", "failed", 2.0, "wrong: A.B")),
                                    (["right"], (None, "passed", 1.0, None))):
                one.tests = tests
                known = unittest.mock.Mock(**{"usual_seconds.return_value": 1.0, "case_of.return_value": None})
                self.assertEqual(mutate.try_fault({}, one, known, 9.0), expected)

    def test_the_case_that_noticed_a_fault_is_tried_first_the_next_time(self):
        one, tried = fault(1, "a", "b"), []

        def run_test(jobs, test, number, limit):
            tried.append(test)
            return (1.0, "failed", "kernels: Add.Adds") if test in failing else (1.0, "passed", None)

        def attempt():
            tried.clear()
            with contextlib.redirect_stdout(io.StringIO()):
                mutate.try_all({}, [one], outcomes, 1, 9.0, 0)
            return outcomes.of_faults[1]["noticed_by"], list(tried)

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.multiple(mutate, run_test=run_test, BUILD=pathlib.Path(folder)):
            for has_changes in ("", " M a.cpp"):
                git = unittest.mock.Mock(side_effect=[unittest.mock.Mock(stdout=has_changes), unittest.mock.Mock(stdout=f"commit{len(has_changes)}")])
                with unittest.mock.patch.object(mutate.subprocess, "run", git):
                    outcomes = mutate.Outcomes(False)
                outcomes.usual["kernels"] = 1.0
                failing = ("kernels", "kernels: Add.Adds")
                if not has_changes:
                    self.assertEqual(attempt(), ("kernels", ["kernels"]))
                self.assertEqual(attempt(), ("kernels", ["kernels: Add.Adds"]))
                failing = ("kernels",)  # another case notices it now
                self.assertEqual(attempt(), ("kernels", ["kernels: Add.Adds", "kernels"]))
            one.tests = ["plan"]
            outcomes.usual["plan"] = 1.0
            self.assertEqual(attempt(), (None, ["plan"]))

    def test_recorded_cases_are_tried_first_where_the_build_folder_has_none(self):
        faults = [fault(number, "a", "b") for number in (3, 1, 2)]
        with tempfile.TemporaryDirectory() as folder:
            recorded, build = pathlib.Path(folder, "noticed_by.json"), pathlib.Path(folder, "build")
            build.mkdir()
            git = unittest.mock.Mock(return_value=unittest.mock.Mock(stdout="commit"))
            with unittest.mock.patch.multiple(mutate, RECORDED=recorded, BUILD=build), unittest.mock.patch.object(mutate.subprocess, "run", git):
                recorded.write_text('{"1": "kernels: A.B", "2": "kernels: A.C", "9": "kernels: A.D"}')
                (build / "noticed_by.json").write_text('{"2": "kernels: A.E", "3": "kernels: A.F"}')
                outcomes = mutate.Outcomes(False)
                self.assertEqual([outcomes.case_of(one, "kernels") for one in faults], ["kernels: A.F", "kernels: A.B", "kernels: A.E"])
                self.assertIsNone(outcomes.case_of(faults[0], "plan"))
                outcomes.record(faults)  # not the fault 9, which no list holds
            self.assertEqual(list(json.loads(recorded.read_text()).items()), [("3", "kernels: A.F"), ("1", "kernels: A.B"), ("2", "kernels: A.E")])

    def test_the_case_that_failed_is_read_from_the_output(self):
        for kind, output, case in (("gtest", "[ RUN      ] A.B\n[  FAILED  ] A.B (0 ms)\n[  FAILED  ] A.B\n", "kernels: A.B"),
                                   ("gtest", "[ RUN      ] A.B\n[       OK ] A.B\n[ RUN      ] Every/A.C/3\n", "kernels: Every/A.C/3"),
                                   ("gtest", "cannot start", None), ("exitcode", "wrong", None),
                                   ("unittest", "ERROR: setUpClass (m.Runs)\n", None),
                                   ("unittest", "FAIL: test_it_adds (m.Runs.test_it_adds) (number=1)\n", "kernels: test_it_adds")):
            self.assertEqual(mutate.failing_case("kernels: A*", kind, output), case, output)

    @staticmethod
    def has_ended(process):
        """Or waits to be collected."""
        try:
            return pathlib.Path("/proc", process, "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    def test_what_a_test_that_overran_has_started_ends_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            started = pathlib.Path(folder, "started")
            rank = f"import os, pathlib, time; os.setpgid(0, 0); pathlib.Path('{started}.new').write_text(str(os.getpid())); os.rename('{started}.new', '{started}'); time.sleep(60)"
            test = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"
            jobs = {"hangs": unittest.mock.Mock(command=[sys.executable, "-c", test], kind="exitcode", environment={})}
            self.assertEqual(mutate.run_test(jobs, "hangs", 0, 1.0)[1], "overran")
            deadline = time.monotonic() + 10  # a kill takes a moment
            while not (has_ended := self.has_ended(started.read_text())) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertTrue(has_ended, "a rank in a group of its own goes on")

    def test_a_run_goes_on_where_it_was_interrupted(self):
        faults = [fault(1, "a", "b"), fault(2, "c", "d")]
        for one, name in zip(faults, ("first", "second")):
            one.tests = [name]
        tried = []

        def run_test(jobs, test, number, limit):
            tried.append((test, number))
            return 1.0, "failed" if number == 1 else "passed", None

        with tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.multiple(mutate, run_test=run_test, BUILD=pathlib.Path(folder)), \
                unittest.mock.patch.object(mutate.subprocess, "run") as git, contextlib.redirect_stdout(io.StringIO()) as output:
            def run(wanted, again=False, changes=""):
                git.side_effect = [unittest.mock.Mock(stdout=changes), unittest.mock.Mock(stdout="0123\n")]
                outcomes = mutate.Outcomes(again)
                untried = mutate.without_outcome(wanted, outcomes)
                mutate.try_all({}, untried, outcomes, 1, 9.0, 0)
                done, tried[:] = list(tried), []
                return done, mutate.report(faults, outcomes.of_faults, None)

            self.assertEqual(run(faults[:1]), ([("first", 0), ("first", 1)], 0))
            self.assertIn("1 of 1 faults noticed, 100.0 %, by 1 s of tests; 1 are not tried yet", output.getvalue())
            self.assertEqual(run(faults), ([("second", 0), ("second", 2)], 1))
            self.assertIn("1 of 2 faults noticed, 50.0 %, by 2 s of tests\n", output.getvalue())
            self.assertEqual(run(faults), ([], 1))
            self.assertEqual(run(faults[:1], again=True)[0], [("first", 1)])
            self.assertEqual(run(faults[:1], changes=" M a.cpp\n")[0], [("first", 0), ("first", 1)])
            mutate.run_test = lambda *arguments: (1.0, "failed", None)
            with self.assertRaises(mutate.FailsUnchanged):
                run(faults[:1], changes=" M a.cpp\n")

    def test_every_fault_has_a_place_and_a_number_of_its_own(self):
        faults = placed_faults.read_faults()
        placed_faults.place_all(faults)
        self.assertGreaterEqual(len(faults), 120)
        self.assertEqual(len({fault.number for fault in faults} - {0}), len(faults))
        for one in faults:
            self.assertTrue(one.tests and one.breaks and one.old != one.new, one)
        self.assertEqual(len({(f.file, f.after, f.old, f.new) for f in faults}), len(faults))


if __name__ == "__main__":
    unittest.main()
