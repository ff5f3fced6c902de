# SPDX-License-Identifier: Apache-2.0
"""[[training.groups]] of whole runs: freezing by pattern saves what freezing by part does, a group without effect is refused, and a run goes on with the same groups only.

That trained parameters are those of PyTorch with the same groups is tested in test_run_goldens.py.
"""
import json
import pathlib
import re
import tempfile
import unittest

from bascule_run import ROOT, run, run_ends, run_ok, settings
from run_files import tensors

DATA = ROOT / "tests" / "data"
MODEL = {"model__model_name_or_path": f'"{DATA}/goldens/itc_add"', "model__tokenizer_name": f'"{DATA}/run_goldens/tokenizer"', "model__from_scratch": None,
         "data__train_file": f'"{DATA}/run_goldens/rows.jsonl"', "data__max_seq_length": "16", "data__preprocessing": '"training"', "training__max_steps": "2",
         "training__per_device_train_batch_size": "4", "training__save_steps": "0"}


class Groups(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def settings(self, groups, **changes):
        return settings(self.folder.name, **{**MODEL, "training__groups": groups, **changes})

    def refusal(self, groups):
        done = run_ends(2, "run", self.settings(groups))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(list(pathlib.Path(self.folder.name).glob("run/*")), [])
        return done.stderr

    def plan(self, groups, **changes):
        done = run_ok("plan", "--json", self.settings(groups, **changes))
        return json.loads(done.stdout)

    def test_freezing_by_pattern_saves_the_memory_that_freezing_by_part_does(self):
        by_part = self.plan(None, model__freeze='["vision_model", "text_pooler"]')
        by_pattern = self.plan('[{match = "vision_model.*", freeze = true}]')
        self.assertEqual(by_pattern["categories"], by_part["categories"])
        self.assertLess(by_pattern["peak_bytes"], self.plan(None)["peak_bytes"])

    def test_frozen_tensors_keep_their_bits_and_others_move(self):
        self.assertEqual(run("run", self.settings('[{match = "*.bias", freeze = true}]')).returncode, 0)
        before, after = tensors(DATA / "goldens" / "itc_add" / "model.safetensors"), tensors(pathlib.Path(self.folder.name) / "run" / "model.safetensors")
        for name in ("bridgetower.cross_modal_text_layers.0.attention.self.query.", "bridgetower.vision_model.visual.transformer.resblocks.0.ln_1.", "itc_text_head.fc."):
            self.assertEqual(after[name + "bias"], before[name + "bias"])
            self.assertNotEqual(after[name + "weight"], before[name + "weight"])

    def test_a_group_without_effect_is_refused(self):
        advice = re.search(r'"cross_model\*" matches no tensor that this head uses; .*such as "([\w.]+)", in which', self.refusal('[{match = "cross_model*"}]'))
        self.assertIn(advice[1], tensors(DATA / "goldens" / "itc_add" / "model.safetensors"))  # no pattern that may match nothing, as "*.bias" in T5
        self.assertIn('"*.query.bias" matches only tensors of earlier groups', self.refusal('[{match = "*.bias"}, {match = "*.query.bias"}]'))

    def test_a_part_of_a_matrix_product_is_not_frozen_alone(self):
        error = self.refusal('[{match = "*.text_model.encoder.layer.0.*.query.*", freeze = true}]')
        self.assertIn("query", error)
        self.assertIn("freeze both or neither", error)

    def test_a_run_that_trains_nothing_is_refused(self):
        self.assertIn("leave nothing to train", self.refusal('[{match = "*", freeze = true}]'))

    def test_a_run_goes_on_with_the_same_groups_only(self):
        groups = '[{match = "cross_modal*", learning_rate_multiplier = 2.0}]'
        self.assertEqual(run("run", self.settings(groups)).returncode, 0)
        done = run_ends(2, "run", self.settings('[{match = "cross_modal*", learning_rate_multiplier = 3.0}]', training__max_steps="4"))
        self.assertIn("training.groups", done.stderr)
        self.assertIn("learning_rate_multiplier = 2.0", done.stderr)
        self.assertIn("learning_rate_multiplier = 3.0", done.stderr)
        done = run_ok("run", self.settings(groups, training__max_steps="4"))
        self.assertIn("from checkpoint-2", done.stderr)
