# SPDX-License-Identifier: Apache-2.0
"""What README.md says is so: its generated tables are fresh, its verbs, commands and files exist, its quick commands run."""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PROGRAM = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build"), "bascule")


@unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
class Readme(unittest.TestCase):
    def run_well(self, *command):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def test_generated_tables_are_fresh(self):
        self.run_well(sys.executable, "tools/update_readme.py", "--check", PROGRAM)

    def test_its_verbs_are_those_of_the_makefile(self):
        targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
        for verb in re.findall(r"(?:^|`)make ([a-z]+)", README, re.M):
            self.assertIn(verb, targets)

    def test_its_commands_are_those_of_the_program(self):
        for command in sorted(set(re.findall(r"`bascule ([a-z]+)", README))):
            self.assertIn(f"bascule {command} ", self.run_well(PROGRAM, command, "--help").splitlines()[1])  # its own help

    def test_the_files_that_it_names_exist(self):
        for path in sorted(set(re.findall(r"`((?:config|tools|src|kernels|tests|firmware_shims)/[a-z0-9_/.]*)", README))):
            self.assertTrue((ROOT / path).exists(), path)

    def test_the_plan_of_the_demo_prints(self):
        self.assertIn("bascule plan config/demo.toml", README)
        self.run_well(PROGRAM, "plan", "config/demo.toml")


if __name__ == "__main__":
    unittest.main()
