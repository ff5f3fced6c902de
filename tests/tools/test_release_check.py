# SPDX-License-Identifier: Apache-2.0
"""tools/release_check keeps what is done, goes on behind it, and says what failed or was skipped."""
import contextlib
import io
import os
import sys
from unittest import mock

from tool_modules import ROOT, FolderTest, load


class ReleaseCheck(FolderTest):
    def setUp(self):
        super().setUp()
        self.tool = load("release_check")
        self.parts = [self.part("first", "echo 3 passed, 0 failed"), self.part("second", "echo 2 of 3 passed; exit 4"),
                      self.part("third", "echo none", needs=("no-such-program",)), self.part("fourth", "echo 1 passed")]

    def part(self, name, script, needs=()):
        return self.tool.Part(name, f"what {name} does", ["sh", "-c", f"echo >> {self.folder}/{name}.ran; {script}"], needs)

    def run_tool(self, *words):
        with mock.patch.multiple(self.tool, ROOT=self.folder, RESULTS=self.folder / "results", parts=lambda: self.parts,
                                 commit_of_clean_tree=lambda: "abc"), \
                mock.patch.object(sys, "argv", ["release_check", *words]), contextlib.redirect_stdout(io.StringIO()) as output:
            code = self.tool.main()
        return code, output.getvalue()

    def times(self, name):
        ran = self.folder / f"{name}.ran"
        return len(ran.read_text().splitlines()) if ran.exists() else 0

    def test_one_table_says_what_passed_failed_and_was_skipped(self):
        code, output = self.run_tool()
        self.assertEqual(code, 1)
        rows = {line.split(" | ")[0].strip("| "): line for line in output.splitlines() if line.startswith("|")}
        self.assertIn("| abc | passed: 3 passed, 0 failed |", rows["first"])
        self.assertIn("| FAILED, exit 4: 2 of 3 passed |", rows["second"])
        self.assertIn("| skipped: no-such-program is not installed |", rows["third"])
        self.assertIn("| passed: 1 passed |", rows["fourth"])
        self.assertEqual(self.times("third"), 0)

    def test_a_verdict_stands_in_the_table_not_a_figure_before_it(self):
        self.parts = [self.part("debian", "echo the loader: 2 of 3 slots; echo a bare Debian 12: passed: test demo")]
        self.assertIn("| passed: a bare Debian 12: passed: test demo |", self.run_tool()[1])

    def test_a_part_that_uses_the_build_folder_has_it_built_first(self):
        self.parts[0].needs_build = True
        (self.folder / "Makefile").write_text("tests:\n\t@test ! -e first.ran && echo >> built\n")
        self.run_tool("first", "second")
        self.assertEqual((self.folder / "built").read_text(), "\n")
        self.assertEqual(self.times("first"), 1)

    def test_parts_that_build_nothing_themselves_have_it_built(self):
        self.assertEqual({part.name for part in self.tool.parts() if part.needs_build}, {"cases", "kills", "rank-kills", "serve", "soak"})

    def test_a_case_that_the_program_lacks_is_skipped_by_name_and_one_that_fails_has_failed(self):
        """Also one of a pipeline, which has no config.json."""
        for case in ("goldens/fine", "goldens-families/lacking", "goldens-families/drawing"):
            (self.folder / "tests/data" / case).mkdir(parents=True)
            (self.folder / "tests/data" / case / "case.json").touch()
        program = self.folder / "bascule"
        program.write_text('#!/bin/sh\nfor case; do :; done\ncase $case in\n*/fine) echo passed;;\n*/lacking) echo "not compared lacking: unknown head";;\n'
                           '*) echo "FAILED $case"; exit 3;;\nesac\n')
        program.chmod(0o755)
        with mock.patch.object(self.tool, "ROOT", self.folder), mock.patch.dict(os.environ, BASCULE_BUILD_DIR=str(self.folder)), \
                mock.patch.object(sys, "path", [str(ROOT / "tests/faults"), *sys.path]), contextlib.redirect_stdout(io.StringIO()) as output:
            os.environ.pop("BASCULE_REFERENCE_DIR", None)
            self.assertEqual(self.tool.run_cases(), 1)
        lines = output.getvalue().splitlines()
        self.assertIn("skipped: lacking: unknown head", lines)
        self.assertTrue(any(line.startswith("FAILED: drawing, ") for line in lines), lines)
        self.assertRegex(lines[-1], r"^(\d+) passed, \1 failed, 1 skipped$")

    def test_a_part_whose_build_fails_has_failed(self):
        self.parts[0].needs_build = True
        (self.folder / "Makefile").write_text("tests:\n\t@echo it does not compile; exit 1\n")
        code, output = self.run_tool("first")
        self.assertEqual((code, self.times("first")), (1, 0))
        self.assertIn("first: FAILED, exit 2:", output)

    def test_what_is_done_is_not_repeated_unless_asked(self):
        self.run_tool("first", "second")
        code, output = self.run_tool()
        self.assertEqual([self.times(name) for name in ("first", "second", "fourth")], [1, 1, 1])
        self.assertIn("FAILED, exit 4", output)
        self.assertEqual(code, 1)
        self.run_tool("--retry")
        self.assertEqual([self.times(name) for name in ("first", "second", "fourth")], [1, 2, 1])
        self.run_tool("--again", "first")
        self.assertEqual(self.times("first"), 2)

    def test_a_part_that_was_cut_off_runs_again(self):
        with mock.patch.object(self.tool, "run_part", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
            self.run_tool()
        self.assertEqual(self.run_tool("first")[0], 0)
        self.assertEqual(self.times("first"), 1)

    def test_every_stage_of_make_check_and_every_long_check_is_a_part(self):
        names = {part.name for part in load("release_check").parts()}
        self.assertLessEqual({"format", "gcc", "clang", "tidy", "address", "thread", "cases", "fuzz", "mutate", "emulated", "image",
                              "power-cuts", "reproducible", "deb", "fresh-debian"}, names)
