# SPDX-License-Identifier: Apache-2.0
"""tools/mutate puts every fault behind its number, and refuses one that the code has no single place for."""
import collections
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

from tool_modules import ROOT, load
import generated_faults
import placed_faults

mutate = load("mutate")


def fault(number, old, new, after=""):
    return placed_faults.Fault(number, "sums", old, new, "it adds", ["kernels"], after)


def locate(one, text):
    placed_faults.locate(one, {"src/sums/a.cpp": text})


def rendered(text, *faults):
    for one in faults:
        locate(one, text)
    first, _, rest = placed_faults.with_faults(text, list(faults)).partition("\n")
    assert first == '#include "mutation.h"'
    return rest


class Mutate(unittest.TestCase):
    def test_an_expression_is_chosen_by_the_faults_number(self):
        self.assertEqual(rendered("y = a + b;", fault(7, "a + b", "a - b")), "y = (bascule_mutation == 7 ? (a - b) : (a + b));")

    def test_a_statement_is_chosen_by_the_faults_number(self):
        self.assertEqual(rendered("f(); g();", fault(7, "f();", ";")), "{ if (bascule_mutation == 7) { ; } else { f(); } } g();")

    def test_a_condition_of_any_type_may_be_constant(self):
        self.assertEqual(rendered("if (p) f();", fault(7, "p", "true")), "if ((bascule_mutation == 7 || (p))) f();")
        self.assertEqual(rendered("if (p) f();", fault(7, "p", "false")), "if ((bascule_mutation != 7 && (p))) f();")

    def test_faults_may_lie_within_each_other_and_share_a_place(self):
        inner = "(bascule_mutation == 3 ? (c) : (b))"
        self.assertEqual(rendered("y = a + b;", fault(2, "a + b", "a"), fault(3, "b", "c")),
                         f"y = (bascule_mutation == 2 ? (a) : (a + {inner}));")
        self.assertEqual(rendered("y = b;", fault(1, "b", "d"), fault(3, "b", "c")), f"y = (bascule_mutation == 1 ? (d) : ({inner}));")

    def test_a_fault_needs_one_place(self):
        for text, one in (("a; a;", fault(1, "a", "b")), ("c;", fault(1, "a", "b")), ("x a; x a;", fault(1, "a", "b", "x"))):
            with self.assertRaises(placed_faults.Misplaced):
                locate(one, text)
        one = fault(1, "a", "b", "second")
        locate(one, "a first\na second a a")
        self.assertEqual((one.begin, one.line), (17, 2))

    def test_a_fault_is_in_any_file_of_its_room(self):
        one = fault(1, "a", "b")
        placed_faults.locate(one, {"src/sums/c.cpp": "c;", "src/sums/d.h": "a;"})
        self.assertEqual((one.file, one.begin), ("src/sums/d.h", 0))
        with self.assertRaises(placed_faults.Misplaced):
            placed_faults.locate(one, {"src/sums/c.cpp": "a;", "src/sums/d.h": "a;"})

    def test_a_fault_begins_with_a_whole_name(self):
        for text in ("a.b();", "a->b();", "a::b();", "ab();"):
            with self.subTest(text), self.assertRaises(placed_faults.Misplaced):
                locate(fault(1, "b()", "c()"), text)

    def test_a_fault_is_in_no_constexpr_function(self):
        for text in ("constexpr int f(int a) { return a + 1; }", "  static constexpr int f(int a) {\n    g();\n    return a + 1;\n  }\n"):
            with self.subTest(text), self.assertRaises(placed_faults.Misplaced):
                locate(fault(1, "a + 1", "a"), text)
        locate(fault(1, "a + 1", "a"), "constexpr int f(int b) {\n  return b;\n}\nconstexpr int c = 2;\nint g() {\n  return a + 1;\n}")

    def test_a_fault_is_in_no_text(self):
        with self.assertRaises(placed_faults.Misplaced):
            locate(fault(1, "a + 1", "a"), 'const char kScript[] = R"page(\nb = a + 1;\n)page";')
        locate(fault(1, "a + 1", "a"), 'const char kScript[] = R"(b)";\nc = a + 1;\nd = R"(e)";')

    def test_a_fault_is_an_expression_or_whole_statements(self):
        with self.assertRaises(placed_faults.Misplaced):
            locate(fault(1, "f(b).c();", "d();"), "const int a = f(b).c();")
        locate(fault(1, "f(b).c();", "d();"), "g();  // as a = b\nf(b).c();")
        for old in ("if (a)", "a = b;\n  c = d", "return a", "const int a = 1;", "constexpr int a = 1;",
                    "auto a = b();", "a ? b", "f(a, b", "a)", '"text', "{a",
                    "a, b", "a : b", "a ||", "&& a", "b(c) +", ""):
            with self.subTest(old), self.assertRaises(placed_faults.Misplaced):
                locate(fault(1, old, "b"), old)
            with self.subTest(old), self.assertRaises(placed_faults.Misplaced):
                locate(fault(1, "constant", old), "constant")
        for old in ("return a;", "constant", "const Lock a;\n  b();", "a<b, c>(d, e)", "a ? b : c::d", "*a + b++", "B{a, b}"):
            locate(fault(1, old, "b"), old)

    def test_overlapping_faults_are_named_with_both_lists(self):
        def pair(old, new):
            faults = [fault(1, "a + b", "a"), fault(2, old, new)]
            for one, name in zip(faults, ("sums", "terms")):
                locate(one, "a + b + c;")
                one.listed_in = name
            return placed_faults.overlaps(faults)
        self.assertEqual(pair("b + c", "c"), ["src/sums/a.cpp:1: overlapping faults are in sums.toml, `a + b`, and in terms.toml, `b + c`"])
        self.assertEqual(pair("a + b", "a"), ["src/sums/a.cpp:1: the same fault is in sums.toml, `a + b`, and in terms.toml, `a + b`"])
        for old, new in (("a + b", "b"), ("b", "c"), ("a + b + c", "c"), ("c", "a")):
            self.assertEqual(pair(old, new), [], old)

    def test_a_word_chooses_faults_by_list_file_promise_or_test(self):
        faults = [placed_faults.Fault(1, "first", "a", "b", "it adds", ["kernels"], file="a.cpp"),
                  placed_faults.Fault(2, "second", "a", "b", "it counts", ["plan"], file="b.cpp")]
        for word, number in (("first", 1), ("second", 2), ("b.cpp", 2), ("adds", 1), ("kernels", 1)):
            self.assertEqual([f.number for f in mutate.chosen(faults, [word], 0)], [number], word)

    def test_a_list_names_promises_and_the_tests_follow(self):
        entries = [{"from": "a", "to": "b"}, {"after": "c", "from": "a", "to": "b"}]
        recorded = {str(placed_faults.number_of("sums", entries[0])): "plan: A.B"}
        with tempfile.TemporaryDirectory() as name, self.rooms_of(name):
            folder = pathlib.Path(name)
            (folder / "noticed_by.json").write_text(json.dumps(recorded))
            (folder / "waivers.toml").write_text('1 = "the same"')
            (folder / "sums.toml").write_text('["it adds"]\nfrom = "a"\nto = "b"\n["it adds twice"]\nafter = "c"\nfrom = "a"\nto = "b"\ntests = ["text"]\n')
            (folder / "terms.toml").write_text('tests = ["x", "y"]\n["it counts"]\nfrom = "a"\nto = "b"\n')
            found = {f.breaks: (f.listed_in, f.after, f.tests) for f in placed_faults.read_faults()}
            self.assertEqual(found, {"it adds": ("sums", "", ["plan", "sums"]), "it adds twice": ("sums", "c", ["text", "sums"]),
                                     "it counts": ("terms", "", ["x", "y"])})
            (folder / "sums.toml").write_text('["it adds"]\nfrom = "a"\n["it adds"]\nfrom = "b"\n')
            placed_faults.read_list.cache_clear()
            with self.assertRaisesRegex(SystemExit, "mutate: sums.toml: .* twice"):
                placed_faults.read_faults()

    @staticmethod
    @contextlib.contextmanager
    def rooms_of(folder):
        """Lists of this folder alone."""
        folder = pathlib.Path(folder)
        with unittest.mock.patch.multiple(placed_faults, MUTATIONS=folder, RECORDED=folder / "noticed_by.json", WAIVERS=folder / "waivers.toml"):
            placed_faults.read_list.cache_clear()
            yield
        placed_faults.read_list.cache_clear()

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

    def test_cases_that_are_named_after_the_file_are_tried_before_all_of_a_program(self):
        one, tried = fault(1, "a", "b"), []
        one.file, one.tests = "src/sums/long_sums.cpp", ["kernels", "kernels: Add.Adds", "tests/faults/test_plan.py"]
        jobs = {"kernels": unittest.mock.Mock(kind="gtest", command=["test_kernels"]), "tests/faults/test_plan.py": unittest.mock.Mock(kind="unittest")}
        known = unittest.mock.Mock(**{"usual_seconds.return_value": 1.0, "case_of.return_value": None})
        with unittest.mock.patch.object(mutate, "run_test", lambda jobs, test, number, limit: (tried.append(test), 1.0, "passed", None)[1:]):
            self.assertIsNone(mutate.try_fault(jobs, one, known, 9.0)[0])
        self.assertEqual(tried, ["kernels: *LongSum*", *one.tests])

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
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(mutate, "BUILD", pathlib.Path(folder)):
            started = pathlib.Path(folder, "started")
            rank = f"import os, pathlib, time; os.setpgid(0, 0); pathlib.Path('{started}.new').write_text(str(os.getpid())); os.rename('{started}.new', '{started}'); time.sleep(60)"
            test = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"
            jobs = {"hangs": unittest.mock.Mock(command=[sys.executable, "-c", test], kind="exitcode", environment={})}
            for limit in (1.0, 20.0):  # on a busy machine two programs may take over a second to start
                self.assertEqual(mutate.run_test(jobs, "hangs", 0, limit)[1], "overran")
                if started.exists():
                    break
            deadline = time.monotonic() + 10  # a kill takes a moment
            while not (has_ended := self.has_ended(started.read_text())) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertTrue(has_ended, "a rank in a group of its own goes on")

    def test_what_a_program_leaves_is_not_in_the_checkout(self):
        leaves = "import os, sys; open('left', 'w').close(); sys.exit(os.getcwd() == sys.argv[1])"
        jobs = {"leaves": unittest.mock.Mock(command=[sys.executable, "-c", leaves, str(ROOT)], kind="gtest", environment={})}
        with tempfile.TemporaryDirectory() as build, unittest.mock.patch.object(mutate, "BUILD", pathlib.Path(build)):
            self.assertEqual(mutate.run_test(jobs, "leaves", 0, 9.0)[1], "passed")
        self.assertFalse((ROOT / "left").exists())

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
            self.assertIn("1 s of tests; 1 are not tried yet\n1 of 1 listed faults noticed, 100.0 %\n", output.getvalue())
            self.assertEqual(run(faults), ([("second", 0), ("second", 2)], 1))
            self.assertIn("2 s of tests\n1 of 2 listed faults noticed, 50.0 %\n", output.getvalue())
            self.assertEqual(run(faults), ([], 1))
            self.assertEqual(run(faults[:1], again=True)[0], [("first", 1)])
            self.assertEqual(run(faults[:1], changes=" M a.cpp\n")[0], [("first", 0), ("first", 1)])
            mutate.run_test = lambda *arguments: (1.0, "failed", None)
            with self.assertRaises(mutate.FailsUnchanged):
                run(faults[:1], changes=" M a.cpp\n")

    def test_listed_and_generated_faults_have_shares_of_their_own(self):
        def report(noticed):
            faults = [fault(number, "a", "b") for number in range(200)]
            for one in faults[100:]:
                one.listed_in = "generated"
            outcomes = {n: {"noticed_by": "kernels" if n % 100 < noticed[n // 100] else None, "seconds": 1.0} for n in range(200)}
            with contextlib.redirect_stdout(io.StringIO()) as output:
                return mutate.report(faults, outcomes, None), output.getvalue()
        self.assertEqual([report(noticed)[0] for noticed in ((97, 85), (96, 85), (97, 84))], [0, 1, 1])
        self.assertIn("97 of 100 listed faults noticed, 97.0 %\n85 of 100 generated faults noticed, 85.0 %\n", report((97, 85))[1])

    def test_generated_faults_that_do_not_compile_are_left_out(self):
        made = placed_faults.Fault(8, "generated", "p + q", "p - q", "", [], file="a.cpp", begin=4)
        listed = placed_faults.Fault(9, "sums", "r", "s", "", [], file="a.cpp", begin=12)
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(mutate, "TREE", pathlib.Path(folder)):
            pathlib.Path(folder, "a.cpp").write_text(placed_faults.with_faults("y = p + q + r;", [made, listed]))
            for column, numbers in ((34, {8}), (80, {9}), (3, set())):
                self.assertEqual(mutate.at_errors(f"../a.cpp:2:{column}: error: no operator\n../a.cpp:2:1: note: here\n"), numbers)

    def test_every_fault_has_a_place_and_a_number_of_its_own(self):
        faults = placed_faults.read_faults()
        placed_faults.place_all(faults)
        self.assertGreaterEqual(len(faults), 120)
        self.assertEqual(len({fault.number for fault in faults} - {0}), len(faults))
        for one in faults:
            self.assertTrue(one.tests and one.breaks and one.old != one.new, one)
        self.assertEqual(len({(f.listed_in, f.after, f.old, f.new) for f in faults}), len(faults))


SOURCE = """#include <a> // x + y;
namespace {
constexpr int kSum = 1 + 2;
constexpr int twice(int a) { return a * 2; }
template <int N>
struct Sums {
  int get(int a = 1 + 1) const { return values[a] < 3 ? a : N; }
};
}  // namespace
Adder::Adder(int a) : a_{a}, b_(a + 1) {
  static_assert(sizeof(a) > 2);
  const std::vector<std::pair<int, int>> pairs = all();
  char text[16];
  std::snprintf(text, 8, "%d", a + 1);
  BODY
}
"""


class Generated(unittest.TestCase):
    def made(self, body):
        """What is in place of what in a body; the faults of the code around it are the same for each."""
        def pairs(text):
            return collections.Counter((f.old, f.new) for f in generated_faults.candidates("src/sums/a.cpp", SOURCE.replace("BODY", text)) if generated_faults.fits(f, []))
        return sorted((pairs(body) - pairs("")).elements())

    def test_nothing_is_put_where_the_compiler_needs_a_constant_or_people_read(self):
        self.assertEqual(sorted((f.old, f.new) for f in generated_faults.candidates("src/sums/a.cpp", SOURCE.replace("BODY", ""))),
                         [("values[a] < 3", new) for new in ("false", "true", "values[a] < 4", "values[a] <= 3")])
        for body in ("switch (a) { case 1: break; }", "constexpr int b[] = {1, 2};", "enum { kOne = 1 };", 'throw Error("a" + b);', "progress.note(a + b);",
                     "int b[4][8];", "if constexpr (kSum > 2) return;", "values.reserve(8);", "BASCULE_CHECK(a > 1);", "BASCULE_DCHECK(a > 1);", "static_cast<void>(b);", "const Lock lock(mutex);",
                     'say("x", a < b);', "// f(); a + b", "struct Local { int a = 1; };", "return;"):
            self.assertEqual(self.made(body), [], body)

    def test_a_statement_is_removed(self):
        for body in ("f(a, b);", "a_.b->c[i].d = e;", "++a;", "*p = q;", "BASCULE_TRY(f());", "std::fill_n<int>(a, b, c);", "(is_a ? b : c) = d;"):
            self.assertIn((body, ";"), self.made(body), body)
        self.assertEqual(self.made("  // why\n  f();"), [("f();", ";")])
        self.assertEqual(self.made("for (const int b : all) f(b);"), [("f(b);", ";")])
        self.assertEqual(self.made("if (b) f();"), [("b", "false"), ("b", "true")])  # without it, b may as well be false

    def test_a_condition_is_constant(self):
        self.assertEqual(self.made("while (next(a)) f();"), [("f();", ";"), ("next(a)", "false")])
        self.assertEqual(self.made("for (int i{}; i != n; ++i) {}"), [("i != n", "false"), ("i != n", "i == n")])
        self.assertEqual(self.made("if (const auto* p = f()) g();"), [])
        self.assertEqual(self.made("return a && !b;"), [("!b", "true"), ("a", "true"), ("a && !b", "a && !!b"), ("a && !b", "a || !b"),
                                                        ("a && !b", "false"), ("a && !b", "true")])
        self.assertIn(("is_a", "true"), self.made("b = is_a ? c : d;"))
        self.assertEqual(self.made("f(x, [&](int b) { return true; });"), [("f(x, [&](int b) { return true; });", ";"), ("true", "false")])

    def test_a_token_is_changed(self):
        for old, new in (("a + 2.5f", "a - 2.5f"), ("a + 2.5f", "a + (2.5f + 1)"), ("a * b[i]", "a / b[i]"), ("std::min(a, b)", "std::max(a, b)"),
                         ("std::min<int>(a, b)", "std::max<int>(a, b)"), ("a & kFlag", "a | kFlag")):
            self.assertIn((old, new), self.made(f"return {old};"))
        self.assertEqual(self.made("f(x[1'000]);"), [("1'000", "(1'000 + 1)"), ("f(x[1'000]);", ";")])
        self.assertEqual(self.made('return a + "b";'), [])

    def test_a_choice_is_of_the_code_alone(self):
        texts = {"src/sums/a.cpp": SOURCE.replace("BODY", "a = b + c;\n  return d < e;"), "src/sums/b.cpp": "int f(int a) {\n  return a + 1;\n}\n",
                 "src/sums/c.h": "inline int g(int a) { return a * 3; }\n"}

        def chosen(texts, *arguments, listed=(), waived=""):
            with tempfile.TemporaryDirectory() as folder:
                waivers = pathlib.Path(folder, "waivers.toml")
                waivers.write_text(waived)
                with unittest.mock.patch.multiple(generated_faults, rooms=lambda: ["sums"], sources=lambda room: texts, WAIVERS=waivers):
                    return generated_faults.chosen_faults(list(listed), *arguments)

        def numbers(faults):
            return {f.number for f in faults}

        two, whole = chosen(texts, 1, 2), chosen(texts, 1, 1000)
        self.assertEqual({f.file for f in two}, {"src/sums/a.cpp", "src/sums/b.cpp"})
        self.assertEqual(two, whole[:2])
        self.assertEqual(chosen(texts, 1, 0), [])
        self.assertNotEqual(numbers(chosen(texts, 2, 5)), numbers(chosen(texts, 1, 5)))
        moved = {"src/sums/b.cpp": texts["src/sums/b.cpp"] + "void g() {\n  f();\n}\n", "src/sums/d.cpp": texts["src/sums/a.cpp"]}
        self.assertEqual(numbers(chosen(moved, 1, 1)), numbers(two[:1]))
        self.assertEqual({f.file for f in chosen(texts, 1, 9, ["b.cpp"])}, {"src/sums/b.cpp"})
        self.assertEqual(numbers(chosen(texts, 1, 1000, waived=f'{two[0].number} = "no test can tell"')), numbers(whole) - {two[0].number})
        with self.assertRaisesRegex(SystemExit, r"waivers.toml: no such faults: \[1\]"):
            chosen(texts, 1, 1, waived='1 = "gone"')
        listed = placed_faults.Fault(1, "sums", "c;\n  return d", "c", "it adds", ["plan"], file="src/sums/a.cpp", begin=texts["src/sums/a.cpp"].index("c;\n  return d"))
        beside = chosen(texts, 1, 1000, listed=[listed])
        self.assertFalse({"a = b + c;", "b + c", "d < e"} & {f.old for f in beside})
        self.assertEqual({tuple(f.tests) for f in beside}, {("sums", "plan")})

    def test_waivers_are_few(self):
        self.assertLessEqual(len(generated_faults.waivers()), 0.03 * mutate.GENERATED)
