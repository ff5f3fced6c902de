# SPDX-License-Identifier: Apache-2.0
"""predictions.jsonl: what Transformers in float64 predicts of the same rows, and what the figures of test_results.json are made of.

tests/data/run_goldens/predictions.json holds the truth; tools/make_prediction_goldens.py wrote it.
"""
import json
import math
import pathlib

from bascule_run import FolderTest, run_ok
from small_run import DATA, ROWS, TOKENIZER, small_settings, write_rows

GOLDEN = json.loads((DATA / "run_goldens" / "predictions.json").read_text())
VOCABULARY = {id: token for token, id in json.loads((TOKENIZER / "vocab.json").read_text()).items()}
MATCHING, MASKED_LM = "matching", "masked_lm"
TWO_RANKS = {"distributed__world_size": "2"}


def area_under_curve(lines):
    positive, negative = ([line["probability"] for line in lines if line["matched"] == matched] for matched in (True, False))
    wins = sum((a > b) + 0.5 * (a == b) for a in positive for b in negative)
    return wins / (len(positive) * len(negative))


class Predictions(FolderTest):
    def predict(self, case, name="one", **changes):
        """The text of the file and test_results.json of a run that only predicts, in batches of 4."""
        folder = self.folder / name
        folder.mkdir()
        changes = {"data__train_file": None, "training__do_train": "false", "data__test_file": f'"{DATA}/run_goldens/rows.jsonl"', "training__per_device_eval_batch_size": "4",
                   "model__head": f'"{GOLDEN[case]["head"]}"', "training__seed": str(GOLDEN["seed"]), **changes}
        run_ok("run", small_settings(folder, GOLDEN[case]["model"], **changes))
        self.assertEqual([path.name for path in (folder / "run").glob(".tmp*")], [])
        of_model = {"config.json", "model.safetensors", "vocab.json", "preprocessor_config.json", "README.md"}
        left = {path.name for path in (folder / "run").iterdir()} & of_model
        self.assertEqual(left, of_model if changes["training__do_train"] == "true" else set())  # a copy of what was trained
        return (folder / "run/predictions.jsonl").read_text(), json.loads((folder / "run/test_results.json").read_text())

    def check_lines(self, case, lines, rows):
        """rows: number in the file and row of ROWS."""
        self.assertEqual(len(lines), len(rows))
        for line, (number, of_golden) in zip(lines, rows):
            truth = GOLDEN[case]["rows"][of_golden]
            shown = ROWS[truth["caption_row"]] if case == MATCHING else ROWS[of_golden]
            self.assertEqual((line["row"], line["caption"]), (number, shown["caption"]))
            self.assertEqual(pathlib.Path(line["image"]).name, pathlib.Path(ROWS[of_golden]["image"]).name)
            if case == MATCHING:
                self.assertEqual(list(line), ["row", "image", "caption", "matched", "predicted", "probability"])
                self.assertEqual((line["matched"], line["predicted"]), (truth["matched"], truth["predicted"]))
                self.assertAlmostEqual(line["probability"], truth["probability"], delta=2e-6)
                continue
            self.assertEqual(list(line), ["row", "image", "caption", "tokens"])
            self.assertEqual(len(line["tokens"]), len(truth))
            for token, (position, expected, predicted, probability) in zip(line["tokens"], truth):
                self.assertEqual(list(token), ["position", "expected", "predicted", "probability", "guesses"])
                guesses, shares = zip(*[(guess["token"], guess["probability"]) for guess in token["guesses"]])
                self.assertEqual((len(guesses), guesses[0], sorted(shares, reverse=True)), (5, token["predicted"], list(shares)))
                self.assertLess(sum(shares), 1 + 1e-6)
                if token["expected"] in guesses:
                    self.assertEqual(shares[guesses.index(token["expected"])], token["probability"])
                self.assertEqual(token["position"], position)
                self.assertEqual((token["expected"], token["predicted"]), (VOCABULARY.get(expected), VOCABULARY.get(predicted)))
                self.assertAlmostEqual(token["probability"] / probability, 1.0, delta=1e-5)

    def check_figures(self, case, lines, results):
        """smoothing is 0"""
        judged = lines if case == MATCHING else [token for line in lines for token in line["tokens"]]
        right = [one["matched"] == one["predicted"] if case == MATCHING else one["expected"] == one["predicted"] for one in judged]
        self.assertAlmostEqual(results["eval_accuracy"], sum(right) / len(right), places=12)
        of_label = [1 - one["probability"] if case == MATCHING and not one["matched"] else one["probability"] for one in judged]
        self.assertAlmostEqual(results["eval_loss"], -math.fsum(map(math.log, of_label)) / len(of_label), delta=2e-6)
        if case == MATCHING:
            self.assertAlmostEqual(results["eval_auc"], area_under_curve(lines), places=12)
        else:
            self.assertAlmostEqual(results["eval_perplexity"], math.exp(results["eval_loss"]), places=9)
        self.assertEqual(results["eval_samples"], len(lines))

    def test_are_those_of_transformers_and_of_the_results(self):
        for case in (MATCHING, MASKED_LM):
            with self.subTest(case=case):
                text, results = self.predict(case, case)
                lines = [json.loads(line) for line in text.splitlines()]
                self.check_lines(case, lines, [(row, row) for row in range(len(ROWS))])
                self.check_figures(case, lines, results)
                self.assertAlmostEqual(results["eval_loss"], GOLDEN[case]["loss"], delta=1e-5)
                self.assertEqual(json.loads(text.splitlines()[0])["image"], ROWS[0]["image"])

    def test_are_the_same_of_two_ranks(self):
        for case in (MATCHING, MASKED_LM):
            with self.subTest(case=case):
                self.assertEqual(self.predict(case, f"{case} one")[0], self.predict(case, f"{case} two", **TWO_RANKS)[0])

    def test_leave_out_rows_that_were_skipped(self):
        """The captions of matching are those of rows with labels: a foreign one depends on how many rows there are."""
        (self.folder / "cut.jpg").write_bytes((DATA / "run_goldens" / ROWS[0]["image"]).read_bytes()[:300])
        bad = [2, 4, 5, 6, 7, 14]  # of a batch one, all, and the file's last row
        rows = [{**row, "image": str(self.folder / "cut.jpg")} if number in bad else row for number, row in enumerate(ROWS)]
        manifest = write_rows(self.folder / "bad.jsonl", rows)
        for case, changes in ((MATCHING, {"data__label_column": '"label"'}), (MASKED_LM, {})):
            for ways in ({}, TWO_RANKS):
                with self.subTest(case=case, ways=ways):
                    text, results = self.predict(case, f"{case} {len(ways)}", data__test_file=manifest, data__on_bad_sample='"skip"', **changes, **ways)
                    lines = [json.loads(line) for line in text.splitlines()]
                    judged = [number for number in range(len(ROWS)) if number not in bad]
                    self.assertEqual([line["row"] for line in lines], judged)
                    self.check_figures(case, lines, results)
                    if case == MASKED_LM:
                        self.check_lines(case, lines, [(number, number) for number in judged])
                    else:
                        self.assertEqual([(line["caption"], line["matched"]) for line in lines], [(ROWS[number]["caption"], ROWS[number]["label"] == 1) for number in judged])

    def test_the_loss_of_an_evaluation_is_smoothed_as_that_of_trainer(self):
        for case in (MATCHING, MASKED_LM):
            with self.subTest(case=case):
                text, results = self.predict(case, f"{case} smoothed", training__label_smoothing_factor=str(GOLDEN["smoothing"]))
                self.assertAlmostEqual(results["eval_loss"], GOLDEN[case]["smoothed_loss"], delta=1e-5)
                self.check_lines(case, [json.loads(line) for line in text.splitlines()], [(row, row) for row in range(len(ROWS))])

    def test_are_of_the_test_file_alone_and_of_the_weights_that_the_run_ends_with(self):
        """After training with evaluations of a longer file on the way."""
        training = {"data__train_file": f'"{DATA}/run_goldens/rows.jsonl"', "training__do_train": "true", "training__learning_rate": "1e-2", "training__eval_steps": "1"}
        files = {"data__validation_file": f'"{DATA}/run_goldens/rows.jsonl"', "data__test_file": write_rows(self.folder / "test.jsonl", ROWS[:6])}
        for case in (MATCHING, MASKED_LM):
            with self.subTest(case=case):
                text, results = self.predict(case, case, **training, **files)
                lines = [json.loads(line) for line in text.splitlines()]
                self.assertEqual([line["row"] for line in lines], list(range(6)))
                self.check_figures(case, lines, results)
                again, _ = self.predict(case, f"{case} again", model__model_name_or_path=f'"{self.folder}/{case}/run"', data__test_file=files["data__test_file"])
                self.assertEqual(again, text)
