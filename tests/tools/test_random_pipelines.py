# SPDX-License-Identifier: Apache-2.0
"""tools/random_pipelines.py: a seed always draws the same pipeline, and the draws cover what decides a picture."""
import unittest

import tool_modules  # noqa: F401: the path
import random_pipelines

SPECS = [random_pipelines.draw_pipeline(seed, False) for seed in range(400)]


def factor(spec):
    return 2 ** (len(spec["vae"]["block_out_channels"]) - 1)


class RandomPipelines(unittest.TestCase):
    def test_a_seed_always_draws_the_same_pipeline(self):
        self.assertEqual(random_pipelines.draw_pipeline(7, False), SPECS[7])
        self.assertNotEqual(SPECS[7], SPECS[8])
        self.assertGreater(len(random_pipelines.summary(SPECS[7])), 100)

    def test_diffusers_takes_every_pipeline(self):
        for spec in SPECS:
            unet, vae = spec["unet"], spec["vae"]
            channels, heads = unet["block_out_channels"], unet["attention_head_dim"]
            heads = heads if isinstance(heads, list) else [heads] * len(channels)
            attends = [name.startswith("Cross") for name in unet["down_block_types"]]
            attends = [a or name.startswith("Cross") for a, name in zip(attends, unet["up_block_types"][::-1], strict=True)][:-1] + [True]
            self.assertFalse(any(c % unet["norm_num_groups"] for c in channels), spec)
            self.assertFalse(any(a and c % h for a, c, h in zip(attends, channels, heads, strict=True)), spec)
            self.assertFalse(channels[0] % 2 or any(c % vae["norm_num_groups"] for c in vae["block_out_channels"]), spec)
            self.assertFalse(any(side < 1 or side * factor(spec) % 8 for side in spec["latents"]), spec)
            self.assertEqual(len(spec["prompts"]), len(spec["negative_prompts"]))
            self.assertFalse(spec["published_names"] and spec["files"]["vae"]["form"] == "shards", spec)

    def test_every_scheduler_is_drawn_with_every_spacing_and_prediction(self):
        drawn = {(name, spec["scheduler"]["prediction_type"]) for spec in SPECS for name in spec["schedulers"]}
        self.assertEqual({name for name, _ in drawn}, set(random_pipelines.schedulers()))
        self.assertEqual(len(drawn), 2 * len(random_pipelines.schedulers()))

    def test_numbers_of_steps_stay_where_the_formula_and_numpy_agree(self):
        self.assertEqual({spec["steps"] for spec in SPECS}, set(range(3, 21)))

    def test_skips_have_sides_that_are_not_twice_those_below(self):
        odd = [spec for spec in SPECS if any(side % 2 for side in spec["latents"])]
        self.assertGreater(len(odd), 60)
        self.assertGreater(sum(spec["latents"][0] > spec["latents"][1] for spec in odd), 20)

    def test_every_form_of_file_is_drawn_for_every_part(self):
        for part in random_pipelines.PARTS:
            drawn = {(spec["files"][part]["dtype"], spec["files"][part]["form"], spec["files"][part]["half_name"]) for spec in SPECS}
            self.assertEqual(len(drawn), 3 * 3 + 2, part)
