# SPDX-License-Identifier: Apache-2.0
"""Contracts 2 and 4 inside evaluation and saving: an allocation of ours ends the run; a checkpoint gets its name when all of it is on the disk."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from bascule_run import PROGRAM, is_sanitized, patient
from rank_runs import preloaded
from small_run import DATA, ROWS, small_settings, write_rows


def run_with(toml, library, **environment):
    return subprocess.run([str(PROGRAM), "run", str(toml)], capture_output=True, text=True, timeout=patient(300), check=False, env={**os.environ, "LD_PRELOAD": preloaded(library), **environment})


class Allocations(unittest.TestCase):
    @unittest.skipIf(is_sanitized(), "a sanitizer has the heap")
    def test_of_ours_in_evaluation_and_saving_end_the_run(self):
        for phase, reached in (("evaluation", "train: step 2/"), ("saving", "train: step 2/"), ("", "run: finished")):
            with self.subTest(phase=phase), tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                rows = []
                for number, row in enumerate(ROWS[:5]):
                    (folder / f"validation-{number}.jpg").symlink_to((DATA / "run_goldens" / row["image"]).resolve())
                    rows.append({**row, "image": str(folder / f"validation-{number}.jpg")})
                done = run_with(small_settings(folder, data__validation_file=write_rows(folder / "validation.jsonl", rows), training__eval_steps="2" if phase == "evaluation" else "0", training__save_steps="2"),
                                 "stdc++_allocates", ALLOCATE_IN=phase)
                self.assertIn(reached, done.stderr)
                if phase == "":
                    self.assertEqual(done.returncode, 0, done.stderr)
                    continue
                self.assertNotEqual(done.returncode, 0, done.stderr)
                self.assertIn("bascule: bug: 100 bytes allocated after the seal by", done.stderr)
                self.assertEqual(list(folder.glob("run/checkpoint-[0-9]*")), [])


class Checkpoints(unittest.TestCase):
    def actions(self, folder, **changes):
        """What a run did to the disk: (word, path relative to output_dir, other path)."""
        log = pathlib.Path(folder) / "actions"
        done = run_with(small_settings(folder, **changes), "disk_order", DISK_ORDER_LOG=str(log))
        self.assertEqual(done.returncode, 0, done.stderr)
        output, found = f"{folder}/run", []
        for line in log.read_text().splitlines():
            word, *paths = line.split(" ")
            if paths[0].startswith(output):
                found.append((word, *[path[len(output):].lstrip("/") for path in paths]))
        return found

    def judge_published(self, actions, temporary, name):
        """`temporary`, a file or a folder, gets its name when all of it is on the disk; then the folder that holds the name is synced."""
        named = actions.index(("rename", temporary, name))
        inside = [(at, action) for at, action in enumerate(actions) if action[1] == temporary or action[1].startswith(temporary + "/")]
        written = {action[1] for _, action in inside if action[0] == "write"}
        self.assertTrue(written, name)
        for path in written:
            last = max(at for at, action in inside if action[:2] == ("write", path))
            synced = [at for at, action in inside if action[:2] == ("sync", path)]
            self.assertTrue([at for at in synced if last < at < named], f"{path} is not synced between its last write and its name")
        if any(action[:2] == ("mkdir", temporary) for _, action in inside):
            first_name = max(at for at, action in inside if action[0] in ("write", "mkdir"))
            self.assertTrue([at for at in range(first_name, named) if actions[at][:2] == ("sync", temporary)], f"{temporary} itself is not synced")
        after = actions.index(("sync", name.rpartition("/")[0]), named)
        self.assertFalse([action for action in actions[named + 1:after] if action[0] in ("remove", "rename")], "something goes before the new name is safe")
        return named

    def test_get_their_names_when_all_of_them_is_on_the_disk(self):
        with tempfile.TemporaryDirectory() as folder:
            actions = self.actions(folder, training__save_steps="1", training__save_total_limit="1")
            names = [self.judge_published(actions, f".tmp-bascule-checkpoint-{step}", f"checkpoint-{step}") for step in (1, 2, 3)]
            for step in (1, 2):  # the old one goes after the new one has its name, out of sight first
                leaves = actions.index(("rename", f"checkpoint-{step}", f".tmp-bascule-checkpoint-{step}.deleting"))
                self.assertGreater(leaves, names[step])
                gone = [at for at, action in enumerate(actions) if action[0] == "remove" and action[1].startswith(f".tmp-bascule-checkpoint-{step}.deleting")]
                self.assertTrue(gone)
                self.assertIn(("sync", ""), actions[leaves:min(gone)])
            for file in ("model.safetensors", "config.json"):
                self.judge_published(actions, f".tmp-bascule-{file}", file)
