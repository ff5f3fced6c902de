# SPDX-License-Identifier: Apache-2.0
"""A BERT learns masked tokens and next sentences from pairs of texts: its figures, its bits, both heads' folders, and what it refuses."""
import json
import math
import pathlib
import random
import shutil
import tempfile
import unittest

from bascule_run import EMOJI, ROOT, FolderTest, digest, instruction_sets, run, settings, run_ok
from run_files import tensors
from serving import Served, has_parser

WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
HEADS = ("masked_lm", "pretraining")


def write_pairs(path, rows, seed):
    """Pairs whose second text says how it is meant in its first two words."""
    generator = random.Random(seed)
    captions = [json.loads(line)["caption"] for line in (EMOJI / "train.jsonl").read_text().splitlines()]
    with open(path, "w") as file:
        for _ in range(rows):
            label = generator.randrange(2)
            start, end = (" ".join(generator.choice(captions).split()[:generator.randint(1, 8)]) for _ in range(2))
            file.write(json.dumps({"first": start, "second": f"{('red sun', 'new moon')[label]} {end}", "label": label}) + "\n")


class BertPretraining(FolderTest):
    def setUp(self):
        super().setUp()
        for name, rows, seed in (("train", 400, 1), ("validation", 37, 2), ("test", 11, 3)):
            write_pairs(self.folder / f"{name}.jsonl", rows, seed)

    def model_with(self, **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, folder)
        (folder / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96,
            "max_position_embeddings": 40, **members}))
        return folder

    def settings(self, name="one", model=None, head="pretraining", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        reads_pairs = head == "pretraining"
        return settings(folder, **{
            "model__model_name_or_path": f'"{model or self.model_with()}"', "model__tokenizer_name": None, "model__head": f'"{head}"',
            "data__train_file": f'"{self.folder}/train.jsonl"', "data__text_column": '"first"', "data__text_pair_column": '"second"' if reads_pairs else None,
            "data__label_column": '"label"' if reads_pairs else None, "data__preprocessing": None, "media_engine__memory_mib": None,
            "training__max_steps": "6", **changes})

    def finished(self, name="one", **changes):
        done = run_ok("run", self.settings(name, **changes))
        return self.folder / name / "run", done

    def weights(self, name="one", **changes):
        return digest(self.finished(name, **changes)[0] / "model.safetensors")

    def test_learns_both_and_says_so(self):
        folder, _ = self.finished(
            training__max_steps="400", training__per_device_train_batch_size="32", training__learning_rate="2e-3", training__save_steps="0", training__warmup_steps="40",
            data__validation_file=f'"{self.folder}/validation.jsonl"', data__test_file=f'"{self.folder}/test.jsonl"')
        results = json.loads((folder / "all_results.json").read_text())
        figures = {name: results[f"validation_{name}"] for name in
                   ("loss", "masked_lm_loss", "perplexity", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")}
        self.assertAlmostEqual(figures["loss"], figures["masked_lm_loss"] + figures["next_sentence_loss"], places=12)
        self.assertAlmostEqual(figures["perplexity"] / math.exp(figures["masked_lm_loss"]), 1.0, places=12)
        self.assertLess(figures["masked_lm_loss"], 6.0)  # 8.3 at the start: the logarithm of 4,000
        self.assertGreater(figures["next_sentence_accuracy"], 0.9)
        self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], ["BertForPreTraining"])
        self.assertIn("BertForPreTraining", (folder / "README.md").read_text())
        rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        labels = [json.loads(line)["label"] for line in (self.folder / "test.jsonl").read_text().splitlines()]
        self.assertEqual([row["next_sentence"]["expected"] for row in rows], labels)
        self.assertTrue(all(row["tokens"] and row["second_caption"] for row in rows))

    @unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
    def test_a_service_fills_in_words_as_fill_does(self):
        folder, _ = self.finished()
        guesses, = json.loads(run("fill", folder, "--json", "--top", 3, "a [MASK] face").stdout)["masks"]
        with Served(folder) as server:
            status, _, body = server.ask("/fill-mask", {"inputs": "a [MASK] face", "parameters": {"top_k": 3}})
        self.assertEqual((status, [one["score"] for one in json.loads(body)]), (200, [one["probability"] for one in guesses]))

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        model = self.model_with()
        for precision in ("float32", "bf16"):
            alike = {"model": model, "model__precision": f'"{precision}"'}
            common = {**alike, "training__gradient_accumulation_steps": "2"}
            whole = self.weights(f"{precision}-whole", **common)
            with self.subTest(precision):
                for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("alone", {"data__dataloader_num_workers": "0"}),
                                      ("recomputed", {"training__gradient_checkpointing": '"full"'}), ("kept", {"training__gradient_checkpointing": '"off"'}),
                                      *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    self.assertEqual(self.weights(f"{precision}-{name}", **common, **changes), whole, name)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                for kind, stages in ((alike, ("1", "2")), (common, ("1",))):
                    strategies = {self.weights(f"{precision}-{len(kind)}-{strategy}-{stage}", **kind, **ranks, distributed__distribution_strategy=f'"{strategy}"', distributed__sharded_stage=stage)
                                  for strategy, stage in (("fast_ddp", "1"), ("ddp", "1"), *(("sharded", stage) for stage in stages))}
                    self.assertEqual(len(strategies), 1)
                self.weights(f"{precision}-parts", **common, training__max_steps="4", training__lr_schedule_steps="6")
                self.assertEqual(self.weights(f"{precision}-parts", **common, training__lr_schedule_steps="6"), whole)

    def test_an_update_is_the_same_mean_however_it_is_cut(self):
        # Texts of one to sixteen words have one to three labelled tokens, so that equal weights would show.
        for head in HEADS:
            model = self.model_with(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
            common = {"model": model, "head": head, "training__max_steps": "4", "training__max_grad_norm": "0", "data__mlm_probability": "0.3"}
            whole = tensors(self.finished(f"{head}-whole", **common)[0] / "model.safetensors")
            cuts = {"halves": {"training__per_device_train_batch_size": "4", "training__gradient_accumulation_steps": "2"},
                    "uneven": {"training__per_device_train_batch_size": "1", "training__gradient_accumulation_steps": "8"},
                    "ranks": {"training__per_device_train_batch_size": "2", "training__gradient_accumulation_steps": "2", "distributed__world_size": "2"}}
            for name, changes in cuts.items():
                with self.subTest(head=head, cut=name):
                    cut = tensors(self.finished(f"{head}-{name}", **common, **changes)[0] / "model.safetensors")
                    self.assertEqual(cut.keys(), whole.keys())
                    for tensor in whole:
                        if "attention.self.key.bias" in tensor:
                            continue  # their gradients are zero in exact arithmetic: AdamW turns noise into steps
                        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(whole[tensor], cut[tensor])) / sum(a ** 2 for a in whole[tensor]))
                        self.assertLess(error, 1e-3, tensor)

    def test_a_folder_of_one_head_starts_a_run_of_the_other(self):
        extra = {"bert.pooler.dense.bias", "bert.pooler.dense.weight", "cls.seq_relationship.bias", "cls.seq_relationship.weight"}
        for tied in (True, False):
            for first, second in (HEADS, HEADS[::-1]):
                with self.subTest(tied=tied, first=first):
                    start, _ = self.finished(f"{first}-{tied}", model=self.model_with(tie_word_embeddings=tied), head=first)
                    next_folder, done = self.finished(f"{first}-{second}-{tied}", model=start, head=second, model__from_scratch="false")
                    names = {folder: set(tensors(folder / "model.safetensors")) for folder in (start, next_folder)}
                    self.assertEqual(names[start] ^ names[next_folder], extra)
                    self.assertEqual("cls.predictions.decoder.weight" in names[next_folder], not tied)
                    lines = [line for line in done.stderr.splitlines() if "pooler" in line or "seq_relationship" in line]
                    self.assertEqual(len(lines), len(extra) if second == "pretraining" else 1, lines)
                    self.assertIn("initialised" if second == "pretraining" else "not used: ", lines[0])

    def test_texts_without_a_token_have_no_loss_and_no_gradient(self):
        empty = "".join(json.dumps({"first": "", "second": "", "label": number % 2}) + "\n" for number in range(16))
        (self.folder / "empty.jsonl").write_text(empty)
        model = self.model_with()
        data = {"model": model, "data__train_file": f'"{self.folder}/empty.jsonl"', "data__validation_file": f'"{self.folder}/empty.jsonl"', "training__max_steps": "2"}
        fresh = tensors(self.finished("fresh", head="masked_lm", **{**data, "training__learning_rate": "1e-30"})[0] / "model.safetensors")
        folder, _ = self.finished("masked", head="masked_lm", **data)
        self.assertEqual(json.loads((folder / "all_results.json").read_text())["train_loss"], None)
        self.assertEqual(tensors(folder / "model.safetensors"), fresh)
        folder, _ = self.finished("pairs", training__gradient_accumulation_steps="2", **data)
        results = json.loads((folder / "all_results.json").read_text())
        self.assertEqual(results["validation_loss"], results["validation_next_sentence_loss"])
        self.assertNotIn("validation_perplexity", results)
        self.assertEqual(tensors(folder / "model.safetensors")["cls.predictions.bias"], fresh["cls.predictions.bias"])

    def test_what_does_not_fit_is_refused(self):
        lines = (self.folder / "train.jsonl").read_text().splitlines()
        (self.folder / "third.jsonl").write_text("\n".join(lines).replace('"label": 1', '"label": 2'))
        for changes, said in (({"data__text_pair_column": None}, "data.text_pair_column is not set"), ({"data__label_column": None}, "data.label_column is not set"),
                              ({"data__text_pair_column": '"third"'}, 'no column "third"'), ({"data__text_pair_column": '"first"'}, "must be different columns"),
                              ({"head": "masked_lm", "data__text_pair_column": '"second"'}, 'only the head "pretraining" or "sequence_classification" or "sentence_embedding" reads pairs of texts'),
                              ({"data__train_file": f'"{self.folder}/third.jsonl"'}, 'label "label" is 2'), ({"model": self.model_with(type_vocab_size=1)}, "token type"),
                              ({"head": "next_sentences"}, "model.head")):
            with self.subTest(said):
                done = run("run", self.settings("refused", **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1])
