# SPDX-License-Identifier: Apache-2.0
"""Contract 3: the recorded bits on whatever machine this is, by whole trainings on each of its instruction sets. See tools/recorded_bits.py."""
import subprocess
import sys
import unittest

from bascule_run import PROGRAM, ROOT, has_tiles, instruction_sets, is_sanitized


class RecordedBits(unittest.TestCase):
    # Under sanitizers, the short runs: all of them take 40 minutes there, and each kernel has tests of its own.
    def test_each_instruction_set_computes_them(self):
        chosen = ["--quick"] if is_sanitized() else []
        for isa in [*instruction_sets(), *(["amx"] if has_tiles() else [])]:
            with self.subTest(isa=isa):
                done = subprocess.run([sys.executable, ROOT / "tools/recorded_bits.py", PROGRAM, "--isa", isa, *chosen], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
