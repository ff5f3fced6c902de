# SPDX-License-Identifier: Apache-2.0
"""training.mini_batch_size: batches that go through the model in pieces have the loss of whole ones, with every loss, precision and number of ranks, in less memory; a resumed run keeps the size."""
import json
import unittest

from bascule_run import TINY_MODEL, FolderTest, digest, has_mpi, instruction_sets, run, run_ends, run_ok, settings
from test_text_batches import BASE, NEGATIVES, write_rows

SCORES = {"data__label_column": '"score"'}
LOSSES = {"multiple_negatives_ranking": NEGATIVES, "multiple_negatives_symmetric_ranking": {}, "cosent": SCORES, "cosine_similarity": SCORES}


class BatchPieces(FolderTest):
    def setUp(self):
        super().setUp()
        write_rows(self.folder)

    def settings(self, name, size, **changes):
        pieces = {"training__mini_batch_size": str(size)} if size else {}
        return settings(self.folder, **{**BASE, "training__output_dir": f'"{self.folder}/{name}"', "training__max_steps": "4", **pieces, **changes})

    def trained(self, name, size, **changes):
        """The weights' digest, and loss and norm of the gradients of each update, in full."""
        run_ok("run", self.settings(name, size, **changes))
        steps = [line for line in map(json.loads, (self.folder / name / "log.jsonl").read_text().splitlines()) if "grad_norm" in line]
        return digest(self.folder / name / "model.safetensors"), [step["loss"] for step in steps], [step["grad_norm"] for step in steps]

    def refusal(self, size, *command, **changes):
        done = run_ends(2, *(command or ("plan",)), self.settings("refused", size, **changes))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def expect_near(self, ours, theirs, relative):
        self.assertEqual(len(ours), len(theirs))
        for our, their in zip(ours, theirs):
            self.assertAlmostEqual(our, their, delta=relative * abs(their))

    def test_every_loss_begins_as_that_of_whole_batches_and_stays_near(self):
        for loss, changes in LOSSES.items():
            for precision in ("float32", "bf16"):
                with self.subTest(loss=loss, precision=precision):
                    common = {**changes, "training__loss": f'"{loss}"', "model__precision": f'"{precision}"'}
                    whole = self.trained(f"{loss}-{precision}", 0, **common)
                    self.assertEqual(self.trained(f"{loss}-{precision}-8", 8, **common), whole)  # one piece: every bit
                    weights, losses, norms = self.trained(f"{loss}-{precision}-3", 3, **common)
                    self.assertEqual(losses[0], whole[1][0])
                    self.assertNotEqual(weights, whole[0])
                    self.expect_near(losses, whole[1], 1e-5 if precision == "float32" else 1e-3)
                    self.expect_near(norms, whole[2], 1e-5 if precision == "float32" else 1e-2)

    def test_pieces_of_a_size_have_the_same_bits_whatever_computes_them(self):
        first = self.trained("first", 3, **NEGATIVES, training__gradient_accumulation_steps="2")
        ways = {"threads": {"machine__threads": "1"}, "workers": {"data__dataloader_num_workers": "0"}, "recomputed": {"training__gradient_checkpointing": '"full"'},
                "kept": {"training__gradient_checkpointing": '"off"'}, **{isa: {"machine__isa": f'"{isa}"'} for isa in instruction_sets()}}
        for name, changes in ways.items():
            with self.subTest(name=name):
                self.assertEqual(self.trained(name, 3, **NEGATIVES, training__gradient_accumulation_steps="2", **changes), first)
        whole = self.trained("whole", 0, **NEGATIVES, training__gradient_accumulation_steps="2")
        self.assertEqual(first[1][0], whole[1][0])
        self.expect_near(first[1], whole[1], 1e-5)
        self.expect_near(first[2], whole[2], 1e-5)

    @unittest.skipUnless(has_mpi(), "needs MPI")
    def test_ranks_that_share_negatives_agree_with_one_batch(self):
        one = self.trained("one", 0, **NEGATIVES)
        for ranks, size in ((2, 4), (2, 3), (4, 1)):
            changes = {**NEGATIVES, "distributed__world_size": str(ranks), "training__per_device_train_batch_size": str(8 // ranks), "training__gather_negatives": "true"}
            with self.subTest(ranks=ranks, size=size):
                results = [self.trained(f"{strategy}{ranks}-{size}", size, **changes, distributed__distribution_strategy=f'"{strategy}"') for strategy in ("fast_ddp", "ddp")]
                self.assertEqual(results[0], results[1])
                self.expect_near(results[0][1], one[1], 2e-5)
                self.expect_near(results[0][2], one[2], 2e-5)

    def test_frozen_layers_and_a_last_batch_of_few_rows(self):
        write_rows(self.folder, 11)
        common = {"training__batch_sampler": '"batch_sampler"', "training__groups": '[{match = "embeddings.*", freeze = true}]'}
        whole = self.trained("whole", 0, **common)
        self.expect_near(self.trained("pieces", 3, **common)[1], whole[1], 1e-5)
        self.assertEqual(self.trained("one_piece", 8, **common), whole)

    def test_a_resumed_run_keeps_the_size_and_a_record_reproduces_it(self):
        changes = {**NEGATIVES, "training__save_steps": "2", "data__validation_file": '"rows.jsonl"'}
        first = self.trained("run", 3, **changes)
        run_ok("reproduce", self.folder / "run")
        shorter = {"training__max_steps": "2", "training__lr_schedule_steps": "4"}
        self.trained("stopped", 3, **changes, **shorter)
        for size in (4, 0):  # 0: the key is not set
            self.assertIn(f"training.mini_batch_size is {size}, but", run_ends(2, "run", self.settings("stopped", size, **changes, training__lr_schedule_steps="4")).stderr)
        self.assertEqual(self.trained("stopped", 3, **changes, training__lr_schedule_steps="4"), first)

    def test_two_runs_with_pieces_of_different_sizes_are_told_apart(self):
        changes = {"report__hash_steps": "1", "training__max_steps": "1"}
        for name, size in {"whole": 0, "pieces": 3, "smaller": 2}.items():
            self.trained(name, size, **changes)
        for a, b, both in (("whole", "pieces", "(1 rank x 8 samples; 1 rank x 8 samples, in pieces of 3)"),
                           ("smaller", "pieces", "(1 rank x 8 samples, in pieces of 2; 1 rank x 8 samples, in pieces of 3)")):
            self.assertIn(f"the runs divide an update differently {both}: ", run("diff", self.folder / a, self.folder / b).stdout)
        found = json.loads(run("diff", self.folder / "whole", self.folder / "pieces", "--json").stdout)
        self.assertEqual((found["kind"], found["values_that_differ"]), ("gradient", 0))
        self.assertEqual([division["mini_batch_size"] for division in found["divisions"]], [0, 3])

    def test_a_plan_says_what_pieces_save_and_a_bench_counts_the_forward_pass_that_they_add(self):
        toml = self.settings("plan", 2, **NEGATIVES)
        plan = json.loads(run("plan", toml, "--json").stdout)
        self.assertIn("a batch in 4 pieces: without training.mini_batch_size", run("plan", toml).stdout)
        whole = json.loads(run("plan", self.settings("plan", 0, **NEGATIVES), "--json").stdout)
        self.assertEqual(plan["pieces"], {"count": 4, "peak_bytes_without": whole["peak_bytes"]})
        self.assertLess(plan["categories"]["workspace"], whole["categories"]["workspace"] / 2)
        self.assertNotIn("pieces", whole)
        said = run("plan", self.settings("plan", 0, **NEGATIVES, training__gradient_accumulation_steps="2")).stderr
        self.assertIn("with gradient accumulation a text has the negatives of its micro-batch alone", said)
        measured = [json.loads(run("bench", self.settings("bench", size, **NEGATIVES, training__gradient_checkpointing='"off"'), "--steps", "2", "--json").stdout)["columns"][-1] for size in (0, 2)]
        linear = [next(operation["flops"] for operation in column["operations"] if operation["name"] == "linear") for column in measured]
        backward = [next(operation["flops"] for operation in column["operations"] if operation["name"] == "linear_backward") for column in measured]
        self.assertAlmostEqual(linear[1] / linear[0], 2.0, delta=1e-6)
        self.assertAlmostEqual(backward[1] / backward[0], 1.0, delta=1e-6)
        recomputed = [sum(layer["recomputed_seconds"] for layer in column["layers"]) for column in measured]
        self.assertEqual(recomputed[0], 0.0)
        self.assertGreater(recomputed[1], 0.0)

    def test_a_plan_says_that_training_puts_no_prompt_of_the_folder_before_texts(self):
        self.trained("start", 0, training__max_steps="1")
        config = self.folder / "start" / "config_sentence_transformers.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), "prompts": {"query": "query: ", "document": ""}}))
        model = {"model__model_name_or_path": f'"{self.folder}/start"', "model__tokenizer_name": None, "model__from_scratch": "false"}
        note = 'plan: training puts none of the folder\'s prompts ("query") before texts: data.prompts does'
        self.assertIn(note, run("plan", self.settings("plan", 0, **model)).stderr)
        self.assertNotIn(note, run("plan", self.settings("plan", 0, **model, data__prompts='["query: ", ""]')).stderr)

    def test_what_pieces_cannot_be_combined_with_is_refused_in_a_line(self):
        self.assertIn("training.mini_batch_size = 9 is larger than the batch: training.per_device_train_batch_size = 8", self.refusal(9))
        self.assertIn("keeps no gradients that the pieces", self.refusal(2, training__optimizer='"adafactor"', training__fused_update="true", training__max_grad_norm="0.0"))
        self.assertIn("batches in pieces with stages 2 and 3 of sharded", self.refusal(2, distributed__world_size="2", distributed__distribution_strategy='"sharded"', distributed__sharded_stage="2"))
        self.assertIn('only the head "sentence_embedding" embeds texts', self.refusal(2, model__head='"sequence_classification"', **SCORES))
        other = {"model__model_name_or_path": f'"{TINY_MODEL}"', "model__tokenizer_name": None, "model__head": None, "data__text_column": None, "data__text_pair_column": None}
        self.assertIn("training.mini_batch_size is set, but no head of this model embeds texts", self.refusal(2, **other))
