# SPDX-License-Identifier: Apache-2.0
"""A run keeps its best weights and stops in time, and an interrupted run does so as the unbroken one.

BASCULE_KILLS sets how many runs are killed (2); BASCULE_TEST_SEED repeats the instants.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from bascule_run import EMOJI, PROGRAM, digest, run, run_ends, run_ok, settings

FILES = ("model.safetensors", "embeddings.safetensors")


def few_rows(folder):
    """A validation file of 40 rows: evaluations of a moment."""
    rows = [json.loads(row) for row in (EMOJI / "validation.jsonl").read_text().splitlines()[:40]]
    text = "".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) + "\n" for row in rows)
    pathlib.Path(folder, "validation.jsonl").write_text(text)
    return f'"{folder}/validation.jsonl"'


def best_run(folder, **changes):
    """24 updates at a rate that soon makes things worse."""
    return settings(folder, **{
        "data__validation_file": few_rows(folder), "training__max_steps": "24", "training__learning_rate": "2e-2", "training__eval_steps": "3",
        "training__save_steps": "3", "training__save_total_limit": "2", "training__load_best_model_at_end": "true", **changes})


def read(folder, name):
    return json.loads((pathlib.Path(folder) / "run" / name).read_text())


def losses(folder):
    return {entry["step"]: entry["eval_loss"] for entry in read(folder, "trainer_state.json")["log_history"] if "eval_loss" in entry}


def log(folder):
    """What log.jsonl says of losses: those of intervals, of evaluations, of the test file."""
    lines = (pathlib.Path(folder) / "run" / "log.jsonl").read_text().splitlines()
    return [[line.get(key) for key in ("step", "loss", "eval_loss", "test_loss", "learning_rate")] for line in map(json.loads, lines)]


def checkpoints(folder):
    return sorted(int(path.name.split("-")[1]) for path in (pathlib.Path(folder) / "run").glob("checkpoint-*"))


class TheBest(unittest.TestCase):
    def test_is_in_the_folder_in_its_figures_and_among_the_checkpoints(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_ok("run", best_run(folder))
            state, seen = read(folder, "trainer_state.json"), losses(folder)
            self.assertEqual(sorted(seen), [3, 6, 9, 12, 15, 18, 21, 24])
            best = min(seen, key=seen.get)
            self.assertLess(best, 24, seen)  # else this run shows nothing
            self.assertEqual((state["best_global_step"], state["best_metric"]), (best, seen[best]))
            self.assertEqual(pathlib.Path(state["best_model_checkpoint"]).name, f"checkpoint-{best}")
            self.assertEqual(checkpoints(folder), [best, 24])
            folder = pathlib.Path(folder)
            self.assertEqual(digest(folder / "run" / "model.safetensors"), digest(folder / "run" / f"checkpoint-{best}" / "model.safetensors"))
            self.assertNotEqual(digest(folder / "run" / "model.safetensors"), digest(folder / "run" / "checkpoint-24" / "model.safetensors"))
            self.assertEqual(read(folder, "validation_results.json")["eval_loss"], seen[best])
            self.assertEqual(read(folder, "bascule.json")["provenance"]["weights of step"], str(best))
            self.assertIn(f"kept the weights of update {best}, the best by loss", done.stderr)
            self.assertIn(f"from step {best}; best evaluation", (folder / "run" / "README.md").read_text())

    def test_is_all_that_stays_with_a_limit_of_one(self):
        with tempfile.TemporaryDirectory() as folder:
            run_ok("run", best_run(folder, training__save_total_limit="1"))
            self.assertEqual(checkpoints(folder), [read(folder, "trainer_state.json")["best_global_step"]])

    def test_is_kept_by_two_ranks_too(self):
        with tempfile.TemporaryDirectory() as folder:
            run_ok("run", best_run(folder, distributed__world_size="2", training__max_steps="300", training__early_stopping_patience="2",
                                   model__head='"image_text_matching"'))
            state, best = read(folder, "trainer_state.json"), read(folder, "trainer_state.json")["best_global_step"]
            self.assertEqual(state["best_metric"], losses(folder)[best])
            self.assertEqual(state["global_step"], best + 6)
            self.assertEqual(read(folder, "validation_results.json")["eval_loss"], state["best_metric"])
            folder = pathlib.Path(folder)
            self.assertEqual(digest(folder / "run" / "model.safetensors"), digest(folder / "run" / f"checkpoint-{best}" / "model.safetensors"))

    def test_that_cannot_be_read_back_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            toml = best_run(folder)
            self.assertEqual(run("run", toml).returncode, 0)
            best = read(folder, "trainer_state.json")["best_global_step"]
            shutil.rmtree(pathlib.Path(folder, "run"))
            process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = ""
            for line in process.stderr:
                said += line
                if f"saved checkpoint-{best} " in line:
                    path = pathlib.Path(folder, "run", f"checkpoint-{best}", "model.safetensors")
                    data = bytearray(path.read_bytes())
                    data[-5] ^= 1  # one bit of a weight
                    path.write_bytes(data)
            process.communicate()
            self.assertEqual(process.returncode, 3, said)
            self.assertIn(f"checkpoint-{best}: the best weights cannot be read back: they differ from what was written", said)


class EarlyStopping(unittest.TestCase):
    def test_ends_the_run_as_finished_and_says_why(self):
        with tempfile.TemporaryDirectory() as folder:
            toml = best_run(folder, training__max_steps="300", training__early_stopping_patience="2")
            done = run_ok("run", toml)
            state, seen = read(folder, "trainer_state.json"), losses(folder)
            best = state["best_global_step"]
            self.assertEqual(state["global_step"], best + 6)
            self.assertEqual(sorted(seen), list(range(3, best + 7, 3)))
            self.assertIn(f"run: stopped early after update {best + 6}: loss did not improve in 2 evaluations in a row", done.stderr)
            self.assertIn("already finished", run("run", toml).stderr)


class Refusals(unittest.TestCase):
    def test_a_figure_that_the_head_does_not_have_is_named_before_anything_is_trained(self):
        with tempfile.TemporaryDirectory() as folder:
            refused = run_ends(2, "run", best_run(folder, training__metric_for_best_model='"accuracy"'))
            self.assertIn('training.metric_for_best_model = "accuracy" is not a metric of this head; choose one of: loss, '
                          'image_to_text_recall_at_1', refused.stderr)


class Interrupted(unittest.TestCase):
    CHANGES = {"training__max_steps": "300", "training__early_stopping_patience": "3", "training__logging_steps": "4",
               "data__test_file": f'"{EMOJI}/test.jsonl"', "training__lr_scheduler_type": '"polynomial"', "training__lr_power": "2.0",
               "training__groups": '[{match = "*.bias", weight_decay = 0.1}, {match = "vision_model.*", freeze = true}, '
                                   '{match = "cross_modal*", learning_rate_multiplier = 2.0}]'}

    def outcome(self, folder):
        state = read(folder, "trainer_state.json")
        return ([digest(pathlib.Path(folder) / "run" / name) for name in FILES], state["best_global_step"], state["best_metric"],
                state["global_step"], losses(folder), log(folder), checkpoints(folder))

    def test_runs_decide_as_the_unbroken_one(self):
        seed = int(os.environ.get("BASCULE_TEST_SEED", "20261122"))
        draw = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            done = run("run", best_run(folder, **self.CHANGES))
            seconds = time.monotonic() - began
            self.assertEqual(done.returncode, 0, done.stderr)
            whole = self.outcome(folder)
        for kill in range(int(os.environ.get("BASCULE_KILLS", "2"))):
            number = draw.choice([signal.SIGKILL, signal.SIGTERM])
            with self.subTest(kill=kill, seed=seed, signal=number), tempfile.TemporaryDirectory() as folder:
                toml = best_run(folder, **self.CHANGES)
                process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(draw.uniform(0.0, seconds))
                process.send_signal(number)
                process.wait()
                run_ok("run", toml)
                same = self.outcome(folder)
                self.assertEqual(same[:-1], whole[:-1])
                self.assertLessEqual(set(whole[-1]), set(same[-1]))  # the one of a signal may be there too
