# SPDX-License-Identifier: Apache-2.0
"""The best weights of a run that goes on, or is evaluated again, with other validation data, another figure or other checkpoints."""
import errno
import json
import os
import pathlib
import shutil
import subprocess

from bascule_run import PROGRAM, FolderTest, digest, is_sanitized, run, run_ends, run_ok
from flipped_bits import flip
from rank_runs import preloaded
from run_files import scalars
from small_run import ROWS, small_settings, write_rows
from test_best import checkpoints, losses, read


class Case(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "run"
        self.a = write_rows(self.folder / "a.jsonl", ROWS[:8])
        self.b = write_rows(self.folder / "b.jsonl", ROWS[6:15])

    def settings(self, **changes):
        """12 updates on four rows, of which update 4 is the best on the rows of a.jsonl."""
        return small_settings(self.folder, **{
            "data__train_file": write_rows(self.folder / "train.jsonl", ROWS[8:12]), "data__validation_file": self.a, "training__max_steps": "12",
            "training__eval_steps": "2", "training__save_steps": "2", "training__load_best_model_at_end": "true",
            "training__lr_scheduler_type": '"constant"', **changes})

    def goes(self, **changes):
        done = run_ok("run", self.settings(**changes))
        return done

    def refused(self, code, *words, **changes):
        before = self.tree()
        done = run_ends(code, "run", self.settings(**changes))
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[-1])
        self.assertEqual(self.tree(), before)

    def stopped_after(self, step, **changes):
        """The folder as it is when the run is ended after the save at that update."""
        self.goes(training__save_total_limit="0", **changes)
        for number in checkpoints(self.folder):
            if number > step:
                shutil.rmtree(self.output / f"checkpoint-{number}")
        marker = json.loads((self.output / "bascule.json").read_text())
        (self.output / "bascule.json").write_text(json.dumps({**marker, "finished": False, "trained": False, "global_step": 0}))

    def tree(self):
        return {path: digest(path) for path in self.output.rglob("*") if path.is_file()}

    def saved(self):
        """The bytes of all checkpoints."""
        return {path: content for path, content in self.tree().items() if path.relative_to(self.output).parts[0].startswith("checkpoint-")}

    def model(self):
        return digest(self.output / "model.safetensors")

    def weights_named(self):
        return read(self.folder, "bascule.json")["provenance"]["weights of step"]

    def of_checkpoint(self, step):
        return digest(self.output / f"checkpoint-{step}" / "model.safetensors")

    def lines(self, key="eval_loss"):
        return [(line["step"], line[key]) for line in map(json.loads, (self.output / "log.jsonl").read_text().splitlines()) if key in line]

    def is_the_best_from(self, step):
        """The run found its best among the evaluations from this update on; the folder holds its weights, and says its figures."""
        state, seen = read(self.folder, "trainer_state.json"), losses(self.folder)
        best = min((number for number in seen if number >= step), key=seen.get)
        self.assertEqual((state["best_global_step"], state["best_metric"]), (best, seen[best]))
        self.assertEqual(pathlib.Path(state["best_model_checkpoint"]), self.output / f"checkpoint-{best}")
        self.assertEqual(self.model(), self.of_checkpoint(best))
        self.assertEqual(read(self.folder, "validation_results.json")["eval_loss"], seen[best])
        return best


class LongRuns(Case):
    def test_end_with_the_figures_of_their_last_weights(self):
        # More validations than the log has room for; the last one is where only the newest record stays.
        self.goes(training__max_steps="520", training__eval_steps="1", training__save_steps="0", training__logging_steps="100", data__test_file=self.b,
                  training__load_best_model_at_end=None, data__validation_file=write_rows(self.folder / "a.jsonl", ROWS[:4]))
        logged, tested = dict(self.lines()), dict(self.lines("test_loss"))
        self.assertEqual(len(logged), 520)
        self.assertEqual(read(self.folder, "validation_results.json")["eval_loss"], logged[520])
        self.assertEqual(read(self.folder, "test_results.json")["eval_loss"], tested[520])
        self.assertEqual(losses(self.folder)[520], logged[520])


class AFinishedRun(Case):
    def evaluated_again(self, said):
        self.assertIn("resume: the run was finished after 12 updates; evaluating it again", said.stderr)
        self.assertNotIn("train  step", said.stderr)
        for text in ("this process", "can deliver"):
            self.assertNotIn(text, said.stdout)
        self.assertIn("throughput, whole run", said.stdout)
        results = read(self.folder, "all_results.json")
        self.assertNotIn("train_samples_per_second", results)
        self.assertNotIn("train_runtime", results)
        self.assertNotIn("loader_could_deliver_samples_per_second", results)
        self.assertEqual(results["total_train_steps"], 12)
        self.assertGreater(results["total_flos"], 0)
        self.assertIn("total_train_samples_per_second", results)

    def test_keeps_its_best_weights_when_the_rule_of_judging_changes(self):
        self.goes()
        self.assertEqual(self.is_the_best_from(2), 4)
        model, saved, figures = self.model(), self.saved(), set()
        for changes in ({"data__validation_file": self.b}, {}, {"training__per_device_eval_batch_size": "4"}, {"training__greater_is_better": "true"},
                        {"training__metric_for_best_model": '"text_to_image_recall_at_1"'}, {"training__save_total_limit": "1", "data__test_file": self.b}):
            with self.subTest(changes):
                self.evaluated_again(self.goes(**changes))
                self.assertEqual((self.model(), self.saved()), (model, saved))
                state = read(self.folder, "trainer_state.json")
                self.assertEqual((state["best_global_step"], state["global_step"]), (4, 12))
                self.assertEqual(read(self.folder, "bascule.json")["provenance"]["weights of step"], "4")
                figures.add(read(self.folder, "validation_results.json")["eval_loss"])
                self.assertIn("already finished", self.goes(**changes).stderr)
        self.assertEqual(len(figures), 3)  # of a.jsonl, of b.jsonl, in batches of four

    def test_changes_its_weights_where_that_is_asked_for(self):
        self.goes()
        self.goes(training__load_best_model_at_end="false", training__metric_for_best_model='"loss"')
        self.assertEqual((self.model(), self.weights_named()), (self.of_checkpoint(12), "12"))
        flip(self.output / "checkpoint-4" / "model.safetensors", -9, 3)  # not the newest, which every start checks
        self.refused(3, "checkpoint-4/model.safetensors: ", "checksum")
        flip(self.output / "checkpoint-4" / "model.safetensors", -9, 3)
        self.goes()
        self.assertEqual((self.model(), self.weights_named()), (self.of_checkpoint(4), "4"))
        shutil.rmtree(self.output / "checkpoint-12")
        self.refused(2, "the weights of update 12", "were not kept", training__load_best_model_at_end="false",
                     training__metric_for_best_model='"loss"')

    def test_has_the_weights_that_were_asked_for_last_whenever_it_was_killed(self):
        last = {"training__load_best_model_at_end": "false", "training__metric_for_best_model": '"loss"'}
        self.goes(**last)
        embeddings = {12: digest(self.output / "embeddings.safetensors")}
        shutil.rmtree(self.output)
        self.goes()
        embeddings[4] = digest(self.output / "embeddings.safetensors")
        for created in (".tmp-bascule-last_state/", ".tmp-bascule-embeddings.safetensors", ".tmp-bascule-model.safetensors", ".tmp-bascule-all_results.json"):
            for wanted, changes in ((12, last), (4, {})):
                with self.subTest(created, wanted=wanted):
                    shutil.rmtree(self.output, ignore_errors=True)
                    self.goes()
                    full = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create", "FAILING_PATH": created, "FAILING_ERROR": str(errno.ENOSPC)}
                    self.assertEqual(run("run", self.settings(**last), env={**os.environ, **full}).returncode, 6)
                    self.goes(**changes)
                    self.assertEqual((self.model(), self.weights_named()), (self.of_checkpoint(wanted), str(wanted)))
                    self.assertEqual(digest(self.output / "embeddings.safetensors"), embeddings[wanted])
                    self.assertIn("already finished", self.goes(**changes).stderr)

    def test_has_the_results_of_its_own_evaluation_whenever_another_one_was_killed(self):
        self.goes()
        results = lambda: (digest(self.output / "embeddings.safetensors"), read(self.folder, "validation_results.json")["eval_loss"])
        own = results()
        full = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create", "FAILING_PATH": ".tmp-bascule-report.html", "FAILING_ERROR": str(errno.ENOSPC)}
        self.assertEqual(run("run", self.settings(data__validation_file=self.b), env={**os.environ, **full}).returncode, 6)
        self.assertEqual(json.loads(run("list", self.output, "--json").stdout)["runs"][0]["state"], "stopped")
        self.goes()
        self.assertEqual(results(), own)
        self.assertEqual(json.loads(run("list", self.output, "--json").stdout)["runs"][0]["state"], "finished")

    def test_names_the_checkpoint_of_the_weights_that_it_held(self):
        self.goes()
        full = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create", "FAILING_PATH": ".tmp-bascule-embeddings.safetensors", "FAILING_ERROR": str(errno.ENOSPC)}
        changes = {"training__load_best_model_at_end": "false", "training__metric_for_best_model": '"loss"'}
        self.assertEqual(run("run", self.settings(**changes), env={**os.environ, **full}).returncode, 6)
        marker = json.loads((self.output / "bascule.json").read_text())
        (self.output / "bascule.json").write_text(json.dumps({key: value for key, value in marker.items() if key != "replaced"}))  # killed a moment before
        (self.output / "model.safetensors").unlink()
        self.refused(3, "checkpoint-4, which has the same weights")

    def test_whose_marker_another_version_wrote_is_evaluated_again(self):
        self.goes()
        marker = json.loads((self.output / "bascule.json").read_text())
        (self.output / "bascule.json").write_text(json.dumps({**marker, "settings": marker["settings"].replace("[training]\n", "[training]\nold_key = 3\n")}))
        self.goes(data__test_file=self.b)
        self.assertEqual(self.weights_named(), "4")

    def test_stays_finished_where_it_is_asked_for_more_and_the_start_is_refused(self):
        limited = ["prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
        may_limit = shutil.which("setpriv") and os.geteuid() == 0 and not is_sanitized()  # whose mlock() does nothing
        for ranks, batch in (("1", "4"), ("2", "2")):
            shutil.rmtree(self.output, ignore_errors=True)
            shape = {"training__save_total_limit": "1", "distributed__world_size": ranks, "training__per_device_train_batch_size": batch}
            self.goes(**shape)
            self.refused(6, "/proc/none", training__max_steps="14", report__tracking='"mlflow"', report__tracking_dir='"/proc/none/store"', **shape)
            if may_limit:  # refused at the seal, by one rank or the other
                before, toml = self.tree(), self.settings(training__max_steps="14", machine__lock_memory="true", **shape)
                done = subprocess.run([*limited, PROGRAM, "run", toml], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 4, done.stderr)
                self.assertEqual(self.tree(), before)
            self.assertIn("already finished", self.goes(**shape).stderr)
            self.assertIn("resuming it with the changes", self.goes(**{**shape, "training__max_steps": "14", "training__save_total_limit": "0"}).stderr)
            self.assertFalse((self.output / "last_state").exists())

    def test_with_one_checkpoint_is_evaluated_without_training_again(self):
        one = {"training__save_total_limit": "1"}
        self.goes(**one)
        self.assertEqual(checkpoints(self.folder), [4])
        model, saved = self.model(), self.saved()
        curve = read(self.folder, "trainer_state.json")["log_history"][:-1]
        for changes in ({"data__test_file": self.b}, {"data__test_file": self.b, "data__validation_file": self.b}, {"data__test_file": self.a}):
            with self.subTest(changes):
                self.evaluated_again(self.goes(**one, **changes))
                self.assertEqual((self.model(), self.saved()), (model, saved))
                self.assertIn("test_loss", read(self.folder, "all_results.json"))
                kept = read(self.folder, "trainer_state.json")["log_history"][:-1]
                self.assertEqual([entry for entry in kept if entry in curve], curve)  # with the curve behind the best
        self.assertEqual([entry["key"] for entry in read(self.folder, "bascule.json")["history"]],
                         ["data.test_file", "training.do_predict", "data.validation_file", "data.validation_file (content)", "data.validation_file",
                          "data.test_file", "data.validation_file (content)", "data.test_file (content)"])
        said = self.goes(**one, training__max_steps="14")
        self.assertIn("resuming it with the changes: updates 5 to 12 will be trained again", said.stderr)
        self.assertEqual(read(self.folder, "trainer_state.json")["global_step"], 14)

    def test_whose_end_was_not_kept_is_not_trained_again_unasked(self):
        one = {"training__save_total_limit": "1"}
        self.goes(**one)
        records = self.output / "last_state/step_records.bin"
        records.write_bytes(bytes([records.read_bytes()[0] ^ 1]) + records.read_bytes()[1:])
        self.refused(3, "last_state/step_records.bin", "move last_state away to use the newest checkpoint instead", data__test_file=self.b, **one)
        shutil.rmtree(self.output / "last_state")  # as an older program leaves it
        self.refused(2, "holds a finished run, and its final state, after update 12, was not kept", data__test_file=self.b, **one)
        self.goes(training__max_steps="13", **one)

    def test_without_its_weights_says_what_to_put_back(self):
        self.goes()
        (self.output / "model.safetensors").unlink()
        self.refused(3, "holds no weights", "restore the weights of update 4", data__validation_file=self.b)

    def test_with_other_weights_than_it_was_finished_with_is_refused(self):
        """A bit of them, of their average, of the checkpoint that they would come from: none is evaluated and recorded as the run's own."""
        averaged = {"training__ema_decay": "0.5"}
        other_rows, of_checkpoint = {"data__validation_file": self.b}, {"training__load_best_model_at_end": "false", "training__metric_for_best_model": '"loss"'}
        differs = "differs from the record of the run"
        self.goes(**averaged)
        for file, changes, words in (("model.safetensors", other_rows, differs), ("ema/model.safetensors", other_rows, differs), ("ema/model.safetensors", of_checkpoint, differs),
                                     ("checkpoint-12/model.safetensors", of_checkpoint, "checksum")):
            with self.subTest(file, changes=changes):
                whole = (self.output / file).read_bytes()
                flip(self.output / file, -9, 3)
                self.refused(3, f"{file}: ", words, **averaged, **changes)
                (self.output / file).write_bytes(whole)
        self.goes(**averaged, data__validation_file=self.b)

    def test_that_stopped_early_stays_stopped(self):
        stops = {"training__max_steps": "40", "training__early_stopping_patience": "2"}
        self.goes(**stops)
        self.assertEqual(read(self.folder, "trainer_state.json")["global_step"], 8)
        model = self.model()
        self.goes(**stops, data__validation_file=self.b)
        self.assertEqual((read(self.folder, "trainer_state.json")["global_step"], self.model()), (8, model))
        self.goes(**{**stops, "training__early_stopping_patience": "3"})
        self.assertGreater(read(self.folder, "trainer_state.json")["global_step"], 8)

    def test_that_stopped_early_goes_on_where_early_stopping_is_switched_off(self):
        stops = {"training__max_steps": "40", "training__early_stopping_patience": "2"}
        self.goes(**stops)
        self.goes(**stops, data__validation_file=self.b)
        self.assertEqual(read(self.folder, "trainer_state.json")["global_step"], 8)
        self.assertTrue((self.output / "last_state").is_dir(), "else nothing but checkpoints is gone on from")
        self.goes(**{**stops, "training__early_stopping_patience": "0"})
        self.assertEqual(read(self.folder, "trainer_state.json")["global_step"], 40)

    def test_is_evaluated_again_by_two_ranks(self):
        two = {"distributed__world_size": "2", "training__per_device_train_batch_size": "2", "training__per_device_eval_batch_size": "2",
               "training__save_total_limit": "1"}
        self.goes(**two)
        model, saved = self.model(), self.saved()
        self.assertEqual(len(checkpoints(self.folder)), 1)
        self.goes(**two, data__validation_file=self.b)
        self.goes(**two, data__validation_file=self.b, data__test_file=self.a)
        self.assertEqual((self.model(), self.saved()), (model, saved))
        self.assertEqual(read(self.folder, "trainer_state.json")["global_step"], 12)

    def test_shows_validations_of_other_rows_on_every_curve_and_the_same_ones_once(self):
        self.goes(training__load_best_model_at_end=None)
        first = self.lines()
        self.goes(training__load_best_model_at_end=None, data__validation_file=write_rows(self.folder / "moved.jsonl", ROWS[:8]))
        self.assertEqual(self.lines(), first)  # the same rows
        changes = {"data__validation_file": self.b}
        for number in range(2):
            self.goes(training__load_best_model_at_end=None, **changes)
            new = read(self.folder, "validation_results.json")["eval_loss"]
            self.assertNotEqual(new, first[-1][1])
            self.assertEqual(losses(self.folder)[12], new)
            self.assertEqual(self.lines()[-1], (12, new))
            self.assertEqual(len(self.lines()), len(first) + 1 + number)
            self.assertAlmostEqual(scalars(self.output / "runs", "eval/loss")[12], new, places=5)
            changes["training__per_device_eval_batch_size"] = "4"


class ARunThatGoesOn(Case):
    def test_judges_the_weights_that_it_goes_on_from_first_where_the_rule_changes(self):
        self.stopped_after(6)
        said = self.goes(training__per_device_eval_batch_size="4", training__save_total_limit="2").stderr
        self.assertIn("resume: validation rows or batches have changed: restarting the search for the best, from the weights of update 6", said)
        self.assertEqual(self.is_the_best_from(6), 6)
        self.assertEqual(checkpoints(self.folder), [6, 12])
        self.assertNotIn("saved checkpoint-6 ", said)  # which is there

    def test_judges_them_too_where_fewer_rows_are_evaluated(self):
        self.stopped_after(6)
        self.assertIn("restarting the search for the best, from the weights of update 6", self.goes(data__max_eval_samples="5").stderr)

    def test_that_was_at_its_end_keeps_its_best(self):
        self.stopped_after(12)
        said = self.goes(data__validation_file=self.b).stderr
        self.assertIn("train: loaded the best weights, from checkpoint-4", said)
        self.assertEqual(self.model(), self.of_checkpoint(4))

    def test_searches_anew_where_the_best_so_far_was_removed(self):
        self.stopped_after(6)
        shutil.rmtree(self.output / "checkpoint-4")
        said = self.goes(training__save_total_limit="0").stderr
        self.assertIn("resume: the best checkpoint so far, checkpoint-4, is missing from ", said)
        self.assertEqual(self.is_the_best_from(6), 6)

    def test_searches_anew_in_another_folder(self):
        self.goes()
        for steps, best in (("14", 12), ("12", 12)):
            with self.subTest(steps=steps):
                self.output = self.folder / f"run{steps}"
                done = run_ok("run", self.settings(training__output_dir=f'"{self.output}"', training__resume='"./run/checkpoint-12"', training__max_steps=steps))
                self.assertIn("resume: the best checkpoint so far, checkpoint-4, is missing from ", done.stderr)
                self.assertEqual(self.model(), self.of_checkpoint(best))
