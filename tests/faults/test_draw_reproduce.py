# SPDX-License-Identifier: Apache-2.0
"""Records of runs that draw: `bascule reproduce` draws again and compares, `bascule diff` finds where two runs part."""
import json
import pathlib
import shutil
import tempfile
import unittest

from bascule_run import FolderTest, run, run_ends, run_ok
from drawing import change, copy_pipeline, drawing, rows, timeless
from small_run import small_settings

DATA, NOT_AS_RECORDED = 3, 7


class Recorded(unittest.TestCase):
    def setUp(self):
        """A model, prompts and settings with relative paths, all in one folder, and the run of them."""
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "first"
        copy_pipeline(self.folder / "model")
        (self.folder / "prompts.txt").write_text("a cat\na red heart\n")
        self.draw()

    def draw(self, tables=""):
        run_ok("run", drawing(self.folder, model="model", output_dir='"run"', prompts_file='"prompts.txt"', batch_size="3", tables=tables))

    def check(self, *expected, arguments=("--check",)):
        done = run_ends(NOT_AS_RECORDED if expected else 0, "reproduce", self.folder / "run", "--json", *arguments)
        document = json.loads(done.stdout)
        found = [one["what"] for one in document["differences"]]
        self.assertEqual(len(found), len(expected), found)
        for one, words in zip(found, expected):
            self.assertIn(words, one)
        return document

    def test_a_run_is_drawn_again_to_the_same_bits_wherever_the_command_is_given(self):
        self.check()
        for number, tables in enumerate(("", "[distributed]\nworld_size = 2\n[machine]\nthreads = 1\n")):
            with self.subTest(tables=tables):
                if tables:
                    shutil.rmtree(self.folder / "run")
                    self.draw(tables)
                done = run_ok("reproduce", "first/run", "--output", f"again-{number}", "--json", cwd=self.folder.parent)
                document = json.loads(done.stdout)
                self.assertEqual((document["equal_bits"], document["equal_pictures"], document["promise"]), (True, 4, "bits"))
                again = self.folder.parent / f"again-{number}"
                self.assertEqual(timeless(rows(again)), timeless(rows(self.folder / "run")))
        done = run("reproduce", self.folder / "run")
        self.assertIn("equal bits: 4 pictures are as recorded\n", done.stdout)
        self.assertRegex(done.stdout, r"throughput: .* pictures/s; recorded")

    def test_what_has_changed_is_named(self):
        (self.folder / "prompts.txt").write_text("a cat\na red heart\n\n")
        self.check("input file " + str(self.folder / "prompts.txt") + ": its content differs")
        (self.folder / "prompts.txt").write_text("a cat\na red heart\n")
        with (self.folder / "run" / "00002.png").open("ab") as file:
            file.write(b"\0")
        (self.folder / "run" / "00003.png").unlink()
        self.check("result " + str(self.folder / "run" / "00002.png") + ": its content differs", "result " + str(self.folder / "run" / "00003.png"))
        (self.folder / "model" / "unet" / "config.json").unlink()
        self.check("input file", "result", "result", "the run cannot be repeated")

    def test_a_settings_file_that_has_changed_is_named_by_its_keys(self):
        toml = self.folder / "run.toml"
        toml.write_text(toml.read_text().replace("num_inference_steps = 2", "num_inference_steps = 3"))
        self.check("draw.num_inference_steps is 3, was 2")

    def test_another_schedule_gives_other_pictures_and_the_first_is_named(self):
        change(self.folder / "model" / "scheduler" / "scheduler_config.json", beta_end=0.0121)
        done = run_ends(NOT_AS_RECORDED, "reproduce", self.folder / "run", "--json")
        document = json.loads(done.stdout)
        self.assertEqual(document["promise"], "nothing")
        self.assertRegex(document["first_difference"], r"^00000.png: the latents differ after call \d of 3$")
        self.assertEqual(document["equal_pictures"], 0)

    def test_a_list_that_is_not_the_recorded_one_is_refused_before_anything_is_drawn(self):
        path = self.folder / "run" / "images.jsonl"
        path.write_text(path.read_text().replace("a cat", "a dog"))
        self.assertIn("images.jsonl: its content differs", run_ends(DATA, "reproduce", self.folder / "run").stderr)
        self.assertEqual([path.name for path in self.folder.iterdir() if "repeated" in path.name], [])
        self.check("images.jsonl: its content differs")


class Diff(FolderTest):
    def draw(self, name, **keys):
        (self.folder / name).mkdir()
        run_ok("run", drawing(self.folder / name, **keys))
        return self.folder / name / "run"

    def diff(self, a, b, code, expected):
        done = run_ends(code, "diff", a, b)
        self.assertIn(expected, done.stdout + done.stderr)
        return json.loads(run("diff", a, b, "--json").stdout)

    def test_where_two_runs_part(self):
        a = self.draw("a")
        self.assertTrue(self.diff(a, self.draw("b", batch_size="3"), 0, "equal: the latents after every call, and the pixels, of 4 pictures")["equal"])
        self.assertEqual(self.diff(a, a, 0, "\ncompared: images.jsonl of both runs, not the files of the pictures")["compared"], "images.jsonl")
        document = self.diff(a, self.draw("c", guidance_scale="7.25"), NOT_AS_RECORDED, "00000.png: the latents differ after call 1 of 3\nit is the first in the order of the list; 4 of 4 pictures differ")
        self.assertEqual((document["kind"], document["picture"], document["call"], document["calls"], document["equal_pictures"]), ("latents", "00000.png", 1, 3, 0))
        self.diff(a, self.draw("d", seed="43"), NOT_AS_RECORDED, "00000.png: the noise that it begins with differs")
        self.diff(a, self.draw("e", num_inference_steps="3"), NOT_AS_RECORDED, "00000.png: drawn with 3 calls of the UNet, and with 4")
        self.diff(a, self.draw("f", prompts='["a cat", "a hen"]'), NOT_AS_RECORDED, "00002.png: the prompts differ\nit is the first in the order of the list; 2 of 4 pictures differ")

    def test_pictures_that_one_run_has_are_counted(self):
        a, b = self.draw("a"), self.draw("b")
        lines = (b / "images.jsonl").read_text().splitlines(keepends=True)
        (b / "images.jsonl").write_text(lines[0])
        document = self.diff(a, b, 0, "and the pixels, of 1 picture\nnot compared: 3 that only the first run has, 0 that only the second has\n")
        self.assertEqual((document["pictures"], document["pictures_of_a_alone"], document["pictures_of_b_alone"]), (1, 3, 0))

    def test_runs_of_two_kinds_are_refused(self):
        a = self.draw("a")
        run_ok("run", small_settings(self.folder, training__max_steps="1", report__hash_steps="1"))
        for one, other in ((a, self.folder / "run"), (self.folder / "run", a)):
            self.assertIn("has no pictures, but", run_ends(DATA, "diff", one, other).stderr)
