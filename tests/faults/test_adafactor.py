# SPDX-License-Identifier: Apache-2.0
"""Adafactor in whole runs: the same bits for any threads, ranks and strategies, after a resume and with the update fused into backward; what is refused."""
import json
import math

from bascule_run import digest, run, run_ends, settings
from optimizer_runs import OptimizerRuns
from run_files import tensors

ADAFACTOR = {"training__optimizer": '"adafactor"', "training__weight_decay": "0.01", "training__learning_rate": "0.002", "training__max_steps": "4", "training__save_steps": "2",
             "training__per_device_train_batch_size": "4"}
FUSED = {"training__max_grad_norm": "0.0", "training__fused_update": "true"}


class Adafactor(OptimizerRuns):
    SETTINGS = ADAFACTOR

    def refused(self, code, words, name="refused", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        done = run_ends(code, "run", settings(folder, **{**ADAFACTOR, **changes}))
        for word in words:
            self.assertIn(word, done.stderr)

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        one = self.digests("one")
        self.assertEqual(self.digests("threads", machine__threads="1"), one)
        self.assertEqual(self.digests("scalar", machine__isa='"scalar"'), one)
        self.trained("resumed", training__max_steps="2", training__lr_schedule_steps="4")
        self.assertEqual(self.digests("resumed", training__lr_schedule_steps="4")[0], one[0])

    def test_every_strategy_gives_the_same_bits(self):
        self.expect_equal_strategies()

    def test_a_fused_update_has_the_bits_of_one_after_backward_in_less_memory(self):
        more = {"training__max_grad_norm": "0.0", "training__ema_decay": "0.5", "report__hash_steps": "1"}
        apart, fused = self.trained("apart", **more)[0], self.trained("fused", **{**more, **FUSED})[0]
        for name in ("model.safetensors", "ema/model.safetensors", "checkpoint-4/training_state.safetensors", "tensor_hashes.bin"):
            self.assertEqual(digest(fused / name), digest(apart / name), name)
        norms = [[line["grad_norm"] for line in json.loads((folder / "trainer_state.json").read_text())["log_history"] if "grad_norm" in line] for folder in (apart, fused)]
        self.assertEqual(norms[0], norms[1])
        planned = [run("plan", self.folder / name / "run.toml", "--json") for name in ("apart", "fused")]
        gradients = [sum(bytes for name, bytes in json.loads(plan.stdout)["categories"].items() if name.startswith("gradient")) for plan in planned]
        self.assertLess(gradients[1], 0.5 * gradients[0])
        # The key may change when a run goes on.
        self.trained("goes_on", **{**FUSED, "training__max_steps": "2", "training__lr_schedule_steps": "4"})
        goes_on = self.trained("goes_on", training__max_grad_norm="0.0", training__lr_schedule_steps="4")[0]
        plain = self.trained("plain", training__max_grad_norm="0.0")[0]
        self.assertEqual(digest(goes_on / "model.safetensors"), digest(plain / "model.safetensors"))

    def test_its_states_are_rows_columns_and_vectors(self):
        states = tensors(self.trained("states", training__max_steps="2")[0] / "checkpoint-2/training_state.safetensors")
        weights = tensors(self.folder / "states/run/model.safetensors")
        kinds = {kind: {name[len(kind) + 1:] for name in states if name.startswith(kind + ".")} for kind in ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")}
        self.assertEqual(kinds["exp_avg_sq_row"], kinds["exp_avg_sq_col"])
        self.assertFalse(kinds["exp_avg_sq_row"] & kinds["exp_avg_sq"])
        self.assertLess(sum(map(len, states.values())), 0.05 * sum(map(len, weights.values())))
        name = next(name for name in kinds["exp_avg_sq_row"] if name.endswith("query.weight"))
        width = math.isqrt(len(weights[name]))
        self.assertEqual([len(states[f"{kind}.{name}"]) for kind in ("exp_avg_sq_row", "exp_avg_sq_col")], [width, width])

    def test_what_it_cannot_do_is_refused(self):
        self.refused(2, ["training.adam_beta2 does not apply"], training__adam_beta2="0.9")
        self.refused(2, ["fused_update", "max_grad_norm = 0"], training__fused_update="true")
        self.refused(2, ["fused_update", "gradient_accumulation_steps = 1"], **FUSED, training__gradient_accumulation_steps="2")
        self.refused(2, ["fused_update", "world_size = 1"], **FUSED, distributed__world_size="2")
        self.refused(2, ['applies only to optimizer = "adafactor"'], **{**FUSED, "training__optimizer": '"adamw"'})
        self.trained("adamw", training__optimizer='"adamw"', training__max_steps="2")
        self.refused(2, ["training.optimizer", '"adamw"'], name="adamw")

    def test_a_gradient_that_is_not_finite_ends_the_run_without_a_checkpoint_that_holds_it(self):
        # Every update multiplies the matrices by -999,999, until something overflows.
        self.refused(3, ["is not finite"], name="diverged", **{**FUSED, "training__learning_rate": "1000.0", "training__weight_decay": "1000.0", "training__max_steps": "24", "training__save_steps": "1"})
        for checkpoint in (self.folder / "diverged/run").glob("checkpoint-*"):
            for values in tensors(checkpoint / "model.safetensors").values():
                self.assertTrue(all(map(math.isfinite, values)), checkpoint)
