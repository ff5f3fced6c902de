# SPDX-License-Identifier: Apache-2.0
"""Commands beside `run`, and what they print to: nothing hangs, nothing is lost without a word."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from bascule_run import EMOJI, PROGRAM, ROOT, run, settings

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

    def test_help_fits_eighty_columns(self):
        commands = re.findall(r"^  (\w+) ", run("--help").stdout.split("Subcommands:")[1], re.M)
        self.assertIn("run", commands)
        for arguments in ([], *([command] for command in commands)):
            done = run(*arguments, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(max(map(len, done.stdout.splitlines())), 80, done.stdout)
        keys = run("settings")
        self.assertIn("per_device_train_batch_size", keys.stdout)
        self.assertLessEqual(max(map(len, keys.stdout.splitlines())), 80, keys.stdout)

    def refused(self, arguments, line):
        done = run(*arguments)
        self.assertEqual(done.returncode, SETTINGS, done.stderr)
        self.assertEqual(done.stderr, f"bascule: {line}\n")

    def test_a_misspelt_word_names_the_nearest(self):
        toml = settings(self.folder)
        self.refused(["rnu", toml], 'unknown command "rnu"; did you mean "run"?')
        self.refused(["plan", "--jsno", toml], 'plan: unknown option "--jsno"; did you mean "--json"?')
        self.refused(["bench", "--step=3", toml], 'bench: unknown option "--step"; did you mean "--steps"?')
        self.refused(["run", toml, "twice.toml"], 'run: unexpected argument "twice.toml"; see `bascule run --help`')
        self.refused(["plan"], "plan: file is required; see `bascule plan --help`")
        everything = "commands: run, plan, settings, verify, bench, tokenize, decode, search"
        self.refused(["quantise"], f'unknown command "quantise"; {everything}')
        self.refused([], f"no command is given; {everything}")

    def test_paths_that_a_shell_left_as_they_were(self):
        problem = 'is not replaced here, as a shell would do'
        self.refused(["decode", "--output=~/p.safetensors", PICTURE], f'decode: --output: "~" {problem}; see `bascule decode --help`')
        self.refused(["run", "$HOME/run.toml"], f'run: file: "$HOME" {problem}; see `bascule run --help`')

    def test_every_promised_json_is_one_document(self):
        toml = settings(self.folder, training__max_steps="2", training__save_steps="0", data__validation_file=f'"{EMOJI}/validation.jsonl"')
        for command in (["plan"], ["bench", "--steps", "1", "--warmup", "0"], ["run"], ["run"]):  # the second time it is finished already
            done = run(*command, toml, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(done.stdout)
            if command == ["run"]:
                self.assertEqual(document, json.loads((self.folder / "run" / "all_results.json").read_text()))
        for command in (["verify", ROOT / "tests" / "data" / "goldens" / "itc_add"], ["search", self.folder / "run", "a cat"]):
            done = run(*command, "--json")
            self.assertEqual(done.returncode, 0, done.stderr)
            json.loads(done.stdout)


if __name__ == "__main__":
    unittest.main()
