# SPDX-License-Identifier: Apache-2.0
"""report.hash_steps and `bascule diff`: the hashes depend on how an update is divided and on nothing else, follow a run that was killed, and name the update and the tensor where two runs part.

BASCULE_FLIPS=n: so many random bits (default 3). BASCULE_TEST_SEED repeats a run of them.
"""
import json
import os
import random
import shutil
import signal
import time

from bascule_run import SharedFolderTest, run, run_ends, run_ok, run_until
from flipped_bits import flip, flip_in_checkpoint, tensors_of
from run_files import tensors
from small_run import DATA, ROWS, small_settings, write_rows

SEED = int(os.environ.get("BASCULE_TEST_SEED", time.time_ns() % 2**32))
FLIPS = int(os.environ.get("BASCULE_FLIPS", 3))
WORDS = {"model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "data__train_file": f'"{DATA}/emoji-captions/train.jsonl"', "data__preprocessing": None}
HEADS = {  # by name: the model, and what else its settings have
    "contrastive, gathered": ("itc_add", {"training__gather_negatives": "true"}),
    "contrastive": ("itc_add", {}),
    "matching": ("itm_scaled_add", {"model__head": '"image_text_matching"'}),
    "masked_lm": ("mlm_tied", {"model__head": '"masked_lm"'}),
    "image_classification": ("../emoji-classes/model", {"model__from_scratch": "true", "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": '"label"',
                                                               "data__train_file": f'"{DATA}/emoji-classes/train.jsonl"'}),
    "BERT": ("../text-corpus/model", {"model__from_scratch": "true", "model__head": '"masked_lm"', **WORDS}),
}
RUN = {"report__hash_steps": "1", "training__max_steps": "6", "training__save_steps": "3"}


class Diff(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.a = cls.trained("a")

    @classmethod
    def trained(cls, name, model="itc_add", **changes):
        folder = cls.folder / name
        folder.mkdir()
        run_ok("run", small_settings(folder, model, **{**RUN, **changes}))
        return folder / "run"

    def diff(self, b, a=None):
        done = run("diff", "--json", a or self.a, b)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    def test_the_hashes_are_those_of_any_threads_workers_and_interval(self):
        b = self.trained("threads", machine__threads="1", data__dataloader_num_workers="0")
        self.assertEqual((b / "tensor_hashes.bin").read_bytes(), (self.a / "tensor_hashes.bin").read_bytes())
        code, found = self.diff(self.trained("interval", report__hash_steps="2"))
        self.assertEqual((code, found["equal"], found["equal_updates"], found["last_update"]), (0, True, 3, 6))

    def test_ranks_have_the_same_hashes_with_every_strategy(self):
        ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "2"}
        one = self.trained("fast", **ranks)
        for number, changes in enumerate(({"distributed__distribution_strategy": '"ddp"', "distributed__bucket_mib": "1"},
                                          {"distributed__distribution_strategy": '"sharded"', "distributed__sharded_stage": "2", "distributed__bucket_mib": "1"})):
            other = self.trained(f"ranks{number}", **ranks, **changes)
            self.assertEqual((other / "tensor_hashes.bin").read_bytes(), (one / "tensor_hashes.bin").read_bytes())

    def gradients(self, run):
        """Of its first update, without a common factor: AdamW's first moments."""
        state = next((run / "checkpoint-1").glob("training_state.safetensors"))
        return {name: values for name, values in tensors(state).items() if name.startswith("exp_avg.")}

    def largest_difference(self, a, b):
        """Relative, of the gradients whose norm is not rounding itself."""
        one, other = self.gradients(a), self.gradients(b)
        norm = {name: sum(x * x for x in values) ** 0.5 for name, values in one.items()}
        return max(sum((x - y) ** 2 for x, y in zip(values, other[name])) ** 0.5 / norm[name] for name, values in one.items() if norm[name] > 1e-4 * max(norm.values()))

    def test_another_division_of_an_update_changes_its_gradients_by_rounding_alone(self):
        """As src/finish/README.md says, for each head: the values are equal, the gradients are not."""
        divisions = {"1 rank x 4 samples": {}, "2 ranks x 2 samples": {"distributed__world_size": "2", "training__per_device_train_batch_size": "2"},
                     "1 rank x 2 samples x 2 micro-batches": {"training__per_device_train_batch_size": "2", "training__gradient_accumulation_steps": "2"}}
        for number, (head, (model, changes)) in enumerate(HEADS.items()):
            common = {**changes, "training__max_steps": "1", "training__max_grad_norm": "0.0"}
            whole, *others = [self.trained(f"division{number}-{place}", model, **common, **division) for place, division in enumerate(divisions.values())]
            for other, words in zip(others, list(divisions)[1:]):
                with self.subTest(head=head, division=words):
                    code, found = self.diff(other, whole)
                    self.assertEqual((code, found["update"], found["kind"], found["values_that_differ"]), (7, 1, "gradient", 0), found)
                    self.assertGreater(found["gradients_that_differ"], 0)
                    self.assertIn(f"the runs divide an update differently (1 rank x 4 samples; {words}): ", run("diff", whole, other).stdout)
                    # Negatives are those of a micro-batch, and with gather_negatives of all ranks' micro-batches.
                    has_other_negatives = head == "contrastive" or (head == "contrastive, gathered" and "micro" in words)
                    (self.assertGreater if has_other_negatives else self.assertLess)(self.largest_difference(whole, other), 1e-2 if has_other_negatives else 1e-5)

    def test_a_run_with_other_samples_in_an_update_is_told_apart(self):
        other = self.trained("more", training__per_device_train_batch_size="3")
        self.assertIn("an update has other samples in each run (1 rank x 4 samples; 1 rank x 3 samples)", run("diff", self.a, other).stdout)
        code, found = self.diff(other)
        self.assertEqual((code, found["divisions"][1]), (7, {"micro_batches": 1, "mini_batch_size": 0, "ranks": 1, "samples": 3}))

    def test_a_resumed_run_keeps_the_division_of_each_update(self):
        """After update 3 two ranks go on with what one rank of two micro-batches began."""
        folder = self.folder / "resumed"
        folder.mkdir()
        parts = {**RUN, "training__lr_schedule_steps": "6", "training__per_device_train_batch_size": "2"}
        for changes in ({"training__gradient_accumulation_steps": "2", "training__max_steps": "3"}, {"distributed__world_size": "2"}):
            run_ok("run", small_settings(folder, **{**parts, **changes}))
        begun = self.trained("begun", training__per_device_train_batch_size="2", training__gradient_accumulation_steps="2", training__lr_schedule_steps="6")
        code, found = self.diff(folder / "run", begun)
        self.assertEqual((code, found["update"], found["kind"], found["equal_updates"]), (7, 4, "gradient", 3), found)
        self.assertEqual([one["ranks"] for one in found["divisions"]], [1, 2])

    def test_a_killed_run_goes_on_with_the_hashes_of_the_unbroken_one(self):
        folder = self.folder / "killed"
        folder.mkdir()
        toml = small_settings(folder, **{**RUN, "training__max_steps": "40", "training__save_steps": "4"})
        run_until("saved checkpoint-12", signal.SIGKILL, "run", toml)
        with open(folder / "run" / "tensor_hashes.bin", "ab") as file:
            file.write(b"cut short")
        self.assertEqual(run("run", toml).returncode, 0)
        whole = self.trained("unbroken", training__max_steps="40", training__save_steps="0")
        self.assertEqual((folder / "run" / "tensor_hashes.bin").read_bytes(), (whole / "tensor_hashes.bin").read_bytes())

    def test_hashes_in_another_format_are_kept_beside(self):
        folder = self.folder / "older"
        folder.mkdir()
        parts = {**RUN, "training__lr_schedule_steps": "6"}
        self.assertEqual(run("run", small_settings(folder, **parts | {"training__max_steps": "3"})).returncode, 0)
        file = folder / "run" / "tensor_hashes.bin"
        older = file.read_bytes().replace(b'"format":3', b'"format":1')
        file.write_bytes(older)
        (folder / "run" / "tensor_hashes.bin.1").write_text("kept earlier")
        done = run_ok("run", small_settings(folder, **parts))
        self.assertRegex(done.stderr, "\nbascule: report.hash_steps: .*format.* kept in .*tensor_hashes.bin.2\n")
        self.assertTrue((folder / "run" / "tensor_hashes.bin.2").read_bytes() == older)
        self.assertEqual((folder / "run" / "tensor_hashes.bin.1").read_text(), "kept earlier")
        code, found = self.diff(folder / "run")
        self.assertEqual((code, found["equal"], found["equal_updates"], found["last_update"]), (0, True, 3, 6), found)
        flip(file, -9, 1)  # so are those of which a bit has changed
        damaged = file.read_bytes()
        self.assertEqual(run("diff", self.a, folder / "run").returncode, 3)
        done = run_ok("run", small_settings(folder, **parts | {"training__max_steps": "7"}))
        self.assertRegex(done.stderr, "\nbascule: report.hash_steps: .* damaged.* kept in .*tensor_hashes.bin.3\n")
        self.assertTrue((folder / "run" / "tensor_hashes.bin.3").read_bytes() == damaged)

    def test_a_bit_changed_in_a_weight_is_named(self):
        print(f"seed {SEED}")
        draw = random.Random(SEED)
        for number in range(FLIPS):
            folder = self.folder / f"flipped{number}"
            shutil.copytree(self.a / "checkpoint-3", folder / "from" / "checkpoint-3")
            weights = folder / "from" / "checkpoint-3" / "model.safetensors"
            hashed = json.loads((self.a / "tensor_hashes.bin").read_bytes().split(b"\n")[0])["values"]
            tensor, begin, end = draw.choice([one for one in tensors_of(weights) if one[0] in hashed])
            flip_in_checkpoint(weights.parent, weights.name, draw.randrange(begin, end) // 4 * 4 + draw.randrange(3), draw.randrange(8))
            with self.subTest(tensor=tensor):
                run_ok("run", small_settings(folder, **RUN, training__resume=f'"{folder}/from/checkpoint-3"'))
                code, found = self.diff(folder / "run")
                self.assertEqual((code, found["update"], found["kind"], found["tensor"], found["values_that_differ"]), (7, 4, "value", tensor, 1), found)

    def test_another_batch_shows_in_gradients_first(self):
        rows = write_rows(self.folder / "other.jsonl", [{**row, "caption": "another"} for row in ROWS])
        code, found = self.diff(self.trained("other", data__train_file=rows))
        self.assertEqual((code, found["update"], found["kind"]), (7, 1, "gradient"))
        self.assertIn(f"update 1: the gradient of {found['tensor']} differs", run_ends(7, "diff", self.a, self.folder / "other" / "run").stdout)

    def test_bad_input_is_one_line(self):
        other = self.trained("model", model="itm_scaled_add", model__head='"image_text_matching"')
        empty = self.folder / "none"
        empty.mkdir()
        cut = self.folder / "cut"
        cut.mkdir()
        (cut / "tensor_hashes.bin").write_bytes((self.a / "tensor_hashes.bin").read_bytes()[:100])
        for b, words in ((other, "is from a run of a different model"), (empty, "has no tensor hashes"), (cut, "has no line that names its tensors")):
            with self.subTest(b=b.name):
                done = run("diff", self.a, b)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
                self.assertIn(words, done.stderr)
