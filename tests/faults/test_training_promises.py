# SPDX-License-Identifier: Apache-2.0
"""What training promises beside its numbers: what is frozen stays, dropout is training's alone, the seed drives the order, an untied decoder stays so, nothing
that is not finite is saved."""
import json
import math
import pathlib
import struct
import tempfile
import unittest

from bascule_run import run
from run_files import scalars, tensors, weights
from small_run import DATA, ROWS, copy_model, outcome, small_settings, write_rows

UNCHANGING = {"training__learning_rate": "0.0"}
DROPOUT = {"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.3}


class Promises(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def finished(self, name, model, **changes):
        """The output folder of a run."""
        (self.folder / name).mkdir()
        done = run("run", small_settings(self.folder / name, model, **changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name / "run"

    def losses(self, name, model, **changes):
        logged = scalars(self.finished(name, model, **changes), "train/loss")
        return [logged[step] for step in sorted(logged)]

    def test_what_is_frozen_keeps_its_bits_and_all_else_moves(self):
        """With weight decay, which would move it too."""
        case = json.loads((DATA / "goldens/itm_scaled_add/case.json").read_text())
        insensitive = {slice["parameter"] for slice in case["zero_gradient"]}
        start = weights(DATA / "goldens/itm_scaled_add")
        for frozen in ([], ["vision_model"], ["text_model"], ["vision_model", "text_model"]):
            with self.subTest(frozen=frozen):
                output = self.finished("-".join(["run", *frozen]), "itm_scaled_add", model__head='"image_text_matching"', model__freeze=json.dumps(frozen), training__weight_decay="0.1")
                final = tensors(output / "model.safetensors")
                self.assertEqual(sorted(final), sorted(start))
                for name, values in final.items():
                    still = name in case["unused_parameters"] or any(name.startswith(f"bridgetower.{part}.") for part in frozen)
                    if still or name not in insensitive:
                        self.assertEqual(values == start[name], still, name)

    def test_dropout_is_on_in_training_and_new_at_each_step(self):
        """With a rate of 0 and all rows in each batch nothing else can change the loss but the order of summing."""
        model = copy_model("itc_add", self.folder / "model", **DROPOUT)
        same = {"model__model_name_or_path": f'"{model}"', "data__train_file": write_rows(self.folder / "rows.jsonl", ROWS[:4]), **UNCHANGING}
        off = self.losses("off", "itc_add", **same)
        self.assertEqual(len(off), 3)
        self.assertLess(max(off) / min(off) - 1, 1e-5)
        on = self.losses("on", "itc_add", **same, model__dropout='"config"')
        for one, other in ((0, 1), (0, 2), (1, 2)):
            self.assertGreater(abs(on[one] / on[other] - 1), 1e-4)
        self.assertGreater(min(abs(value / off[0] - 1) for value in on), 1e-4)

    def test_dropout_is_off_in_evaluation_and_prediction(self):
        model = copy_model("itc_add", self.folder / "model", **DROPOUT)
        found = []
        for dropout in ("config", "off"):
            (self.folder / dropout).mkdir()
            found.append(outcome(self.folder / dropout, model__model_name_or_path=f'"{model}"', model__dropout=f'"{dropout}"', training__do_train="false", training__max_steps=None,
                                 data__validation_file=write_rows(self.folder / "validation.jsonl", ROWS[:7]), data__test_file=write_rows(self.folder / "test.jsonl", ROWS[5:])))
            self.assertEqual(found[-1]["exit"], 0, found[-1]["stderr"])
        self.assertGreater(len(found[0]["evaluation"]), 5)
        self.assertEqual(found[0]["evaluation"], found[1]["evaluation"])

    def test_the_seed_drives_the_order(self):
        """With a rate of 0 and one row a batch the loss tells which row it is."""
        rows = [{**row, "label": number % 2} for number, row in enumerate(ROWS[:14])]  # rows 4 and 14 have the same picture
        same = {"model__head": '"image_text_matching"', "data__label_column": '"label"', "data__train_file": write_rows(self.folder / "rows.jsonl", rows),
                "training__per_device_train_batch_size": "1", "training__max_steps": "28", **UNCHANGING}
        orders = []
        for seed in (1, 2, 1 << 40 | 1):
            losses = self.losses(f"seed{seed}", "itm_scaled_add", training__seed=str(seed), **same)
            first, second = losses[:14], losses[14:]
            self.assertEqual(len(set(first)), 14)
            self.assertEqual(sorted(first), sorted(second))  # each row once an epoch
            orders += [first, second]
        for number, order in enumerate(orders):
            self.assertNotIn(order, orders[:number])
            self.assertEqual(sorted(order), sorted(orders[0]))

    def test_an_untied_decoder_stays_untied(self):
        table, decoder = "bridgetower.text_model.embeddings.word_embeddings.weight", "mlm_score.decoder.weight"
        start = weights(DATA / "goldens/mlm_interpolate")
        output = self.finished("untied", "mlm_interpolate", model__head='"masked_lm"')
        final = tensors(output / "model.safetensors")
        for name in (table, decoder):
            self.assertNotEqual(final[name], start[name])
        self.assertNotEqual(final[table], final[decoder])
        self.assertFalse(json.loads((output / "config.json").read_text())["tie_word_embeddings"])

    def test_decoder_and_word_table_that_differ_are_not_tied_whatever_the_configuration_says(self):
        table, decoder = "bridgetower.text_model.embeddings.word_embeddings.weight", "mlm_score.decoder.weight"
        model = copy_model("mlm_interpolate", self.folder / "model")
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
        output = self.finished("both", "mlm_interpolate", model__head='"masked_lm"', model__model_name_or_path=f'"{model}"')
        final = tensors(output / "model.safetensors")
        self.assertNotEqual(final[table], final[decoder])

    def test_what_is_not_finite_ends_the_run_and_is_never_saved(self):
        """A weight decay that multiplies parameters by a million; and a weight that is too large from the start."""
        model = copy_model("itc_add", self.folder / "model")
        values = bytearray((model / "model.safetensors").read_bytes())
        size = struct.unpack("<Q", values[:8])[0]
        place = json.loads(values[8:8 + size])["itc_text_head.fc.weight"]["data_offsets"][0]
        values[8 + size + place:8 + size + place + 4] = struct.pack("<f", 3e38)
        (model / "model.safetensors").write_bytes(values)
        for name, changes in {"decay": {"training__learning_rate": "1000.0", "training__weight_decay": "1000.0"}, "weight": {"model__model_name_or_path": f'"{model}"'}}.items():
            with self.subTest(name):
                folder = self.folder / name
                folder.mkdir()
                done = run("run", small_settings(folder, **{"training__max_steps": "12", "training__save_steps": "1", **changes}))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, "finite")
                self.assertFalse((folder / "run" / "model.safetensors").exists())
                for path in folder.rglob("*.safetensors"):
                    for tensor, saved in tensors(path).items():
                        self.assertTrue(all(map(math.isfinite, saved)), f"{path}: {tensor}")


if __name__ == "__main__":
    unittest.main()
