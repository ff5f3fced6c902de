# SPDX-License-Identifier: Apache-2.0
"""RoBERTa and DistilBERT learn to fill in masked words, of a text corpus and of rows, and classes and values of texts and pairs, with a byte-level tokenizer and with word pieces; their bits, their folders, and
what they refuse."""
import json
import pathlib
import random
import shutil
import tempfile

from bascule_run import EMOJI, ROOT, FolderTest, digest, instruction_sets, run, run_ok, settings
from run_files import rewrite, tensors

DATA = ROOT / "tests" / "data"
TOKENIZERS = {"roberta": EMOJI / "tokenizer", "distilbert": DATA / "tokenizer" / "wordpiece"}
FILES = {"roberta": ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"), "distilbert": ("vocab.txt", "tokenizer_config.json")}
CONFIGS = {"roberta": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 34, "type_vocab_size": 1, "layer_norm_eps": 1e-5},
           "distilbert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 32}}
MASKS = {"roberta": "<mask>", "distilbert": "[MASK]"}
# The one bias of a tied decoder, and the decoder.
HEADS = {"roberta": ("lm_head.bias", "lm_head.decoder.weight"), "distilbert": ("vocab_projector.bias", "vocab_projector.weight")}
# Of the head of labels: its class, and its layers but the last.
LABELS = {"roberta": ("RobertaForSequenceClassification", ["classifier.dense"], "classifier.out_proj"), "distilbert": ("DistilBertForSequenceClassification", ["pre_classifier"], "classifier")}
NAMES = ["face", "sky"]


def write_pairs(path, rows, seed, label=lambda name: name):
    """Pairs whose second text says the class."""
    draw = random.Random(seed)
    captions = [json.loads(line)["caption"] for line in (EMOJI / "train.jsonl").read_text().splitlines()]
    with open(path, "w") as file:
        for _ in range(rows):
            name = draw.choice(NAMES)
            file.write(json.dumps({"text": draw.choice(captions), "other": {"face": "smiling face", "sky": "red sun"}[name], "label": label(name)}) + "\n")


class BertRelatives(FolderTest):
    def model(self, family, **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in FILES[family]:
            shutil.copy(TOKENIZERS[family] / file, folder)
        vocabulary = len(json.loads((folder / "vocab.json").read_text())) if family == "roberta" else 4000
        (folder / "config.json").write_text(json.dumps({"model_type": family, "vocab_size": vocabulary, **CONFIGS[family], **members}))
        return folder

    def settings(self, family, name="one", model=None, **changes):
        folder = self.folder / f"{family}-{name}"
        folder.mkdir(exist_ok=True)
        text = f'"{DATA}/text-corpus/validation.txt"'
        return settings(folder, **{"model__model_name_or_path": f'"{model or self.model(family)}"', "model__tokenizer_name": None, "data__train_file": text, "data__preprocessing": None,
                                   "media_engine__memory_mib": None, "training__max_steps": "4", "training__save_steps": "2", **changes})

    def weights(self, family, name="one", **changes):
        run_ok("run", self.settings(family, name, **changes))
        return digest(self.folder / f"{family}-{name}" / "run/model.safetensors")

    def test_learn_and_fill_in_what_their_run_predicted(self):
        for family, architecture in (("roberta", "RobertaForMaskedLM"), ("distilbert", "DistilBertForMaskedLM")):
            with self.subTest(family):
                rows = self.folder / "rows.jsonl"
                rows.write_text("".join(json.dumps({"text": f"a {word} of the list"}) + "\n" for word in ("copy", "name", "part", "kind") * 8))
                self.weights(family, data__train_file=f'"{rows}"', data__test_file=f'"{rows}"', data__text_column='"text"', training__max_steps="60", training__save_steps="0",
                             training__learning_rate="1e-2", data__mlm_probability="0.3")
                folder = self.folder / f"{family}-one" / "run"
                self.assertLess(json.loads((folder / "all_results.json").read_text())["test_loss"], 2.5)  # about 8 at the start
                self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], [architecture])
                self.assertIn(f"import AutoTokenizer, {architecture}", (folder / "README.md").read_text())
                saved, (bias, decoder) = tensors(folder / "model.safetensors"), HEADS[family]
                self.assertIn(bias, saved)
                self.assertNotIn(decoder, saved)
                done = run_ok("fill", folder, f"a name of {MASKS[family]} list", "--json")
                self.assertIn(json.loads(done.stdout)["masks"][0][0]["token"], ("\u0120the", "the"))
                shown = run("fill", folder, f"a name of {MASKS[family]} list", "--top", "1").stdout
                self.assertRegex(shown, {"roberta": r"^ *[0-9.]+ %   the\n$", "distilbert": r"^ *[0-9.]+ %  the\n$"}[family])

    def labels(self, family, name, pairs=True, **changes):
        """A finished run with the head of labels, and what it said."""
        done = run_ok("run", self.settings(family, name, **{
               "model__head": '"sequence_classification"', "data__text_column": '"text"', "data__text_pair_column": '"other"' if pairs else None, "data__label_column": '"label"', "training__save_steps": "0", **changes}))
        return self.folder / f"{family}-{name}" / "run", done.stderr

    def test_learn_classes_of_pairs_from_a_model_of_masked_words(self):
        rows = {split: self.folder / f"{split}.jsonl" for split in ("train", "test")}
        for seed, path in enumerate(rows.values()):
            write_pairs(path, 200 if seed == 0 else 20, seed)
        files = {f"data__{split}_file": f'"{path}"' for split, path in rows.items()}
        for family, (architecture, layers, last) in LABELS.items():
            with self.subTest(family):
                self.weights(family, "start", training__save_steps="0")
                start = self.folder / f"{family}-start" / "run"
                folder, said = self.labels(family, "classes", model=start, model__from_scratch="false", **files, training__max_steps="60", training__per_device_train_batch_size="16",
                                           training__learning_rate="2e-3")
                for layer in layers:
                    self.assertIn(f"{layer}.weight missing from the checkpoint; initialised", said)
                self.assertIn("using the 2 classes of the training data (face, sky) and a new classifier", said)
                self.assertIn(f"not used: {HEADS[family][0].split('.')[0].split('_')[0]}", said)
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual((config["architectures"], config["id2label"], config["problem_type"]), ([architecture], {"0": "face", "1": "sky"}, "single_label_classification"))
                self.assertIn(f"import AutoTokenizer, {architecture}", (folder / "README.md").read_text())
                self.assertEqual((folder / "tokenizer_config.json").read_bytes(), (TOKENIZERS[family] / "tokenizer_config.json").read_bytes())
                saved, before = tensors(folder / "model.safetensors"), tensors(start / "model.safetensors")
                body = {name for name in before if name.startswith(f"{family}.")}
                self.assertEqual(set(saved), body | {f"{layer}.{part}" for layer in (*layers, last) for part in ("weight", "bias")})
                self.assertGreater(json.loads((folder / "all_results.json").read_text())["test_accuracy"], 0.9)
                predicted = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
                asked = json.loads(run("classify", folder, "-", "--json", input="".join(f"{row['text']}\t{row['text_pair']}\n" for row in predicted)).stdout)["texts"]
                for row, answer in zip(predicted, asked, strict=True):
                    self.assertEqual([guess["class_name"] for guess in row["predicted"]], [guess["label"] for guess in answer["labels"]])
                    self.assertAlmostEqual(row["predicted"][0]["probability"], answer["labels"][0]["probability"], places=5)
                # The same classes go on; of others only the last layer is new.
                once = {"model": folder, "model__from_scratch": "false", "training__max_steps": "1", "training__learning_rate": "1e-30"}
                again, said = self.labels(family, "again", **once, **files)
                self.assertNotIn("initialised", said)
                self.assertEqual(tensors(again / "model.safetensors")[f"{last}.weight"], saved[f"{last}.weight"])
                write_pairs(self.folder / "other.jsonl", 40, 3, lambda name: f"a {name}")
                other, _ = self.labels(family, "other", **once, data__train_file=f'"{self.folder}/other.jsonl"')
                changed = tensors(other / "model.safetensors")
                self.assertNotEqual(changed[f"{last}.weight"], saved[f"{last}.weight"])
                self.assertEqual(changed[f"{layers[0]}.weight"], saved[f"{layers[0]}.weight"])

    def test_learn_values_to_the_same_bits_however_they_run(self):
        write_pairs(self.folder / "values.jsonl", 60, 1, lambda name: NAMES.index(name) * 2.5 - 0.25)
        for family, pairs, precision in (("roberta", True, "bf16"), ("distilbert", False, "float32")):
            with self.subTest(family):
                common = {"model": self.model(family, num_labels=1), "pairs": pairs, "model__precision": f'"{precision}"', "data__train_file": f'"{self.folder}/values.jsonl"',
                          "data__validation_file": f'"{self.folder}/values.jsonl"', "training__gradient_accumulation_steps": "2"}
                weights = lambda name, **changes: digest(self.labels(family, name, **common, **changes)[0] / "model.safetensors")
                whole = weights("whole")
                folder = self.folder / f"{family}-whole" / "run"
                self.assertEqual(json.loads((folder / "config.json").read_text())["problem_type"], "regression")
                self.assertIn("validation_pearson", json.loads((folder / "all_results.json").read_text()))
                self.assertEqual(list(json.loads(run("classify", folder, "cat", "--json").stdout)["texts"][0]), ["text", "value"])
                self.assertEqual(weights("threads", machine__threads="1", training__gradient_checkpointing='"full"'), whole)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                self.assertEqual(weights("ranks", **ranks), weights("sharded", **ranks, distributed__distribution_strategy='"sharded"'))
                toml = self.settings(family, "commands", common["model"], **{"model__head": '"sequence_classification"', "data__label_column": '"label"', "data__text_column": '"text"',
                                                            **{key: value for key, value in common.items() if "__" in key}})
                self.assertIn("values.jsonl", run("plan", toml, "--json", "--inputs").stdout)
                self.assertEqual(run("bench", toml, "--steps", "1", "--use", "evaluate").returncode, 0)
                run_ok("reproduce", folder, "--output", self.folder / f"{family}-repeated")

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        for family, changes in (("roberta", {"model__precision": '"bf16"'}), ("distilbert", {"data__text_layout": '"lines"', "data__masking": '"bernoulli"'})):
            with self.subTest(family):
                common = {"model": self.model(family), **changes}
                whole = self.weights(family, "whole", **common)
                for name, more in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3", "training__gradient_checkpointing": '"full"'}),
                                   *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    self.assertEqual(self.weights(family, name, **common, **more), whole, name)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                self.assertEqual(self.weights(family, "ranks", **common, **ranks), self.weights(family, "sharded", **common, **ranks, distributed__distribution_strategy='"sharded"'))
                self.weights(family, "parts", **common, training__max_steps="2", training__lr_schedule_steps="4")
                self.assertEqual(self.weights(family, "parts", **common, training__lr_schedule_steps="4"), whole)
                run_ok("reproduce", self.folder / f"{family}-whole" / "run", "--output", self.folder / f"{family}-again")

    def test_a_folder_starts_a_run_whatever_its_decoder_is(self):
        for family, (bias, decoder) in HEADS.items():
            word = f"{family}.embeddings.word_embeddings.weight"
            once = {"model__from_scratch": "false", "training__max_steps": "1", "training__learning_rate": "0.0", "training__save_steps": "0"}
            self.weights(family, "start", training__save_steps="0")
            start = self.folder / f"{family}-start" / "run"
            plain = self.weights(family, "plain", model=start, **once)
            with self.subTest("a decoder that equals the word table, and a pooler", family=family):
                model = self.model(family)
                rewrite(start / "model.safetensors", model / "model.safetensors", lambda name: name, {decoder: word, f"{family}.pooler.dense.bias": bias})
                done = run_ok("run", self.settings(family, "old", model=model, **once))
                self.assertIn(f"{family}.pooler.dense.bias", done.stderr)
                self.assertEqual(digest(self.folder / f"{family}-old/run/model.safetensors"), plain)
            with self.subTest("untied", family=family):
                self.weights(family, "untied", model=self.model(family, tie_word_embeddings=False), training__save_steps="0")
                untied, model = self.folder / f"{family}-untied" / "run", self.model(family)
                shutil.copy(untied / "model.safetensors", model)
                done = run_ok("run", self.settings(family, "next", model=model, **once))
                self.assertIn("config.json will say tie_word_embeddings = false", done.stderr)
                before, after = tensors(untied / "model.safetensors"), tensors(self.folder / f"{family}-next/run/model.safetensors")
                self.assertEqual({name: after[name] for name in before}, before)

    def test_what_does_not_fit_is_refused(self):
        for family, model, changes, said in (
                ("roberta", {"is_decoder": True}, {}, "is_decoder"), ("roberta", {"vocab_size": 1999}, {}, "1999"), ("roberta", {}, {"data__max_seq_length": "33"}, "33"),
                ("roberta", {}, {"model__head": '"pretraining"'}, "model.head"), ("distilbert", {"sinusoidal_pos_embds": True}, {}, "sinusoidal_pos_embds"),
                ("distilbert", {}, {"data__max_seq_length": "33"}, "33"), ("distilbert", {"n_heads": 5}, {}, "n_heads")):
            with self.subTest(said, family=family):
                done = run("run", self.settings(family, "refused", model=self.model(family, **model), **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1].replace(str(self.folder), ""))
