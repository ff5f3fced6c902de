# SPDX-License-Identifier: Apache-2.0
"""A BERT learns to fill in masked tokens of texts without pictures: its figures, its bits, and what it refuses."""
import json
import pathlib
import shutil
import tempfile

from bascule_run import EMOJI, ROOT, FolderTest, digest, instruction_sets, run, settings, run_ok
from run_files import rewrite, tensors

WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"


class Bert(FolderTest):
    def model_with(self, **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, folder)
        (folder / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
            "max_position_embeddings": 40, **members}))
        return folder

    def settings(self, name="one", model=None, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        model = model or self.model_with()
        return settings(folder, **{
            "model__model_name_or_path": f'"{model}"', "model__tokenizer_name": None, "data__train_file": f'"{EMOJI}/train.jsonl"', "data__preprocessing": None,
            "media_engine__memory_mib": None, "training__max_steps": "9", "training__save_steps": "3", **changes})

    def weights(self, name="one", **changes):
        run_ok("run", self.settings(name, **changes))
        return digest(self.folder / name / "run/model.safetensors")

    def test_learns_and_says_what_it_fills_in(self):
        self.weights(training__max_steps="120", training__per_device_train_batch_size="32", training__learning_rate="3e-3", training__save_steps="0",
                     data__validation_file=f'"{EMOJI}/validation.jsonl"', data__test_file=f'"{EMOJI}/test.jsonl"')
        folder = self.folder / "one" / "run"
        results = json.loads((folder / "all_results.json").read_text())
        self.assertLess(results["validation_loss"], 6.8)  # 8.3 at the start: the logarithm of 4,000
        self.assertGreater(results["validation_accuracy"], 0.03)
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForMaskedLM"])
        self.assertIn("import AutoTokenizer, BertForMaskedLM", (folder / "README.md").read_text())
        self.assertTrue((folder / "vocab.txt").exists())
        self.assertFalse((folder / "preprocessor_config.json").exists())
        first = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
        vocabulary = set((WORD_PIECE / "vocab.txt").read_text().split("\n"))
        self.assertTrue({token["expected"] for token in first["tokens"]} <= vocabulary)
        saved = tensors(folder / "model.safetensors")
        self.assertIn("cls.predictions.bias", saved)
        self.assertNotIn("cls.predictions.decoder.weight", saved)

    def test_updates_without_a_masked_token_leave_no_trace_in_the_mean_loss(self):
        texts = self.folder / "texts.jsonl"
        texts.write_text("".join(json.dumps({"caption": text}) + "\n" for text in ("a", "the", "open file", "cat", "in", "a list") * 3))
        common = {"model": self.model_with(), "data__train_file": f'"{texts}"', "data__masking": '"bernoulli"', "data__mlm_probability": "0.05", "training__per_device_train_batch_size": "1",
                  "training__max_steps": "18", "training__lr_schedule_steps": "18"}
        self.weights("whole", **common, training__logging_steps="1", data__validation_file=f'"{texts}"', data__max_eval_samples="1")
        results = json.loads((self.folder / "whole/run/all_results.json").read_text())
        logged = [entry["loss"] for entry in json.loads((self.folder / "whole/run/trainer_state.json").read_text())["log_history"] if "loss" in entry]
        losses = [loss for loss in logged if loss is not None]
        self.assertEqual(len(logged), 18)
        self.assertTrue(0 < len(losses) < 18, logged)
        self.assertGreater(min(losses), 7)  # 8.3: the logarithm of 4,000
        self.assertAlmostEqual(results["train_loss"], sum(losses) / len(losses), places=3)
        self.assertNotIn("validation_loss", results)  # of one row, in which nothing is masked
        self.assertNotIn("validation_accuracy", results)
        for name, parts in (("once", ("18",)), ("twice", ("5", "18"))):
            for steps in parts:
                self.weights(name, **{**common, "training__max_steps": steps}, training__logging_steps="9", training__save_steps="1")
            self.assertEqual(json.loads((self.folder / name / "run/all_results.json").read_text())["train_loss"], results["train_loss"])
        for line in (self.folder / "once/run/log.jsonl").read_text().splitlines():  # an interval's mean too
            entry = json.loads(line)
            of_interval = [loss for loss in logged[entry["step"] - 9:entry["step"]] if loss is not None]
            if of_interval:
                self.assertAlmostEqual(entry["loss"], sum(of_interval) / len(of_interval), places=3)
            else:
                self.assertIsNone(entry["loss"])

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        model = self.model_with()
        for precision in ("float32", "bf16"):
            common = {"model": model, "model__precision": f'"{precision}"'}
            whole = self.weights(f"{precision}-whole", **common)
            with self.subTest(precision):
                for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("recomputed", {"training__gradient_checkpointing": '"full"'}), ("kept", {"training__gradient_checkpointing": '"off"'}),
                                      *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    self.assertEqual(self.weights(f"{precision}-{name}", **common, **changes), whole, name)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                self.assertEqual(self.weights(f"{precision}-ranks", **common, **ranks),
                                 self.weights(f"{precision}-sharded", **common, **ranks, distributed__distribution_strategy='"sharded"'))
                self.weights(f"{precision}-parts", **common, training__max_steps="4", training__lr_schedule_steps="9")
                self.assertEqual(self.weights(f"{precision}-parts", **common, training__lr_schedule_steps="9"), whole)

    def test_a_finished_folder_starts_the_next_run_tied_or_not(self):
        for tied in (True, False):
            with self.subTest(tied=tied):
                self.weights(f"start-{tied}", model=self.model_with(tie_word_embeddings=tied))
                start = self.folder / f"start-{tied}" / "run"
                self.assertEqual("cls.predictions.decoder.weight" in tensors(start / "model.safetensors"), not tied)
                self.weights(f"next-{tied}", model=start, model__from_scratch="false")

    def test_a_tokenizer_without_a_class_is_read_in_the_finished_folder_as_it_was(self):
        """Beside the model's config.json its files alone would be read as BertTokenizer reads them."""
        tokenizer = self.folder / "tokenizer"
        tokenizer.mkdir()
        document = json.loads((WORD_PIECE / "tokenizer.json").read_text())
        document["normalizer"]["lowercase"] = False
        (tokenizer / "tokenizer.json").write_text(json.dumps(document))
        for name, names in (("unnamed", {}), ("named", {"model_input_names": ["input_ids", "token_type_ids"]})):
            (tokenizer / "tokenizer_config.json").write_text(json.dumps({"strip_accents": True, "do_lower_case": True, **names}))
            self.weights(name, model__tokenizer_name=f'"{tokenizer}"', training__max_steps="1", training__save_steps="0")
            finished = self.folder / name / "run"
            config = json.loads((finished / "tokenizer_config.json").read_text())
            self.assertEqual(config, {"strip_accents": True, "do_lower_case": True, "tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "token_type_ids", "attention_mask"], **names})
            ids = [run("tokenize", "--model", folder, input='["The caf\u00e9 is HERE"]').stdout for folder in (tokenizer, finished)]
            self.assertEqual(ids[0], ids[1])
            self.assertIn("[[2, ", ids[0])

    def test_old_names_and_a_decoder_that_equals_the_word_table_change_nothing(self):
        start = self.folder / "start" / "run"
        self.weights("start")
        plain = self.weights("plain", model=start, model__from_scratch="false")
        old = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in ("config.json", "vocab.txt", "tokenizer_config.json"):
            shutil.copy(start / file, old)

        def rename(name):
            return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

        rewrite(start / "model.safetensors", old / "model.safetensors", rename, {"cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight"})
        self.assertEqual(self.weights("old", model=old, model__from_scratch="false"), plain)

    def test_a_decoder_that_differs_from_the_word_table_is_untied(self):
        self.weights("untied", model=self.model_with(tie_word_embeddings=False), training__max_steps="3")
        start, model = self.folder / "untied/run", self.model_with()
        config = json.loads((start / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
        # As an old file has it: the one bias is that of the predictions.
        rewrite(start / "model.safetensors", model / "model.safetensors",
                lambda name: {"cls.predictions.bias": "left.out", "cls.predictions.decoder.bias": "cls.predictions.bias"}.get(name, name), {})
        # Of a library that builds on the model, and of its users: nothing here knows them. Files of Git, of runs and other forms of weights go without saying.
        for folder in ("1_Other", ".git", "checkpoint-3"):
            (model / folder).mkdir()
        notes = [f"notes-{number:02}" for number in range(21)]
        for file in ("library.json", ".gitattributes", "README.md", "pytorch_model.bin", "special_tokens_map.json", *notes):
            (model / file).write_text("{}")
        done = run_ok("run", self.settings("again", model=model, model__from_scratch="false", training__max_steps="1", training__learning_rate="0.0"))
        self.assertIn(f"bascule: model: {model} has files that the finished folder will lack: 1_Other/, library.json, {', '.join(notes[:18])} and 3 more\n", done.stderr)
        self.assertNotIn("finished folder will lack", run("run", self.settings("again", model=model, model__from_scratch="false", training__max_steps="2", training__learning_rate="0.0")).stderr)
        evaluated = run("run", self.settings("evaluated", model=model, training__do_train="false", training__max_steps=None, training__save_steps=None, data__train_file=None, data__validation_file=f'"{EMOJI}/validation.jsonl"'))
        self.assertEqual((evaluated.returncode, evaluated.stderr.count("finished folder will lack")), (0, 0), evaluated.stderr)  # it leaves no model
        self.assertEqual(done.stderr.count("config.json will say tie_word_embeddings = false"), 1, done.stderr)
        before, after = tensors(start / "model.safetensors"), tensors(self.folder / "again/run/model.safetensors")
        for name in ("cls.predictions.decoder.weight", "cls.predictions.decoder.bias"):
            self.assertEqual(after[name], before[name])
        self.assertNotEqual(set(after["cls.predictions.decoder.bias"]), {0.0})
        self.assertFalse(json.loads((self.folder / "again/run/config.json").read_text())["tie_word_embeddings"])

    def test_the_decoders_bias_is_the_one_that_counts(self):
        self.weights("untied", model=self.model_with(tie_word_embeddings=False), training__max_steps="3")
        start = self.folder / "untied/run"
        weight, decoders, other = (f"cls.predictions.{name}" for name in ("decoder.weight", "decoder.bias", "bias"))
        before = tensors(start / "model.safetensors")
        self.assertNotEqual(before[decoders], before[other])
        for name, left_out, kept in (("differ", (weight,), decoders), ("one", (weight, other), other)):
            model = self.model_with()
            rewrite(start / "model.safetensors", model / "model.safetensors", lambda tensor: f"left.out.{tensor}" if tensor in left_out else tensor, {})
            done = run_ok("run", self.settings(name, model=model, model__from_scratch="false", training__max_steps="1", training__learning_rate="0.0"))
            self.assertNotIn("initialised", done.stderr)
            after = tensors(self.folder / name / "run/model.safetensors")
            self.assertEqual(after[kept], before[decoders])
            self.assertEqual(after.get(other), before[other] if name == "differ" else before[decoders])

    def without_mask(self):
        folder = self.model_with()
        (folder / "vocab.txt").write_text((folder / "vocab.txt").read_text().replace("[MASK]", "[OTHER]"))
        return folder

    def test_what_does_not_fit_is_refused(self):
        for model, changes, said in ((self.model_with(is_decoder=True), {}, "is_decoder"), (self.model_with(vocab_size=3999), {}, "3999"), (self.without_mask(), {}, 'has no token "[MASK]"'),
                                     (self.model_with(model_type="albert"), {}, 'model_type = "albert"'),
                                     (None, {"model__head": '"contrastive"'}, "model.head"), (None, {"data__max_seq_length": "41"}, "41"), (None, {"model__image_size": "64"}, 'models of type "bert" are not resized'), (None, {"data__augment": '"crop_flip"'}, "data.augment"),
                                     (None, {"data__rand_augment_num_ops": "2"}, "data.rand_augment_num_ops is set, but the model reads no pictures"),
                                     (None, {"data__color_jitter_hue": "0.1"}, "data.color_jitter_hue is set, but the model reads no pictures"),
                                     (None, {"data__random_erasing_probability": "0.5"}, "data.random_erasing_probability is set, but the model reads no pictures")):
            with self.subTest(said):
                done = run("run", self.settings("refused", model=model, **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1].replace(str(self.folder), ""))
