# SPDX-License-Identifier: Apache-2.0
"""`bascule stop`: a run whose training ends early is finished, with the bits of a run that was planned to end there on the same schedule."""
import fcntl
import json
import os
import pathlib
import signal
import subprocess
import tempfile

from bascule_run import EMOJI, PROGRAM, FolderTest, digest, has_mpi, patient, run, run_ends, run_ok, settings, wait_for
from test_killed_families import HEADS, outcome

PLANNED = 100000
VALIDATION = f'"{EMOJI}/validation.jsonl"'
BRIDGETOWER = {"data__validation_file": VALIDATION, "data__max_eval_samples": "8", "training__eval_steps": "7", "training__eval_strategy": '"steps"', "training__per_device_train_batch_size": "4"}
REQUEST = ".bascule-stop"


class EndEarly(FolderTest):
    def planned(self, **changes):
        """Settings of a run that is too long for a test."""
        return settings(self.folder, **{**changes, "training__max_steps": str(PLANNED), "training__save_steps": "1000000", "training__logging_steps": "1", "training__lr_scheduler_type": '"linear"'})

    def started(self, toml, *keys):
        process = subprocess.Popen([str(PROGRAM), "run", str(toml), *keys], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        log = self.folder / "run" / "log.jsonl"
        wait_for(lambda: process.poll() is not None or (log.exists() and log.read_text().count("\n") > 2))
        return process

    def ended(self, toml, *keys):
        """Stops a run at work and returns its last update."""
        process = self.started(toml, *keys)
        done = run_ok("stop", self.folder / "run")
        self.assertEqual(done.stdout, f"{self.folder}/run: training ends after the update under way, or where the run is evaluating or saving, after the next; it then evaluates, saves and finishes\n")
        output, error = process.communicate(timeout=patient(120))
        self.assertEqual(process.returncode, 0, error)
        marker = json.loads((self.folder / "run" / "bascule.json").read_text())
        last = marker["global_step"]
        self.assertTrue(marker["finished"])
        self.assertIn(f"run: stopped early after update {last}: `bascule stop` asked for it", error)
        self.assertIn("stopped early", output)
        self.assertGreater(last, 0)
        self.assertLess(last, PLANNED)
        self.assertTrue((self.folder / "run" / f"checkpoint-{last}").exists())
        self.assertFalse((self.folder / "run" / REQUEST).exists())
        return last

    def expect_bits_of_planned_end(self, toml, last, *keys):
        keys = [f"training.max_steps={last}", f"training.lr_schedule_steps={PLANNED}", f"training.output_dir={self.folder}/short", *keys]
        run_ok("run", toml, *keys)
        self.assertEqual(outcome(self.folder / "run"), outcome(self.folder / "short"))
        checkpoints = [digest(self.folder / name / f"checkpoint-{last}" / "training_state.safetensors") for name in ("run", "short")]
        self.assertEqual(*checkpoints)
        logs = [[{key: line[key] for key in ("step", "loss", "learning_rate", "eval_loss") if key in line} for line in map(json.loads, (self.folder / name / "log.jsonl").read_text().splitlines())] for name in ("run", "short")]
        self.assertEqual(*logs)

    def test_the_bits_are_those_of_a_run_that_was_planned_to_end_there(self):
        for head in ("pooled", "masked_lm", "conditional_generation"):
            with self.subTest(head=head), tempfile.TemporaryDirectory() as temporary:
                self.folder = pathlib.Path(temporary).resolve()
                toml = self.planned(**{**HEADS[head], "training__eval_steps": "3", "data__max_eval_samples": "8"})
                self.expect_bits_of_planned_end(toml, self.ended(toml))

    def test_all_ranks_end_at_one_update_and_reproduce_repeats_it(self):
        toml = self.planned(**BRIDGETOWER, training__metric_for_best_model='"loss"')
        keys = ["distributed.world_size=2"] if has_mpi() else []
        last = self.ended(toml, *keys)
        self.expect_bits_of_planned_end(toml, last, *keys)
        again = run_ok("run", toml, *keys)
        self.assertIn(f"already finished after {last} update", again.stderr)
        done = run_ok("reproduce", self.folder / "run", "--output", self.folder / "again")
        self.assertIn("equal bits: ", done.stdout)
        listed = json.loads(run("list", self.folder / "run", "--json").stdout)["runs"][0]
        self.assertEqual((listed["state"], listed["step"], listed["steps"]), ("finished", last, PLANNED))
        self.assertEqual(run("stop", self.folder / "run").returncode, 2)

    def test_a_request_outlives_sigkill(self):
        toml = self.planned(**{**BRIDGETOWER, "training__eval_strategy": None, "training__eval_steps": None})
        process = self.started(toml)
        process.send_signal(signal.SIGSTOP)  # so that it does not look
        self.assertEqual(run("stop", self.folder / "run").returncode, 0)
        process.kill()
        process.communicate(timeout=patient(60))
        done = run_ok("run", toml)
        self.assertIn("a request of `bascule stop` is pending", done.stderr)
        self.assertIn("stopped early after update 1: ", done.stderr)

    def test_a_request_outlives_a_kill_and_an_ended_run_stays_ended(self):
        toml = self.planned(**{**BRIDGETOWER, "training__eval_strategy": None, "training__eval_steps": None})
        process = self.started(toml)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=patient(60))
        self.assertEqual(process.returncode, 143)
        saved, = [int(path.name.split("-")[1]) for path in (self.folder / "run").glob("checkpoint-*")]
        (self.folder / "run" / REQUEST).touch()  # as if the run had been killed before it looked
        done = run_ok("run", toml)
        self.assertIn(f"stopped early after update {saved + 1}: ", done.stderr)
        self.assertIn(f"a request of `bascule stop` is pending: training ends with the next update; to train on, remove {self.folder}/run/{REQUEST} before the start\n", done.stderr)
        # Another evaluation trains nothing.
        before = digest(self.folder / "run" / "model.safetensors")
        done = run_ok("run", toml, f"data.test_file={EMOJI}/validation.jsonl")
        self.assertIn("evaluating it again", done.stderr)
        self.assertEqual(digest(self.folder / "run" / "model.safetensors"), before)
        marker = json.loads((self.folder / "run" / "bascule.json").read_text())
        self.assertEqual((marker["global_step"], marker["record"]["ended_early"]), (saved + 1, {"update": saved + 1, "schedule_steps": PLANNED}))

    def test_stopped_while_evaluating_and_stopped_twice(self):
        # Evaluations take most of the time, so a request comes while one is made, and the next update is the last.
        toml = self.planned(**{**BRIDGETOWER, "data__max_eval_samples": "64", "training__eval_steps": "1"})
        process = self.started(toml)
        for _ in range(2):
            self.assertEqual(run("stop", self.folder / "run").returncode, 0)
        _, error = process.communicate(timeout=patient(120))
        self.assertEqual(process.returncode, 0, error)
        last = json.loads((self.folder / "run" / "bascule.json").read_text())["global_step"]
        self.assertFalse((self.folder / "run" / REQUEST).exists())
        self.expect_bits_of_planned_end(toml, last)

    def test_epochs_with_an_average_and_the_best_weights(self):
        best = {"training__ema_decay": "0.9", "training__metric_for_best_model": '"loss"', "training__load_best_model_at_end": "true", "training__early_stopping_patience": "100000",
                "training__save_strategy": '"epoch"', "training__eval_strategy": '"epoch"', "training__eval_steps": None, "training__save_steps": None, "training__max_steps": None, "training__num_train_epochs": "10000"}
        toml = settings(self.folder, **{**BRIDGETOWER, **best, "training__logging_steps": "1", "training__lr_scheduler_type": '"linear"'})
        process = self.started(toml)
        self.assertEqual(run("stop", self.folder / "run").returncode, 0)
        _, error = process.communicate(timeout=patient(120))
        self.assertEqual(process.returncode, 0, error)
        done = run_ok("reproduce", self.folder / "run", "--output", self.folder / "again")
        self.assertIn("equal bits: ", done.stdout)
        self.assertEqual(outcome(self.folder / "run"), outcome(self.folder / "again"))

    def test_an_ended_run_can_be_made_longer_and_its_checkpoint_begins_another(self):
        toml = settings(self.folder, training__max_steps="4", training__save_steps="4", training__logging_steps="1")
        (self.folder / "run").mkdir()
        (self.folder / "run" / REQUEST).touch()
        done = run_ok("run", toml)
        self.assertIn("stopped early after update 1: ", done.stderr)
        self.assertIn("so write `training.max_steps = 1` and `training.lr_schedule_steps = 4`", (self.folder / "run" / "README.md").read_text())
        again = run("run", toml)
        self.assertIn("already finished after 1 update;", again.stderr)
        run_ok("run", toml, "training.resume=run/checkpoint-1", "training.output_dir=other", cwd=self.folder)
        run_ok("run", toml, "training.max_steps=3", "training.lr_schedule_steps=4")
        for name, last in (("other", 4), ("run", 3)):
            marker = json.loads((self.folder / name / "bascule.json").read_text())
            self.assertEqual((marker["finished"], marker["global_step"]), (True, last))
            self.assertNotIn("ended_early", marker["record"])
        self.assertNotIn("ended this run", (self.folder / "run" / "README.md").read_text())

    def refused(self, run_folder, *words):
        done = run_ends(2, "stop", run_folder)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_where_nothing_trains_it_is_refused(self):
        self.refused(self.folder, "is not the folder of a run")
        self.refused(self.folder / "nowhere", "is not the folder of a run")
        toml = settings(self.folder, training__max_steps="1", training__save_steps="0")
        self.assertEqual(run("run", toml).returncode, 0)
        self.refused(self.folder / "run", "holds a finished run")
        marker = self.folder / "run" / "bascule.json"
        marker.write_text(marker.read_text().replace('"finished": true', '"finished": false'))
        self.refused(self.folder / "run", "holds a run that is not running")
        # While a process holds the folder.
        descriptor = os.open(self.folder / "run", os.O_RDONLY)
        self.addCleanup(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for text, word in (("[training]\ndo_train = false\n", "does not train"), ("[model]\n\n[draw]\nseed = 1\n", "a part of its pictures is no finished run")):
            marker.write_text(json.dumps({"format": 1, "finished": False, "settings_digest": "", "settings": text}))
            self.refused(self.folder / "run", word)
        self.assertFalse((self.folder / "run" / REQUEST).exists())
