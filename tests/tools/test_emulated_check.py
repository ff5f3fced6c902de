# SPDX-License-Identifier: Apache-2.0
"""tools/emulated_check where nothing is installed: every machine is skipped by name, with the command that installs the rest."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parent.parent.parent / "tools" / "emulated_check"


class EmulatedCheck(unittest.TestCase):
    def test_machines_that_cannot_be_emulated_are_skipped_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, TOOL, folder], env={"PATH": folder}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        for machine, line in zip(("aarch64", "Haswell", "EPYC-Rome", "max"), lines):
            self.assertRegex(line, f"^{machine}: skipped, not installed: qemu-.*; run tools/install_packages emulation$")
        self.assertEqual(lines[4:], ["0 passed, 0 failed, 4 skipped"])
