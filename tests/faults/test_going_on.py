# SPDX-License-Identifier: Apache-2.0
"""What may change when a run goes on from a checkpoint: it goes on as `bascule settings --resume` says, or is refused by name."""
import json
import pathlib
import shutil

from bascule_run import EMOJI, TINY_MODEL, FolderTest, digest, run, run_ends, run_ok, settings
from flipped_bits import flip


def tree(folder):
    """Every file below a folder with its content."""
    return {str(path.relative_to(folder)): digest(path) for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()}


def add_tensor(path, name):
    """To a safetensors file, behind all others."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    header[name] = {"dtype": "F32", "shape": [2], "data_offsets": [len(data), len(data) + 8]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data + b"\0" * 8)


class GoingOn(FolderTest):
    def settings(self, name="a", **changes):
        (self.folder / name).mkdir(exist_ok=True)
        return settings(self.folder / name, **{"training__max_steps": "4", "training__save_steps": "2", "training__logging_steps": "1",
                                               "training__per_device_train_batch_size": "4", **changes})

    def run_to_the_end(self, toml):
        done = run_ok("run", toml)
        return done.stderr

    def model(self, name="a"):
        return digest(self.folder / name / "run/model.safetensors")

    def results(self, name="a"):
        return json.loads((self.folder / name / "run/all_results.json").read_text())

    def history(self, name="a"):
        marker = json.loads((self.folder / name / "run/bascule.json").read_text())
        return [(entry["step"], entry["key"], entry["from"], entry["to"]) for entry in marker["history"]]

    def refused(self, toml, code, *words):
        folder = toml.parent / "run"
        before = tree(folder)
        done = run_ends(code, "run", toml)
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[-1])
        self.assertEqual(tree(folder), before)

    def test_logs_with_a_bit_changed_are_mended_from_the_checkpoint_and_said(self):
        self.run_to_the_end(self.settings())
        output = self.folder / "a" / "run"
        log, (events,) = output / "log.jsonl", (output / "runs" / "bascule").glob("events.*")
        lines = log.read_text().splitlines()
        place = lines[1].index('"loss": ') + 10
        log.write_text("\n".join([lines[0], lines[1][:place] + str(9 - int(lines[1][place])) + lines[1][place + 1:], *lines[2:]]) + "\n")
        flip(events, events.stat().st_size // 2, 1)
        said = self.run_to_the_end(self.settings(training__max_steps="5", training__lr_schedule_steps="4"))
        self.assertEqual(log.read_text().splitlines()[:4], lines)
        self.assertIn("bascule: resume: log.jsonl: 1 line damaged or missing; written from the checkpoint\n", said)
        self.assertRegex(said, "bascule: resume: .*events.*: damaged; records that cannot be read were removed from TensorBoard, and are in log.jsonl")

    def test_a_log_of_which_lines_are_rubbish_or_gone_is_made_whole_and_said(self):
        self.run_to_the_end(self.settings())
        log = self.folder / "a/run/log.jsonl"
        lines = log.read_text().splitlines(keepends=True)
        bare = lambda: [json.loads(line) | {"time": 0} for line in log.read_text().splitlines()]
        whole = bare()
        for steps, broken, said in ((5, lambda: [lines[0], "rubbish\n", *lines[3:]], "2 lines damaged or missing; written"),
                                    (6, lambda: [lines[0], "rubbish\n", *lines[1:]], "removed 1 damaged line that"), (7, list, "6 lines damaged or missing; written")):
            log.write_text("".join(broken()))
            told = self.run_to_the_end(self.settings(training__max_steps=str(steps), training__lr_schedule_steps="4"))
            self.assertIn(f"resume: log.jsonl: {said}", told)
            self.assertEqual(told.count("log.jsonl"), 1, told)
            self.assertEqual(bare()[:len(whole)], whole)
            lines = log.read_text().splitlines(keepends=True)

    def test_no_trained_tensor_is_lost_where_another_program_trained_more(self):
        """As one that trained a tied table and its copy apart. Its checkpoint has no checksums: it is of long ago."""
        self.run_to_the_end(self.settings())
        checkpoint, marker = self.folder / "a/run/checkpoint-4", self.folder / "a/run/bascule.json"
        marker.write_text(json.dumps({key: value for key, value in json.loads(marker.read_text()).items() if key != "record"}))  # nor has its folder a record
        add_tensor(self.folder / "a/run/model.safetensors", "mlm_score.decoder.weight")
        self.refused(self.settings(data__test_file=f'"{EMOJI}/test.jsonl"'), 3, "a/run: has tensors unknown to this program: mlm_score.decoder.weight; restore the weights of update 4")
        add_tensor(checkpoint / "model.safetensors", "mlm_score.decoder.weight")
        state = json.loads((checkpoint / "bascule_state.json").read_text())
        state["format"] = 2
        del state["xxh3"], state["resumed_from"]
        state["files"] = {name: (checkpoint / name).stat().st_size for name in state["files"]}
        (checkpoint / "bascule_state.json").write_text(json.dumps(state))
        self.refused(self.settings(training__max_steps="6", training__lr_schedule_steps="4"), 3, "checkpoint-4: has tensors unknown to this program: mlm_score.decoder.weight; resume with the version that wrote it")

    def test_a_longer_run_of_a_constant_rate_has_the_bits_of_one_that_was_as_long_from_the_start(self):
        constant = {"training__lr_scheduler_type": '"constant"'}
        self.run_to_the_end(self.settings("long", training__max_steps="7", **constant))
        self.run_to_the_end(self.settings(**constant))
        said = self.run_to_the_end(self.settings(training__max_steps="7", **constant))
        self.assertIn("resume: 7 updates instead of 4\n", said)
        self.assertIn("resume: from checkpoint-4", said)
        self.assertEqual(self.model(), self.model("long"))
        self.assertEqual(self.history(), [(4, "training.max_steps", "4", "7")])
        state = json.loads((self.folder / "a/run/checkpoint-7/bascule_state.json").read_text())
        self.assertEqual([entry["key"] for entry in state["history"]], ["training.max_steps"])
        self.assertIn("Changes during the run", (self.folder / "a/run/report.html").read_text())
        # The curve of the whole run, from both processes.
        steps = [entry["step"] for entry in json.loads((self.folder / "a/run/trainer_state.json").read_text())["log_history"] if "loss" in entry]
        self.assertEqual(steps, list(range(1, 8)))
        losses = [json.loads((self.folder / name / "run/train_results.json").read_text())["train_loss"] for name in ("a", "long")]
        self.assertEqual(losses[0], losses[1])
        self.assertIn("already finished", self.run_to_the_end(self.settings(training__max_steps="7", **constant)))

    def test_a_longer_run_whose_warm_up_begins_again_says_so(self):
        warm = {"training__warmup_ratio": "0.25", "training__max_steps": "4"}
        self.run_to_the_end(self.settings(**warm))
        shutil.copytree(self.folder / "a", self.folder / "b")
        said = self.run_to_the_end(self.settings("b", **{**warm, "training__max_steps": "12"}))
        self.assertIn("resume: 12 updates instead of 4: the schedule is stretched from update 4 to 12\n", said)
        said = self.run_to_the_end(self.settings(**{**warm, "training__max_steps": "24"}))
        self.assertIn("resume: 24 updates instead of 4: the schedule is stretched from update 4 to 24; the warm-up takes 6 updates instead of 1, "
                      "so the rate rises again until update 6\n", said)
        logged = json.loads((self.folder / "a/run/trainer_state.json").read_text())["log_history"]
        rates = [entry["learning_rate"] for entry in logged if "learning_rate" in entry]
        self.assertEqual(rates.index(max(rates[4:]), 4), 6)  # the seventh update, the first after the warm-up
        constant = {**warm, "training__lr_scheduler_type": '"constant_with_warmup"'}
        self.run_to_the_end(self.settings("c", **constant))
        said = self.run_to_the_end(self.settings("c", **{**constant, "training__max_steps": "20"}))
        self.assertIn("resume: 20 updates instead of 4: the warm-up takes 5 updates instead of 1, so the rate rises again until update 5\n", said)

    def test_a_schedule_that_was_made_for_more_updates_is_kept(self):
        self.run_to_the_end(self.settings("long", training__max_steps="7"))
        self.run_to_the_end(self.settings(training__lr_schedule_steps="7"))
        said = self.run_to_the_end(self.settings(training__max_steps="7", training__lr_schedule_steps="7"))
        self.assertIn("7 updates instead of 4: the schedule keeps its 7 updates", said)
        self.assertEqual(self.model(), self.model("long"))

    def test_a_shorter_run_and_a_shorter_schedule_are_refused(self):
        self.run_to_the_end(self.settings(training__lr_schedule_steps="6"))
        self.refused(self.settings(training__max_steps="3", training__lr_schedule_steps="6"), 2, "training.max_steps is 3 (3 updates)",
                     "was trained with 4 (4 updates)")
        self.refused(self.settings(training__max_steps="5"), 2, "training.lr_schedule_steps is 0 (5 updates)", "was trained with 6 (6 updates)")
        self.refused(self.settings(training__max_steps=None, training__num_train_epochs="0.003"), 2, "training.num_train_epochs is 0.003",
                     "training.max_steps = 4 (4 updates)")

    def test_another_value_of_a_key_that_must_be_the_same_is_refused_with_both(self):
        self.run_to_the_end(self.settings())
        self.refused(self.settings(training__seed="7"), 2, "training.seed is 7, but ", "checkpoint-4 was trained with 42")

    def test_a_lower_rate_only_after_values_that_are_not_finite(self):
        wild = dict(training__max_steps="40", training__save_steps="1", training__lr_scheduler_type='"constant"',
                    training__learning_rate="1e3", training__weight_decay="1e3")
        done = run_ends(3, "run", self.settings(**wild))
        self.assertIn("not finite", done.stderr)
        steps = [int(path.name.split("-")[1]) for path in (self.folder / "a/run").glob("checkpoint-*")]
        self.assertTrue(steps, done.stderr)
        self.refused(self.settings(**{**wild, "training__seed": "7"}), 2, "training.seed is 7", "42")
        said = run("run", self.settings(**{**wild, "training__learning_rate": "1e-9"})).stderr
        self.assertIn(f"resume: from checkpoint-{max(steps)}", said)
        self.assertIn("resume: training.learning_rate changed from 1000.0 to 1e-09", said)

    def test_a_lower_rate_is_refused_where_nothing_went_wrong(self):
        self.run_to_the_end(self.settings())
        self.refused(self.settings(training__learning_rate="1e-4"), 2, "training.learning_rate is 1e-04", "was trained with 0.001",
                     "it may be lowered after the run stopped on values that are not finite")

    def test_a_model_folder_may_move_but_not_change(self):
        for name, source in (("model", TINY_MODEL), ("tokenizer", EMOJI / "tokenizer")):
            shutil.copytree(source, self.folder / "a" / name)
        moved = {"model__model_name_or_path": '"model"', "model__tokenizer_name": '"tokenizer"'}
        self.run_to_the_end(self.settings())
        self.run_to_the_end(self.settings(training__max_steps="6", **moved))
        self.assertIn((4, "model.model_name_or_path", f'"{TINY_MODEL}"', '"model"'), self.history())
        config = self.folder / "a/model/config.json"
        values = json.loads(config.read_text())
        config.write_text(json.dumps(values, indent=7))  # the same content
        self.run_to_the_end(self.settings(training__max_steps="7", **moved))
        processor = self.folder / "a/model/processor_config.json"  # counts before preprocessor_config.json
        processor.write_text(json.dumps({"image_processor": {"image_mean": [0.5, 0.5, 0.5]}}))
        self.refused(self.settings(training__max_steps="8", **moved), 3, "was trained with: processor_config.json differs")
        processor.unlink()
        config.write_text(json.dumps({**values, "logit_scale_init_value": 2.0}))
        self.refused(self.settings(training__max_steps="8", **moved), 3, "model.model_name_or_path differs from what ", "was trained with: config.json differs")
        self.run_to_the_end(self.settings(training__max_steps="8"))
        self.refused(self.settings(training__max_steps="9", **moved), 2, 'model.model_name_or_path is "model", but ', f'"{TINY_MODEL}"',
                     "config.json differs")

    def test_weights_are_told_by_their_content(self):
        self.run_to_the_end(self.settings("source", training__max_steps="1"))
        source = self.folder / "source/run"
        for name in ("model", "other"):
            shutil.copytree(source, self.folder / "a" / name, ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
        with open(self.folder / "a/other/model.safetensors", "r+b") as file:
            file.seek(-1, 2)
            file.write(b"\x3e")
        def using(folder, steps):
            return self.settings(model__model_name_or_path=f'"{folder}"', model__from_scratch="false", training__max_steps=str(steps))
        self.run_to_the_end(using(source, 2))
        self.refused(using("other", 4), 2, "model.model_name_or_path", "the content of the weights differs")
        self.run_to_the_end(using("model", 4))

    def test_weights_that_only_pass_through_may_not_change(self):
        self.run_to_the_end(self.settings("source", training__max_steps="1"))
        shutil.copytree(self.folder / "source/run", self.folder / "a/model", ignore=shutil.ignore_patterns("checkpoint-*", "runs"))
        def using(steps):
            return self.settings(model__model_name_or_path='"model"', model__from_scratch="false", training__max_steps=str(steps))
        self.run_to_the_end(using(2))
        weights = self.folder / "a/model/model.safetensors"
        data = weights.read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        name = next(name for name in sorted(header) if "text_model.pooler" in name)
        at = 8 + int.from_bytes(data[:8], "little") + header[name]["data_offsets"][0]
        weights.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
        self.refused(using(4), 3, "model.model_name_or_path differs from what ", f"{name} differs")
        weights.write_bytes(data)
        self.run_to_the_end(using(4))

    def test_what_changes_nothing_does_not_bind(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                name, both = f"ranks {ranks}", {"distributed__world_size": ranks}
                self.run_to_the_end(self.settings(name, **both))
                folder, idle = self.folder / name / "run", {"model__freeze": "[]", "distributed__wire_type": '"bf16"', **both}
                weights = self.model(name)
                self.assertIn("already finished", self.run_to_the_end(self.settings(name, **idle)))
                # As a program wrote them for which these values counted.
                for path in [folder / "bascule.json", *folder.glob("*/bascule_state.json")]:
                    state = json.loads(path.read_text())
                    state["settings_digest"] = "0123456789abcdef"
                    if path.name == "bascule.json":
                        state["settings"] = state["settings"].replace('freeze = ["text_pooler"]', "freeze = []").replace('wire_type = "float32"', 'wire_type = "bf16"')
                    else:
                        state["settings"].update({"model.freeze": "[]", "distributed.wire_type": '"bf16"'})
                        state["format"] = 2  # which had no checksums
                        state["files"] = {name: file["bytes"] for name, file in state["files"].items()}
                        state = {key: value for key, value in state.items() if key not in ("resumed_from", "xxh3")}
                    path.write_text(json.dumps(state))
                for changes in (both, idle):
                    self.assertIn("already finished", self.run_to_the_end(self.settings(name, **changes)))
                self.assertEqual(self.model(name), weights)
                said = self.run_to_the_end(self.settings(name, training__max_steps="6", **both))
                self.assertIn("resume: from checkpoint-4", said)
                self.assertNotIn("model.freeze", said)
                self.run_to_the_end(self.settings(name, training__max_steps="8", **idle))

    def test_a_copy_of_a_checkpoint_is_not_touched(self):
        self.run_to_the_end(self.settings())
        copies = [self.folder / "a/run" / f"checkpoint-4{ending}" for ending in (".tmp", ".deleting", ".bak")]
        for copy in copies:
            shutil.copytree(self.folder / "a/run/checkpoint-4", copy)
        before = [tree(copy) for copy in copies]
        self.run_to_the_end(self.settings(training__max_steps="8", training__save_total_limit="1"))
        self.assertEqual([tree(copy) for copy in copies], before)

    def test_an_evaluation_is_not_overwritten_by_training(self):
        evaluated = {"data__validation_file": f'"{EMOJI}/validation.jsonl"'}
        self.run_to_the_end(self.settings(training__do_train="false", **evaluated))
        self.refused(self.settings(**evaluated), 2, "holds the results of an evaluation")

    def test_a_finished_run_evaluates_other_data(self):
        self.run_to_the_end(self.settings(data__test_file=f'"{EMOJI}/test.jsonl"'))
        model, flos = self.model(), self.results()["total_flos"]
        self.assertGreater(flos, 0)
        said = self.run_to_the_end(self.settings(data__test_file=f'"{EMOJI}/validation.jsonl"'))
        self.assertIn("resume: from checkpoint-4", said)
        self.assertEqual(self.model(), model)
        self.assertEqual(self.results()["total_flos"], flos)
        again = self.run_to_the_end(self.settings(data__test_file=f'"{EMOJI}/validation.jsonl"'))
        self.assertIn("already finished", again)

    def test_a_finished_run_predicts_when_it_is_asked_to(self):
        test_file = {"data__test_file": f'"{EMOJI}/test.jsonl"'}
        for name, trains in (("trained", "true"), ("evaluated", "false")):
            with self.subTest(name):
                asked = {"name": name, "training__do_train": trains, "data__validation_file": f'"{EMOJI}/validation.jsonl"',
                         **test_file}
                self.run_to_the_end(self.settings(training__do_predict="false", **asked))
                results = self.folder / name / "run/test_results.json"
                self.assertFalse(results.exists())
                self.assertIn("already finished", self.run_to_the_end(self.settings(training__do_predict="false", **asked)))
                self.run_to_the_end(self.settings(training__do_predict="true", **asked))
                self.assertTrue(results.exists())
                self.assertIn("already finished", self.run_to_the_end(self.settings(training__do_predict="true", **asked)))
