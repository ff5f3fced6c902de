# SPDX-License-Identifier: Apache-2.0
"""Commands beside `run`, and what they print to: nothing hangs, nothing is lost without a word."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from bascule_run import EMOJI, PROGRAM, run, settings

PICTURE = EMOJI / "images" / "1f004.jpg"
SETTINGS, DATA, DISK = 2, 3, 6


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def test_what_cannot_be_printed_is_an_error(self):
        with open("/dev/full", "w") as full:
            for arguments in (("plan", settings(self.folder)), ("decode", "--output", self.folder / "p.safetensors", PICTURE)):
                done = subprocess.run([str(PROGRAM), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(done.returncode, DISK, done.stderr)
                self.assertIn("standard output", done.stderr)

    def test_decode_takes_three_numbers_and_leaves_the_files_alone(self):
        output = self.folder / "p.safetensors"
        done = run("decode", "--output", output, "--mean", "0.5,0.5,0.5", "--std", "0.5,0.25,1", PICTURE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["ok"])
        for wrong in ("0.5", "a,b,c", "1,2,3,4", "1,2,", ",1,2", "inf,0,0"):
            done = run("decode", "--output", output, "--mean", wrong, PICTURE)
            self.assertEqual(done.returncode, SETTINGS, done.stderr)
            self.assertIn("--mean", done.stderr)

    def test_decode_does_not_write_over_a_picture(self):
        copy = self.folder / "copy.jpg"
        copy.write_bytes(PICTURE.read_bytes())
        done = run("decode", "--output", copy, copy)
        self.assertEqual(done.returncode, SETTINGS, done.stderr)
        self.assertEqual(copy.read_bytes(), PICTURE.read_bytes())

    def test_decode_does_not_wait_for_a_pipe_without_a_writer(self):
        pipe = self.folder / "pipe.jpg"
        os.mkfifo(pipe)
        done = run("decode", "--output", self.folder / "p.safetensors", pipe, PICTURE)
        self.assertEqual(done.returncode, DATA, done.stderr)
        first, second = map(json.loads, done.stdout.splitlines())
        self.assertFalse(first["ok"])
        self.assertIn("not a file", first["error"])
        self.assertTrue(second["ok"])

    def test_tokenize_without_input(self):
        done = subprocess.run(["sh", "-c", '"$0" tokenize --model "$1" <&-', str(PROGRAM), str(EMOJI / "tokenizer")],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, DATA, done.stderr)
        self.assertIn("standard input", done.stderr)


if __name__ == "__main__":
    unittest.main()
