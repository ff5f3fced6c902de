# SPDX-License-Identifier: Apache-2.0
"""tools/mutate puts every fault behind its number, and refuses one that the code has no single place for."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]


def load():
    loader = importlib.machinery.SourceFileLoader("mutate", str(ROOT / "tools/mutate"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    sys.modules["mutate"] = module
    loader.exec_module(module)
    return module


mutate = load()


def fault(number, old, new, after=""):
    return mutate.Fault(number, "a.cpp", old, new, "it adds", ["kernels"], after)


def rendered(text, *faults):
    for one in faults:
        mutate.locate(one, text)
    first, _, rest = mutate.with_faults(text, list(faults)).partition("\n")
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
            with self.assertRaises(mutate.Misplaced):
                mutate.locate(one, text)
        one = fault(1, "a", "b", "second")
        mutate.locate(one, "a first\na second a a")
        self.assertEqual((one.begin, one.line), (17, 2))

    def test_a_fault_is_an_expression_or_whole_statements(self):
        with self.assertRaises(mutate.Misplaced):
            mutate.locate(fault(1, "f(b).c();", "d();"), "const int a = f(b).c();")
        mutate.locate(fault(1, "f(b).c();", "d();"), "g();  // as a = b\nf(b).c();")
        for old in ("if (a)", "a = b;\n  c = d", "return a", "const int a = 1;", "auto a = b();", "a ? b", "f(a, b", "a)", '"text', "{a"):
            with self.subTest(old), self.assertRaises(mutate.Misplaced):
                mutate.locate(fault(1, old, "b"), old)
        for old in ("return a;", "constant", "const Lock a;\n  b();"):
            mutate.locate(fault(1, old, "b"), old)

    def test_overlapping_faults_are_refused(self):
        with self.assertRaises(mutate.Misplaced):
            rendered("a + b + c;", fault(1, "a + b", "a"), fault(2, "b + c", "c"))

    def test_a_word_chooses_faults_by_list_file_promise_or_test(self):
        faults = [mutate.Fault(1, "a.cpp", "a", "b", "it adds", ["kernels"], listed_in="first"),
                  mutate.Fault(2, "b.cpp", "a", "b", "it counts", ["plan"], listed_in="second")]
        for word, number in (("first", 1), ("second", 2), ("b.cpp", 2), ("adds", 1), ("kernels", 1)):
            self.assertEqual([f.number for f in mutate.chosen(faults, [word], 0)], [number], word)
        of_list = mutate.chosen(mutate.read_faults(), ["fresh_two"], 0)
        self.assertEqual({f.listed_in for f in of_list}, {"fresh_two"})

    def test_a_test_that_overruns_its_limit_is_told_from_one_that_fails(self):
        outcomes = {"slow": (3.0, "overran"), "wrong": (1.0, "failed"), "right": (1.0, "passed")}
        one = fault(1, "a", "b")
        with unittest.mock.patch.object(mutate, "run_test", lambda jobs, test, number, limit: outcomes[test]):
            for tests, expected in ((["right", "slow"], ("slow", "overran", 4.0)), (["right", "wrong"], ("wrong", "failed", 2.0)),
                                    (["right"], (None, "passed", 1.0))):
                one.tests = tests
                self.assertEqual(mutate.try_fault({}, one, dict.fromkeys(tests, 1.0), 9.0), expected)

    def test_the_list_is_complete(self):
        faults = mutate.read_faults()
        self.assertGreaterEqual(len(faults), 120)
        for one in faults:
            self.assertTrue(one.tests and one.breaks and one.old != one.new, one)
        self.assertEqual(len({(f.file, f.after, f.old, f.new) for f in faults}), len(faults))


if __name__ == "__main__":
    unittest.main()
