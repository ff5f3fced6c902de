# SPDX-License-Identifier: Apache-2.0
"""`make demo-draw` in small: ten pictures in a few steps, and tools/search_drawn.py with a run that has learnt nothing."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from bascule_run import PROGRAM, ROOT, FolderTest, patient, run_ok
from drawing import pictures
from small_run import small_settings

PIPELINE = ROOT / "tests" / "data" / "emoji-drawing"
# Scores are by prompt and picture: those of a prompt for itself are 0.5, those that a line of the file names are 1.
STUB = """#!/usr/bin/env python3
import json, pathlib, sys
assert sys.argv[1:3] == ["search", "run"], sys.argv
rows = [json.loads(line) for line in pathlib.Path(sys.argv[5], "images.jsonl").read_text().splitlines()]
better = [line.split() for line in pathlib.Path(sys.argv[5], "better").read_text().splitlines()]
print(json.dumps({"results": [{"path": "x/" + row["file"], "score": 1.0 if [row["file"], sys.argv[3]] in better else 0.5 if row["prompt"] == sys.argv[3] else 0.0}
                              for row in rows]}))
"""


def search(program, trained, drawn):
    return subprocess.run([sys.executable, ROOT / "tools/search_drawn.py", program, trained, drawn], capture_output=True, text=True, timeout=patient(300))


class Found(FolderTest):
    def found(self, number, *better):
        """What is printed of pictures 0, 1, ... of prompts p0, p1, ..., where (picture, prompt) of better have the best score."""
        rows = [json.dumps({"file": f"{i:02}.png", "prompt": f"p{i}"}) + "\n" for i in range(number)]
        (self.folder / "images.jsonl").write_text("".join(rows))
        (self.folder / "better").write_text("".join(f"{picture:02}.png p{prompt}\n" for picture, prompt in better))
        stub = self.folder / "stub"
        stub.write_text(STUB)
        stub.chmod(0o755)
        return search(stub, "run", self.folder)

    def test_a_picture_is_taken_for_what_scores_best_of_its_ten(self):
        self.assertIn("for 10 of 10 drawn pictures, 100 % (chance 10 %)", self.found(10).stdout)
        mistaken = self.found(10, (3, 5), (4, 4)).stdout
        self.assertIn("for 9 of 10 drawn pictures, 90 %", mistaken)
        self.assertIn('03.png "p3" was taken for "p5"', mistaken)

    def test_the_ten_are_its_own_caption_and_the_nine_after_it(self):
        self.assertIn("for 10 of 12 ", self.found(12, (0, 9), (0, 10), (11, 8), (5, 3), (5, 4)).stdout)
        self.assertIn("for 12 of 12 ", self.found(12, (0, 10), (0, 11), (11, 9), (5, 3), (5, 4)).stdout)

    def test_fewer_than_ten_and_two_pictures_of_a_prompt_are_refused(self):
        done = self.found(9)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("9 pictures: 10 or more are needed, each of another prompt", done.stderr)


class Demo(unittest.TestCase):
    def test_ten_pictures_are_drawn_and_searched(self):
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            prompts = (PIPELINE / "prompts.txt").read_text().splitlines()
            self.assertEqual((len(prompts), len(set(prompts))), (50, 50))
            text = (ROOT / "config/sd_demo.toml").read_text().replace("../tests/", f"{ROOT}/tests/").replace("../runs/sd_demo", f"{folder}/drawn")
            (folder / "prompts.txt").write_text("\n".join(prompts[:10]) + "\n")
            text = re.sub(r'prompts_file = "[^"]*"', f'prompts_file = "{folder}/prompts.txt"', text).replace("num_inference_steps = 20", "num_inference_steps = 3")
            (folder / "draw.toml").write_text(text)
            run_ok("run", folder / "draw.toml")
            drawn = pictures(folder / "drawn")
            self.assertEqual((len(drawn), len(set(drawn.values()))), (10, 10))

            rows = f'"{ROOT}/tests/data/run_goldens/rows.jsonl"'
            run_ok("run", small_settings(folder, data__test_file=rows, training__do_predict="true", training__max_steps="1"))
            found = search(PROGRAM, folder / "run", folder / "drawn")
            self.assertRegex(found.stdout, r"bascule search finds the right caption among 10 for \d+ of 10 drawn pictures, \d+ % \(chance 10 %\)", found.stderr)
            self.assertIn("there is no such folder", search(PROGRAM, folder / "absent", folder / "drawn").stderr)
