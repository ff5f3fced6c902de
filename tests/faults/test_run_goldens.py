# SPDX-License-Identifier: Apache-2.0
"""Contract 1, of whole runs: what `bascule run` logs and saves is what Transformers in float64 makes of the same weights, pictures, captions and order.

tests/data/run_goldens holds the truth and its limits; tools/make_run_goldens.py wrote them. Each head, one and two ranks: 8 updates with decay, clipping, warm-up, two micro-batches an
update and a smaller one at the end of the epoch.
"""
import json
import pathlib
import tempfile
import unittest

from bascule_run import ROOT, digest, instruction_sets, settings, run_ok
from run_files import scalars, tensors, weights

DATA = ROOT / "tests" / "data"


def relative_l2(ours, truth):
    return (sum((a - b) ** 2 for a, b in zip(ours, truth, strict=True)) / sum(b * b for b in truth)) ** 0.5


def places(kept):
    start, stop = kept.get("skip", (0, 0))
    return [at for at in range(0, kept["stop"], kept["step"]) if not start <= at < stop]


class RunGoldens(unittest.TestCase):
    def judge_log(self, case, output):
        for name in ("loss", "grad_norm"):
            logged = scalars(output, f"train/{name}")
            self.assertEqual(sorted(logged), list(range(1, 9)))
            for step, (truth, limit) in enumerate(zip(case["log"][name], case["limits"][name]), 1):
                self.assertLessEqual(abs(logged[step] / truth - 1), limit + 6e-8, f"{name} of step {step}")  # events hold float32
        rates = scalars(output, "train/learning_rate")
        for step, truth in enumerate(case["log"]["learning_rate"], 1):
            self.assertAlmostEqual(rates[step], truth, delta=6e-8 * truth)
        history = [entry for entry in json.loads((output / "trainer_state.json").read_text())["log_history"] if "learning_rate" in entry]
        self.assertEqual(len(history), 8)
        for entry, truth in zip(history, case["log"]["learning_rate"]):
            self.assertAlmostEqual(entry["learning_rate"], truth, delta=1e-14 * truth)

    def judge_parameters(self, name, case, output):
        ours, start = tensors(output / "model.safetensors"), weights(DATA / "goldens" / case["model"])
        expected = tensors(DATA / "run_goldens" / name / "expected.safetensors")
        self.assertEqual(sorted(ours), sorted(start))
        self.assertGreater(len(case["parameters"]), 40)
        for parameter, values in ours.items():
            if parameter in case["zero_gradient"]:  # Adam turns noise into steps
                moved = max(abs(a - b) for a, b in zip(values, start[parameter]))
                self.assertLessEqual(moved, 4 * case["sum_of_learning_rates"], parameter)
                continue
            if parameter not in case["parameters"]:
                self.assertEqual(values, start[parameter], f"{parameter} has no gradient")
                continue
            kept = case["parameters"][parameter]
            final, before = ([tensor[at] for at in places(kept)] for tensor in (values, start[parameter]))
            truth = expected[parameter]
            self.assertLessEqual(relative_l2(final, truth), kept["limit"], parameter)
            moves = ([a - b for a, b in zip(tensor, before)] for tensor in (final, truth))
            self.assertLessEqual(relative_l2(*moves), kept["update_limit"], f"movement of {parameter}")

    def judge_case(self, name):
        case = json.loads((DATA / "run_goldens" / name / "run.json").read_text())
        self.assertTrue(2 <= sum(case["log"]["clipped"]) <= 6)
        for way, keys in case["ways"].items():
            digests = set()
            for isa in instruction_sets() if way == "one rank" else ["auto"]:
                with self.subTest(way=way, isa=isa), tempfile.TemporaryDirectory() as folder:
                    toml = settings(folder, model__model_name_or_path=f'"{DATA}/goldens/{case["model"]}"', model__tokenizer_name=f'"{DATA}/run_goldens/tokenizer"', model__from_scratch=None,
                                    data__train_file=f'"{DATA}/run_goldens/rows.jsonl"', machine__isa=f'"{isa}"', **{**case["settings"], **keys})
                    run_ok("run", toml)
                    output = pathlib.Path(folder) / "run"
                    self.judge_log(case, output)
                    self.judge_parameters(name, case, output)
                    digests.add(digest(output / "model.safetensors"))
            self.assertEqual(len(digests), 1, f"{way}: the bits depend on the instruction set")

    def test_contrastive(self):
        self.judge_case("contrastive")

    def test_contrastive_with_negatives_of_each_rank(self):
        self.judge_case("contrastive_own_negatives")

    def test_parameter_groups(self):
        self.judge_case("groups")

    def test_image_text_matching(self):
        self.judge_case("matching")

    def test_masked_lm(self):
        self.judge_case("masked_lm")

    def test_masked_lm_with_a_tied_decoder(self):
        self.judge_case("masked_lm_tied")

    def test_image_text_matching_with_frozen_towers_and_labels_of_the_file(self):
        self.judge_case("matching_frozen")

    def test_masked_lm_with_smoothed_labels(self):
        self.judge_case("smoothing")
