# SPDX-License-Identifier: Apache-2.0
"""tools/random_models.py: a seed always draws the same model, and the draws of T5 cover what decides its arithmetic."""
import unittest

import tool_modules  # noqa: F401: the path
import random_models

SPECS = [random_models.draw_t5(seed, with_run=seed % 3 == 0) for seed in range(400)]


class RandomModels(unittest.TestCase):
    def test_a_seed_always_draws_the_same_model(self):
        for family, draw in random_models.DRAWS.items():
            self.assertEqual(draw(7, True), draw(7, True), family)
            self.assertNotEqual(draw(7, True), draw(8, True), family)
            self.assertGreater(len(random_models.summary(draw(7, True))), 30, family)

    def test_t5_draws_every_way_to_make_the_head(self):
        ways = {(spec["config"]["tie_word_embeddings"], spec["config"].get("scale_decoder_outputs"), spec["lm_head"]) for spec in SPECS}
        self.assertEqual(len(ways), 2 * 3 * 3)

    def test_t5_draws_uneven_stacks_and_gated_and_plain_activations(self):
        deeper = {(config["num_layers"] > config["num_decoder_layers"]) - (config["num_layers"] < config["num_decoder_layers"]) for config in (spec["config"] for spec in SPECS)}
        self.assertEqual(deeper, {-1, 0, 1})
        self.assertGreaterEqual({spec["config"]["feed_forward_proj"] for spec in SPECS}, {"relu", "gelu", "gated-relu", "gated-gelu", "gated-silu"})

    def test_each_batch_of_t5_has_a_label_and_each_distance_a_bucket(self):
        for spec in SPECS:
            config, batch = spec["config"], spec["batch"]
            labels = {(row, at) for row, length in enumerate(batch["target"]) for at in range(length)}
            self.assertTrue(labels - set(map(tuple, batch.get("holes", []))), spec)
            self.assertTrue(set(map(tuple, batch.get("holes", []))) <= labels, spec)
            self.assertFalse("holes" in batch and "ignore_pad_token_for_loss" in spec, spec)
            self.assertGreater(config["relative_attention_max_distance"], config["relative_attention_num_buckets"] // 2, spec)

    def test_both_kinds_of_labels_are_drawn(self):
        for wanted in (lambda spec: spec["batch"].get("holes"), lambda spec: "ignore_pad_token_for_loss" in spec, lambda spec: spec["label_smoothing"]):
            self.assertGreater(sum(bool(wanted(spec)) for spec in SPECS), 40)
