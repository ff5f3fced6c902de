# SPDX-License-Identifier: Apache-2.0
"""The average of the weights (training.ema_decay) in whole runs: its definition, its evaluation, its folder, and that its bits depend on nothing but the settings."""
import json
import re
import shutil
import signal

from bascule_run import EMOJI, FolderTest, digest, instruction_sets, run_ends, run_ok, run_until
from flipped_bits import signed, xxh3
from rank_runs import STRATEGIES, VALIDATION, ranks_settings
from run_files import scalars, tensors, weights

DECAY, STEPS, WARM_UP = 0.75, 2, 3
AVERAGE = {"training__ema_decay": str(DECAY), "training__ema_steps": str(STEPS), "training__warmup_steps": str(WARM_UP), "training__max_steps": "8", "training__save_steps": "4",
           "training__per_device_train_batch_size": "4"}
EVALUATED = {"data__validation_file": VALIDATION, "training__eval_steps": "4", "training__per_device_eval_batch_size": "64"}


def averages(checkpoint):
    found = tensors(checkpoint / "training_state.safetensors")
    return {name[len("ema."):]: values for name, values in found.items() if name.startswith("ema.")}


def results(folder, name="validation_results.json"):
    return json.loads((folder / name).read_text())


class Average(FolderTest):
    def settings(self, name, ranks=1, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return ranks_settings(folder, ranks, **{**AVERAGE, **changes})

    def trained(self, *arguments, **changes):
        toml = self.settings(*arguments, **changes)
        run_ok("run", toml)
        return toml.parent / "run"

    def digests(self, *arguments, **changes):
        folder = self.trained(*arguments, **changes)
        return digest(folder / "ema/model.safetensors"), digest(folder / "model.safetensors"), digest(folder / "checkpoint-8/training_state.safetensors")

    def test_it_is_what_its_definition_gives_of_the_weights_of_each_update(self):
        folder = self.trained("each", training__save_steps="1", training__save_total_limit="0")
        expected = None
        for step in range(1, 9):
            now = {name: list(values) for name, values in tensors(folder / f"checkpoint-{step}/model.safetensors").items()}
            if step % STEPS == 0 and step <= WARM_UP:
                expected = now
            elif step % STEPS == 0:
                expected = {name: [e + (1 - DECAY) * (p - e) for e, p in zip(values, now[name])] for name, values in expected.items()}
            found = averages(folder / f"checkpoint-{step}")
            for name, values in found.items() if expected else ():
                worst = max(abs(a - b) for a, b in zip(values, expected[name]))
                self.assertLessEqual(worst, 0.0 if step <= WARM_UP else 1e-6 * max(map(abs, expected[name])) + 1e-9, (step, name))
        self.assertGreater(len(found), 40)
        final = weights(folder / "ema")
        self.assertEqual(final.keys(), weights(folder).keys())
        self.assertTrue(all(final[name] == values for name, values in found.items()))
        self.assertNotEqual(digest(folder / "ema/model.safetensors"), digest(folder / "model.safetensors"))

    def test_before_it_takes_anything_in_it_is_the_weights_of_the_start(self):
        folder = self.trained("start", training__max_steps="1", training__save_steps="1", training__ema_steps="5")
        start = self.trained("still", training__max_steps="1", training__save_steps="1", training__learning_rate="0.0", training__ema_decay=None, training__ema_steps=None)
        self.assertEqual(digest(folder / "ema/model.safetensors"), digest(start / "model.safetensors"))

    def test_its_figures_are_those_of_its_folder(self):
        folder = self.trained("evaluated", **EVALUATED, data__test_file=VALIDATION)
        self.assertEqual({path.name for path in (folder / "ema").iterdir()},
                         {"config.json", "model.safetensors", "preprocessor_config.json", *(path.name for path in (EMOJI / "tokenizer").iterdir() if (folder / path.name).exists())})
        found, every = results(folder), results(folder, "all_results.json")
        self.assertNotEqual(found["eval_ema_loss"], found["eval_loss"])
        self.assertEqual((every["validation_ema_loss"], every["test_ema_loss"]), (found["eval_ema_loss"], results(folder, "test_results.json")["eval_ema_loss"]))
        nothing = {key: None for key in (*AVERAGE, "training__eval_steps", "model__tokenizer_name", "model__from_scratch", "data__train_file")}
        alone = self.trained("alone", **{**EVALUATED, **nothing, "model__model_name_or_path": f'"{folder}/ema"'})
        again = results(alone)
        figures = [key for key in again if key.startswith("eval_") and not key.endswith(("runtime", "per_second"))]
        self.assertGreater(len(figures), 4)
        for key in figures:
            self.assertEqual(found["eval_ema_" + key[len("eval_"):]], again[key], key)
        lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "eval_ema_loss" in line], [4, 8])
        self.assertEqual(scalars(folder, "eval_ema/loss").keys(), {4, 8})
        self.assertIn("averaged weights", (folder / "report.html").read_text())

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        one = self.digests("one")
        self.assertEqual(self.digests("threads", machine__threads="1"), one)
        for isa in instruction_sets():
            if isa != "scalar":
                self.assertEqual(self.digests(isa, machine__isa=f'"{isa}"'), one, isa)

    def test_every_strategy_gives_the_same_bits(self):
        found = {name: self.digests(name, 2, training__per_device_train_batch_size="2", **changes) for name, changes in STRATEGIES.items()}
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_killed_run_goes_on_with_the_same_bits(self):
        whole = self.digests("whole", **EVALUATED)
        toml = self.settings("killed", **EVALUATED)
        run_until("saved checkpoint-4", signal.SIGKILL, "run", toml)
        self.assertFalse((toml.parent / "run/checkpoint-8").exists())
        self.assertEqual(self.digests("killed", **EVALUATED), whole)
        one, other = (results(self.folder / name / "run") for name in ("whole", "killed"))
        self.assertEqual(one["eval_ema_loss"], other["eval_ema_loss"])
        lines = [json.loads(line) for line in (self.folder / "killed/run/log.jsonl").read_text().splitlines()]
        self.assertEqual([line["step"] for line in lines if "eval_ema_loss" in line], [4, 8])
        history = json.loads((self.folder / "killed/run/trainer_state.json").read_text())["log_history"]
        self.assertEqual([line["step"] for line in history if "eval_ema_loss" in line], [4, 8])
        self.assertIn("validation, averaged weights", (self.folder / "killed/run/report.html").read_text())

    def test_a_checkpoint_without_its_curve_is_resumed(self):
        changes = {**EVALUATED, "training__lr_schedule_steps": "8", "training__eval_steps": "2"}
        checkpoint = self.trained("older", **{**changes, "training__max_steps": "4"}) / "checkpoint-4"
        path, records = checkpoint / "bascule_state.json", checkpoint / "evaluation_records.bin"
        without = re.sub(rb', "averaged_evaluation_records.bin": \{[^}]*\}', b"", path.read_bytes())
        self.assertNotEqual(without, path.read_bytes())
        # A record had seven metrics fewer.
        whole, each = records.read_bytes(), 7 * 8 + 128
        self.assertEqual(len(whole) % each, 0)
        fewer = b"".join(whole[at:at + 128] for at in range(0, len(whole), each))
        records.write_bytes(fewer)
        without, count = re.subn(rb'("evaluation_records.bin": \{"bytes": )%d(, "xxh3": ")%s"' % (len(whole), xxh3(whole).encode()),
                                 rb'\g<1>%d\g<2>%s"' % (len(fewer), xxh3(fewer).encode()), without)
        self.assertEqual(count, 1)
        path.write_bytes(signed(without))
        (checkpoint / "averaged_evaluation_records.bin").unlink()
        self.assertEqual(self.digests("older", **changes), self.digests("whole", **changes))
        history = json.loads((self.folder / "older/run/trainer_state.json").read_text())["log_history"]
        self.assertEqual([line["step"] for line in history if "eval_ema_loss" in line], [4, 6, 8])

    def test_a_finished_run_evaluates_it_again(self):
        folder = self.trained("again", **EVALUATED)
        before = results(folder)
        self.trained("again", **{**EVALUATED, "data__validation_file": f'"{EMOJI}/test.jsonl"'})
        self.assertNotEqual(results(folder)["eval_ema_loss"], before["eval_ema_loss"])
        self.trained("again", **EVALUATED)
        self.assertEqual(results(folder)["eval_ema_loss"], before["eval_ema_loss"])

    def test_its_memory_is_planned_and_there_is_none_without_it(self):
        plans = []
        for changes in ({}, {"training__ema_decay": None, "training__ema_steps": None}):
            done = run_ok("plan", self.settings("plan", **changes), "--json")
            plans.append(json.loads(done.stdout)["categories"])
        averaged, plain = plans
        self.assertEqual(averaged.pop("averaged weights"), plain["exp_avg"])
        self.assertEqual(averaged, plain)
        folder = self.trained("plain", training__ema_decay=None, training__ema_steps=None)
        self.assertFalse((folder / "ema").exists())
        self.assertEqual(averages(folder / "checkpoint-8"), {})

    def test_where_it_goes_nothing_else_may_be(self):
        self.trained("one", training__max_steps="4", training__lr_schedule_steps="8")
        folder, elsewhere = self.folder / "one/run/ema", self.folder / "elsewhere"
        shutil.rmtree(folder)
        elsewhere.mkdir()
        for put in (lambda: folder.symlink_to(elsewhere), lambda: folder.write_text("mine")):
            put()
            done = run_ends(2, "run", self.settings("one", training__max_steps="8", training__lr_schedule_steps="8"))
            self.assertIn("ema is not a folder, but the average of the weights will be written there; move it away", done.stderr)
            self.assertEqual((len(done.stderr.splitlines()), list(elsewhere.iterdir())), (1, []))
            folder.unlink()

    def test_steps_without_a_decay_are_refused(self):
        self.assertIn("training.ema_steps is set, but no average of the weights is kept", run_ends(2, "plan", self.settings("refused", training__ema_decay=None)).stderr)
