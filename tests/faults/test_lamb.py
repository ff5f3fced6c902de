# SPDX-License-Identifier: Apache-2.0
"""LAMB in whole runs: the same bits for any threads, ranks and strategies, after a resume too, and what it says without weight decay."""
import math

from bascule_run import instruction_sets
from optimizer_runs import OptimizerRuns
from run_files import tensors

LAMB = {"training__optimizer": '"lamb"', "training__weight_decay": "0.01", "training__learning_rate": "0.004", "training__max_steps": "4", "training__save_steps": "2",
        "training__per_device_train_batch_size": "4"}


class Lamb(OptimizerRuns):
    SETTINGS = LAMB

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        one = self.digests("one")
        self.assertEqual(self.digests("threads", machine__threads="1"), one)
        for isa in instruction_sets():
            if isa != "scalar":
                self.assertEqual(self.digests(isa, machine__isa=f'"{isa}"'), one, isa)
        self.trained("resumed", training__max_steps="2", training__lr_schedule_steps="4")
        self.assertEqual(self.digests("resumed", training__lr_schedule_steps="4")[0], one[0])

    def test_every_strategy_gives_the_same_bits(self):
        self.expect_equal_strategies()

    def test_tensors_move_in_proportion_to_their_norms(self):
        start = tensors(self.trained("start", training__max_steps="1", training__save_steps="1", training__learning_rate="1e-12")[0] / "model.safetensors")
        moved = tensors(self.trained("moved", training__max_steps="1", training__save_steps="1", training__lr_scheduler_type='"constant"')[0] / "model.safetensors")
        checked = 0
        for name, before in start.items():
            if not name.endswith("dense.weight") or "text_model.pooler" in name:  # which no head reads
                continue
            change = math.dist(moved[name], before)
            self.assertAlmostEqual(change / math.hypot(*before), 0.004, delta=1e-5, msg=name)
            checked += 1
        self.assertGreater(checked, 4)

    def test_without_weight_decay_it_says_that_it_is_adam(self):
        one = {"training__max_steps": "1", "training__save_steps": "1", "training__weight_decay": "0.0"}
        folder, said = self.trained("lamb", **one)
        self.assertIn("optimizer: with weight_decay = 0, LAMB is the same as Adam", said)
        adam, silent = self.trained("adam", **one, training__optimizer='"adamw"')
        self.assertNotIn("LAMB", silent)
        lamb, adamw = tensors(folder / "model.safetensors"), tensors(adam / "model.safetensors")
        for name, values in adamw.items():
            if name.endswith("key.bias"):  # its gradient is zero in exact arithmetic
                continue
            for a, b in zip(values, lamb[name]):
                self.assertAlmostEqual(a, b, delta=2e-6, msg=name)
        self.assertNotIn("LAMB", self.trained("decayed")[1])
