# SPDX-License-Identifier: Apache-2.0
"""What a run does beside the arithmetic: when it drops, what the seed drives, what is frozen, metrics against their definitions, weights that are not finite."""
import json
import math
import pathlib
import struct
import tempfile
import unittest

from bascule_run import EMOJI, run, run_ends, run_ok, settings
from run_files import scalars, tensors, weights
from small_run import DATA, ROWS, small_settings, write_rows


def put(path, name, index, value):
    """Changes one number of a safetensors file."""
    data = bytearray(path.read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    struct.pack_into("<f", data, start + json.loads(data[8:start])[name]["data_offsets"][0] + 4 * index, value)
    path.write_bytes(data)


def matrix(values, rows):
    width = len(values) // rows
    return [values[i:i + width] for i in range(0, len(values), width)]


def few_rows(folder, name, count, captions=None):
    """A manifest of different pictures; captions: lists of (caption of row, label)."""
    rows = [json.loads(line) for line in (EMOJI / "validation.jsonl").read_text().splitlines()[:count]]
    path = pathlib.Path(folder) / name
    with path.open("w") as out:
        for i, row in enumerate(rows):
            row["image"] = str(EMOJI / row["image"])
            pairs = [(row["caption"], 1)] if captions is None else [(rows[c]["caption"], label) for c, label in captions[i]]
            for caption, label in pairs:
                out.write(json.dumps({"image": row["image"], "caption": caption, "label": label}) + "\n")
    return f'"{path}"'


def short_run(folder, name, **changes):
    """Runs; what it logged and the folder that it left."""
    place = pathlib.Path(folder) / name
    place.mkdir()
    values = {"training__max_steps": "1", "training__logging_steps": "1", "training__save_steps": "0", "report__html": "false",
              "report__tensorboard": "false", "training__lr_scheduler_type": '"constant"'}
    done = run("run", settings(place, **{**values, **changes}))
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return place / "run"


def judge(folder, name, model, **changes):
    """An evaluation alone; the metrics of its validation."""
    place = short_run(folder, name, model__model_name_or_path=f'"{model}"', model__from_scratch="false", data__train_file=None,
                      training__max_steps=None, **changes)
    return results(place)


def results(place):
    return json.loads((place / "validation_results.json").read_text())


def history(place):
    return [entry for entry in json.loads((place / "trainer_state.json").read_text())["log_history"] if "loss" in entry]


def mean_loss(place):
    """Of the training, with all digits: the log has four."""
    return json.loads((place / "train_results.json").read_text())["train_loss"]


class Training(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.addCleanup(self.temporary.cleanup)

    def test_every_fresh_tensor_has_numbers_of_its_own(self):
        place = short_run(self.folder, "fresh", training__max_steps="1", training__learning_rate="0.0", training__weight_decay="0.0")
        drawn = {name: bytes(values) for name, values in weights(place).items() if len(set(values)) > 1}
        self.assertGreater(len(drawn), 20)
        self.assertEqual(len({values[:64] for values in drawn.values()}), len(drawn))

    def test_tensorboard_shows_the_settings(self):
        place = short_run(self.folder, "shown", training__max_steps="1", report__tensorboard="true")
        events = b"".join(path.read_bytes() for path in place.rglob("events.out.tfevents.*"))
        self.assertIn(b"args/text_summary", events)
        self.assertIn(b"per_device_train_batch_size = ", events)

    def test_drops_in_training_only_and_anew_in_every_update(self):
        few = few_rows(self.folder, "few.jsonl", 8)
        same = {"data__train_file": few, "data__validation_file": few, "training__learning_rate": "0.0"}
        dropped = short_run(self.folder, "dropped", **same, model__dropout='"config"', training__max_steps="2")
        whole = short_run(self.folder, "whole", **same, model__dropout='"off"', training__max_steps="2")
        # Each update has all rows, and a rate of 0 leaves the weights alone.
        self.assertAlmostEqual(history(whole)[0]["loss"], history(whole)[1]["loss"], delta=1e-4)
        self.assertNotAlmostEqual(history(dropped)[0]["loss"], history(dropped)[1]["loss"], delta=2e-4)
        self.assertNotAlmostEqual(history(dropped)[0]["loss"], history(whole)[0]["loss"], delta=2e-4)
        self.assertEqual(results(dropped)["eval_loss"], results(whole)["eval_loss"])
        self.assertAlmostEqual(results(whole)["eval_loss"], mean_loss(whole), delta=1e-5)

    def test_dropout_depends_on_the_update_that_a_sample_is_in(self):
        """Two equal rows and weights that stay, in two updates or in the micro-batches of one: only dropout can make the mean loss another."""
        row = pathlib.Path(few_rows(self.folder, "one.jsonl", 1).strip('"'))
        row.write_text(2 * row.read_text())
        same = {"data__train_file": f'"{row}"', "data__label_column": '"label"', "model__head": '"image_text_matching"', "training__learning_rate": "0.0",
                "training__per_device_train_batch_size": "1"}
        for dropout in ("off", "config"):
            with self.subTest(dropout=dropout):
                apart = short_run(self.folder, f"{dropout} apart", **same, model__dropout=f'"{dropout}"', training__max_steps="2")
                together = short_run(self.folder, f"{dropout} together", **same, model__dropout=f'"{dropout}"', training__gradient_accumulation_steps="2")
                (self.assertLess if dropout == "off" else self.assertGreater)(abs(mean_loss(apart) - mean_loss(together)), 1e-5)

    def test_the_seed_drives_weights_order_dropout_and_masks(self):
        few, all_rows = few_rows(self.folder, "few.jsonl", 8), few_rows(self.folder, "more.jsonl", 24)
        first = short_run(self.folder, "first", data__train_file=few, model__head='"masked_lm"', training__seed="1")
        other = short_run(self.folder, "other", data__train_file=few, model__head='"masked_lm"', training__seed="2")
        name = "bridgetower.text_model.encoder.layer.0.attention.self.query.weight"
        weights = tensors(first / "model.safetensors")[name]
        self.assertNotEqual(weights, tensors(other / "model.safetensors")[name])
        self.assertLess(abs(sum(weights) / len(weights)), 5e-3)  # of 16,384 with a deviation of 0.05, and an update of 0.001
        same = {"model__from_scratch": "false", "training__learning_rate": "0.0"}
        one_row = {"data__train_file": few_rows(self.folder, "one.jsonl", 1), "model__head": '"image_text_matching"',
                   "data__label_column": '"label"'}  # no order, no mask, no other caption: what is left is dropout
        matching = short_run(self.folder, "matching", **one_row)
        contrastive = short_run(self.folder, "contrastive", data__train_file=few)
        for what, model, changes in (
                ("order", contrastive, {"data__train_file": all_rows, "model__dropout": '"off"'}),
                ("dropout", matching, {**one_row, "model__dropout": '"config"'}),
                ("masks", first, {"data__train_file": few, "model__dropout": '"off"', "model__head": '"masked_lm"'})):
            with self.subTest(what):
                one, two, again = (mean_loss(short_run(self.folder, f"{what} {i}", **same, **changes, model__model_name_or_path=f'"{model}"', training__seed=seed))
                                   for i, seed in enumerate(("11", "12", "11")))
                self.assertEqual(one, again)
                self.assertNotAlmostEqual(one, two, delta=1e-5)

    def small_run(self, name, model, **changes):
        """The output folder of a run on a model of tests/data/goldens."""
        place = pathlib.Path(self.folder) / name
        place.mkdir()
        run_ok("run", small_settings(place, model, model__head='"image_text_matching"', **changes))
        return place / "run"

    def test_takes_each_row_once_an_epoch_in_an_order_of_the_seed_and_the_epoch(self):
        """With a rate of 0 and one row a batch the loss tells which row it is."""
        rows = write_rows(pathlib.Path(self.folder) / "rows.jsonl", [{**row, "label": number % 2} for number, row in enumerate(ROWS[:14])])
        same = {"data__label_column": '"label"', "data__train_file": rows, "training__per_device_train_batch_size": "1", "training__max_steps": "28", "training__learning_rate": "0.0"}
        orders = []
        for seed in (1, 2, 1 << 40 | 1):
            losses = scalars(self.small_run(f"seed {seed}", "itm_scaled_add", training__seed=str(seed), **same), "train/loss")
            orders += [[losses[step] for step in range(first, first + 14)] for first in (1, 15)]
        for number, order in enumerate(orders):
            self.assertEqual(len(set(order)), 14)
            self.assertEqual(sorted(order), sorted(orders[0]))
            self.assertNotIn(order, orders[:number])

    def test_keeps_the_bits_of_what_is_frozen_and_moves_all_else(self):
        """With weight decay, which would move it too."""
        case = json.loads((DATA / "goldens/itm_scaled_add/case.json").read_text())
        insensitive = {part["parameter"] for part in case["zero_gradient"]}
        start = weights(DATA / "goldens/itm_scaled_add")
        for frozen in ([], ["vision_model"], ["text_model"], ["vision_model", "text_model"]):
            with self.subTest(frozen=frozen):
                output = self.small_run(" ".join(["frozen", *frozen]), "itm_scaled_add", model__freeze=json.dumps(frozen), training__weight_decay="0.1")
                final = tensors(output / "model.safetensors")
                self.assertEqual(sorted(final), sorted(start))
                for name, values in final.items():
                    still = name in case["unused_parameters"] or any(name.startswith(f"bridgetower.{part}.") for part in frozen)
                    if still or name not in insensitive:
                        self.assertEqual(values == start[name], still, name)

    def test_a_run_that_leaves_the_finite_numbers_writes_none_of_them(self):
        few = few_rows(self.folder, "few.jsonl", 8)
        sound = short_run(self.folder, "sound", data__train_file=few)
        weights = sound / "model.safetensors"
        table = "bridgetower.text_model.embeddings.word_embeddings.weight"
        unread = len(tensors(weights)[table]) - 1  # the last token of the vocabulary is in none of the captions
        # The loss is sound, and the update makes an infinite weight of a large one; or all weights are finite, and e^200 is not.
        for what, name, index, value, changes in (
                ("weight", table, unread, 1e33, {"training__weight_decay": "1000.0", "training__learning_rate": "1000.0"}),
                ("loss", "logit_scale", 0, 200.0, {})):
            with self.subTest(what):
                put(weights, name, index, value)
                place = pathlib.Path(self.folder) / what
                place.mkdir()
                done = run_ends(3, "run", settings(place, data__train_file=few, model__model_name_or_path=f'"{sound}"', training__save_steps="1",
                                                   model__from_scratch="false", training__lr_scheduler_type='"constant"', **changes))
                self.assertIn("not finite", done.stderr)
                left = sorted(p.name for p in (place / "run").iterdir())
                self.assertFalse([n for n in left if n.startswith("checkpoint") or n.startswith("model")], left)
                put(weights, name, index, 0.5)

    def test_micro_batches_and_an_uneven_last_one_give_the_update_of_their_union(self):
        for head in ("image_text_matching", "masked_lm"):
            with self.subTest(head):
                rows = few_rows(self.folder, f"{head}.jsonl", 10)  # an epoch of two updates, the second of one micro-batch
                same = {"data__train_file": rows, "model__head": f'"{head}"', "model__dropout": '"off"', "training__max_steps": "3"}
                whole = short_run(self.folder, f"{head} whole", **same, training__per_device_train_batch_size="9")
                cut = short_run(self.folder, f"{head} cut", **same, training__per_device_train_batch_size="3",
                                training__gradient_accumulation_steps="3")
                for a, b in zip(history(whole), history(cut)):
                    self.assertAlmostEqual(a["loss"], b["loss"], delta=1.1e-4)
                    self.assertAlmostEqual(a["grad_norm"], b["grad_norm"], delta=1e-4 * a["grad_norm"])

    def test_a_line_of_the_log_is_the_mean_of_its_interval(self):
        same = {"data__train_file": few_rows(self.folder, "few.jsonl", 8), "training__max_steps": "4", "training__learning_rate": "1e-2",
                "training__per_device_train_batch_size": "4"}
        each = [entry["loss"] for entry in history(short_run(self.folder, "each", **same))]
        pairs = [entry["loss"] for entry in history(short_run(self.folder, "pairs", **{**same, "training__logging_steps": "2"}))]
        self.assertGreater(abs(each[0] - each[1]), 1e-3)
        for i, loss in enumerate(pairs):
            self.assertAlmostEqual(loss, (each[2 * i] + each[2 * i + 1]) / 2, delta=1.1e-4)

    def test_an_untied_decoder_is_trained_by_itself(self):
        few = few_rows(self.folder, "few.jsonl", 8)
        same = {"data__train_file": few, "model__head": '"masked_lm"'}
        first = short_run(self.folder, "first", **same)
        config = json.loads((first / "config.json").read_text())
        self.assertFalse(config["tie_word_embeddings"])
        config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = True  # the weights hold both all the same
        (first / "config.json").write_text(json.dumps(config))
        second = short_run(self.folder, "second", **same, model__model_name_or_path=f'"{first}"', model__from_scratch="false")
        before, after = tensors(first / "model.safetensors"), tensors(second / "model.safetensors")
        decoder, table = "mlm_score.decoder.weight", "bridgetower.text_model.embeddings.word_embeddings.weight"
        self.assertNotEqual(before[decoder], after[decoder])
        self.assertNotEqual(after[table], after[decoder])
        saved = json.loads((second / "config.json").read_text())
        self.assertEqual((saved["tie_word_embeddings"], saved["text_config"]["tie_word_embeddings"]), (False, False))


class Metrics(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.addCleanup(self.temporary.cleanup)

    def trained(self, head, rows, **changes):
        return short_run(self.folder, f"model {head}", data__train_file=rows, model__head=f'"{head}"', model__dropout='"off"', **changes)

    def test_recall_and_loss_are_those_of_the_embeddings(self):
        rows = few_rows(self.folder, "rows.jsonl", 21)
        model = self.trained("contrastive", rows, training__max_steps="8", training__per_device_train_batch_size="21")
        place = pathlib.Path(self.folder) / "judged"
        judged = judge(self.folder, "judged", model, data__validation_file=rows, training__per_device_eval_batch_size="8")
        embeddings = tensors(place / "run" / "embeddings.safetensors")
        text, image, cross = (matrix(embeddings[f"{name}_embeds"], 21) for name in ("text", "image", "cross"))

        def dot(a, b):
            return sum(x * y for x, y in zip(a, b))

        for key, queries, candidates in (("image_to_text", image, text), ("text_to_image", text, image)):
            ranks = [sum(dot(q, c) >= dot(q, candidates[i]) for j, c in enumerate(candidates) if j != i) for i, q in enumerate(queries)]
            self.assertGreater(len(set(ranks)), 2)
            for k in (1, 5, 10):
                self.assertAlmostEqual(judged[f"eval_{key}_recall_at_{k}"], sum(r < k for r in ranks) / len(ranks), delta=1e-9)
        scale, total = math.exp(tensors(model / "model.safetensors")["logit_scale"][0]), 0.0
        for first in range(0, 21, 8):
            batch = range(first, min(first + 8, 21))
            for queries, candidates in ((text, image), (text, cross), (image, cross)):
                for i in batch:
                    logits = [scale * dot(queries[i], candidates[j]) for j in batch]
                    total += (math.log(sum(map(math.exp, logits))) - logits[i - first]) / 3
        self.assertAlmostEqual(judged["eval_loss"], total / 21, delta=2e-5)

    def test_of_matching_do_not_depend_on_the_batches_and_know_the_label_of_a_match(self):
        rows = few_rows(self.folder, "rows.jsonl", 4, captions=[[(0, 1), (1, 0)]] * 4)  # told apart by the caption alone
        label = {"data__label_column": '"label"'}
        model = self.trained("image_text_matching", rows, **label, training__max_steps="60", training__learning_rate="2e-3",
                             data__validation_file=rows)
        self.assertEqual(results(model)["eval_accuracy"], 1.0)
        self.assertEqual(results(model)["eval_auc"], 1.0)
        more = few_rows(self.folder, "more.jsonl", 7, captions=[[(i, 1)] + [((i + 2) % 7, 0)] * (i % 2) for i in range(7)])
        same = {"data__validation_file": more, "model__head": '"image_text_matching"', **label}
        whole = judge(self.folder, "whole", model, **same, training__per_device_eval_batch_size="16")
        cut = judge(self.folder, "cut", model, **same, training__per_device_eval_batch_size="4")
        self.assertAlmostEqual(whole["eval_loss"], cut["eval_loss"], delta=1e-5 * whole["eval_loss"])
        self.assertEqual(whole["eval_accuracy"], cut["eval_accuracy"])
        self.assertAlmostEqual(whole["eval_auc"], cut["eval_auc"], delta=1e-9)

    def test_negative_fraction_is_the_share_of_wrong_captions(self):
        rows = few_rows(self.folder, "rows.jsonl", 8)
        model = self.trained("image_text_matching", rows)
        accuracy = [judge(self.folder, share, model, data__validation_file=rows, model__head='"image_text_matching"',
                          data__negative_fraction=share)["eval_accuracy"] for share in ("0.0", "1.0")]
        self.assertAlmostEqual(sum(accuracy), 1.0, delta=0.3)  # the same guesses: right where every caption is, or where none is
        self.assertNotEqual(accuracy[0], accuracy[1])

    def test_of_masked_lm_are_over_the_labelled_tokens(self):
        rows = few_rows(self.folder, "rows.jsonl", 9)
        same = {"data__validation_file": rows, "model__head": '"masked_lm"'}
        model = self.trained("masked_lm", rows, training__max_steps="30", data__mlm_probability="0.5")
        whole = judge(self.folder, "whole", model, **same, data__mlm_probability="0.5", training__per_device_eval_batch_size="16")
        cut = judge(self.folder, "cut", model, **same, data__mlm_probability="0.5", training__per_device_eval_batch_size="4")
        fewer = judge(self.folder, "fewer", model, **same, data__mlm_probability="0.1")
        self.assertAlmostEqual(whole["eval_loss"], cut["eval_loss"], delta=1e-5 * whole["eval_loss"])
        self.assertAlmostEqual(whole["eval_accuracy"], cut["eval_accuracy"], delta=1e-9)
        self.assertGreater(whole["eval_accuracy"], 0.0)
        self.assertAlmostEqual(whole["eval_perplexity"], math.exp(whole["eval_loss"]), delta=1e-6 * whole["eval_perplexity"])
        self.assertNotAlmostEqual(whole["eval_loss"], fewer["eval_loss"], delta=1e-4)
