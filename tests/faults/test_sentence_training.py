# SPDX-License-Identifier: Apache-2.0
"""BERT, RoBERTa and DistilBERT learn vectors of texts: each loss, its bits, negatives of two ranks, and what is refused."""
import json
import shutil
import struct
import unittest

from bascule_run import SharedFolderTest, digest, has_mpi, instruction_sets, run_ends, run_ok, settings
from relatives import DATA, SETTINGS, write_relatives, write_values
from run_files import rewrite, tensors

LOSSES = {"bert": "multiple_negatives_symmetric_ranking", "roberta": "cosent", "distilbert": "cosine_similarity"}


class SentenceTraining(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_relatives(cls.folder)
        write_values(cls.folder / "values.jsonl")

    def settings(self, name, family="bert", **changes):
        folder = self.folder / name
        folder.mkdir()
        model = {f"model__{key}": value for key, value in SETTINGS[family].items()}
        return settings(folder, **{
            **model, "model__model_name_or_path": f'"{self.folder}/{family}"', "model__head": '"sentence_embedding"', "data__train_file": f'"{self.folder}/values.jsonl"',
            "data__text_column": '"text"', "data__text_pair_column": '"text_pair"', "data__max_seq_length": None, "data__preprocessing": None, "media_engine__memory_mib": None,
            "training__max_steps": "4", "training__logging_steps": "1", **changes})

    def finished(self, name, **changes):
        run_ok("run", self.settings(name, **changes))
        return self.folder / name / "run"

    def losses(self, folder):
        return [row["loss"] for row in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if "loss" in row and "learning_rate" in row]

    def test_has_the_same_bits_with_every_instruction_set_and_any_threads(self):
        for family, loss in LOSSES.items():
            scores = {} if "ranking" in loss else {"data__label_column": '"label"'}
            weights = {digest(self.finished(f"{family}-{isa}", family=family, training__loss=f'"{loss}"', machine__isa=f'"{isa}"', machine__threads=str(1 + number % 2), **scores) / "model.safetensors")
                       for number, isa in enumerate(instruction_sets())}
            self.assertEqual(len(weights), 1, family)

    @unittest.skipUnless(has_mpi(), "needs MPI")
    def test_with_gathered_negatives_two_ranks_have_the_losses_of_one(self):
        ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
        one = self.losses(self.finished("one"))
        gathered = self.losses(self.finished("gathered", training__gather_negatives="true", **ranks))
        apart = self.losses(self.finished("apart", **ranks))
        self.assertEqual(len(one), 4)
        for ours, theirs in zip(gathered, one):
            self.assertAlmostEqual(ours, theirs, delta=1e-5 * theirs)
        self.assertEqual(gathered[0], one[0])
        self.assertGreater(abs(apart[0] - one[0]), 0.1)

    def test_a_pooler_of_the_folder_passes_through(self):
        trained = self.finished("start")
        names = tensors(trained / "model.safetensors")
        self.assertIn("encoder.layer.0.attention.self.query.weight", names)
        self.assertNotIn("pooler.dense.weight", names)
        like = "encoder.layer.0.attention.output.dense"
        with_pooler = self.folder / "with_pooler"
        with_pooler.mkdir()
        for file in ("config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json"):
            (with_pooler / file).write_bytes((trained / file).read_bytes())
        rewrite(trained / "model.safetensors", with_pooler / "model.safetensors", lambda name: "bert." + name,
                {f"pooler.dense.{part}": f"{like}.{part}" for part in ("weight", "bias")})
        again = tensors(self.finished("again", model__model_name_or_path=f'"{with_pooler}"', model__tokenizer_name=None, model__from_scratch="false") / "model.safetensors")
        for part in ("weight", "bias"):
            self.assertEqual(again[f"pooler.dense.{part}"], names[f"{like}.{part}"])
            self.assertNotEqual(again[f"{like}.{part}"], names[f"{like}.{part}"])

    def copy_with(self, name, **values):
        """The finished model with other values: by end of a tensor's name those of its first elements."""
        folder = self.folder / name
        shutil.copytree(self.start, folder)
        data = bytearray((folder / "model.safetensors").read_bytes())
        begin = 8 + int.from_bytes(data[:8], "little")
        for tensor, entry in json.loads(data[8:begin]).items():
            for end, (row, numbers) in values.items():
                if tensor.endswith(end.replace("__", ".")):
                    at = begin + entry["data_offsets"][0] + 4 * row * len(numbers)
                    data[at:at + 4 * len(numbers)] = struct.pack(f"<{len(numbers)}f", *numbers)
        (folder / "model.safetensors").write_bytes(data)
        return {"model__tokenizer_name": None, "model__from_scratch": "false", "model__model_name_or_path": f'"{folder}"'}

    def expect_named(self, name, line, ends, **changes):
        toml = self.settings(name, data__train_file=f'"{self.folder}/words.jsonl"', **changes)
        done = run_ends(3, "run", toml)
        self.assertRegex(done.stderr.splitlines()[-1], rf"^bascule: (rank 1: )?.*/words\.jsonl:{line}: in update 1 the model's vector of text {ends}; remove the row, ")
        self.assertEqual(sum("the model's vector" in said for said in done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual(json.loads((toml.parent / "run/bascule.json").read_text())["not_finite_at"], 1)

    def test_names_the_row_whose_vector_is_zero_or_not_finite(self):
        vocabulary = (DATA / "tokenizer/wordpiece/vocab.txt").read_text().split("\n")
        words = [word for word in vocabulary if word.isascii() and word.isalpha() and word.islower() and len(word) > 3][:16]  # whole words: a token each
        rows = [json.dumps({"text": words[2 * row], "text_pair": words[2 * row + 1], "label": row / 8}) for row in range(8)]
        (self.folder / "words.jsonl").write_text("\n".join(rows) + "\n")
        self.start = self.finished("words", training__max_steps="1")
        width = 64
        zero = self.copy_with("zero", **{"layer__1__output__LayerNorm__weight": (0, [0.0] * width), "layer__1__output__LayerNorm__bias": (0, [0.0] * width)})
        word = self.copy_with("word", word_embeddings__weight=(vocabulary.index(words[11]), [3e38] * width))  # the second text of row 6
        ways = {"whole": {}, "pieces": {"training__mini_batch_size": "3"}, "bf16": {"model__precision": '"bf16"'},
                "norm": {"model__normalize": "true", "training__gradient_accumulation_steps": "2", "training__per_device_train_batch_size": "4"},
                "scores": {"training__loss": '"cosine_similarity"', "data__label_column": '"label"'}}
        if has_mpi():
            ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
            ways.update({"ranks": ranks, "gathered": {**ranks, "training__gather_negatives": "true"}})
        for name, changes in ways.items():
            with self.subTest(name=name):
                self.expect_named(f"zero, {name}", r"\d", "1 of the row is zero", **zero, **changes)
                self.expect_named(f"infinite, {name}", "6", "2 of the row is not finite", **word, **changes)

    def test_refuses_scores_and_negatives_that_a_loss_does_not_read(self):
        for number, (changes, problem) in enumerate((
                ({"data__text_pair_column": None}, "needs the second text of each row"),
                ({"data__label_column": '"label"'}, "training.loss ranks texts and reads no scores"),
                ({"training__loss": '"cosent"'}, "training.loss compares scores, but data.label_column is not set"),
                ({"training__loss": '"cosent"', "data__label_column": '"label"', "data__negative_columns": '["other"]'}, "training.loss compares pairs and has no negatives"),
                ({"training__loss": '"cosine_similarity"', "data__label_column": '"label"', "training__gather_negatives": "true"}, "training.loss compares pairs and has no negatives"))):
            done = run_ends(2, "plan", self.settings(f"refused{number}", **changes))
            self.assertIn(problem, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1)
