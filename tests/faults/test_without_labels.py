# SPDX-License-Identifier: Apache-2.0
"""A test file without labels gets predictions: of every head whose rows have labels, and in every form that says that there are none."""
import json

from bascule_run import EMOJI, ROOT, FolderTest, run, settings, run_ok
from relatives import write_relatives, write_values, write_words

DATA = ROOT / "tests" / "data"
RUN_FIGURES = {"epoch", "eval_runtime", "eval_samples", "eval_samples_per_second", "eval_steps_per_second", "memory_allocated (GB)", "max_memory_allocated (GB)", "total_memory_available (GB)"}


class WithoutLabels(FolderTest):
    def setUp(self):
        super().setUp()
        write_relatives(self.folder)
        self.runs, self.known = 0, None

    def rows_of(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def write(self, name, rows):
        (self.folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return name

    def settings(self, **changes):
        return settings(self.folder, **{
            "model__model_name_or_path": '"bert"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "data__preprocessing": None, "media_engine__memory_mib": None,
            "data__max_seq_length": "16", "training__max_steps": "1", "training__save_steps": "0", "training__per_device_train_batch_size": "4", "training__num_train_epochs": None, **changes})

    def predict(self, test, **changes):
        """The run's folder, what it says, and its settings."""
        self.runs += 1
        folder = self.folder / f"run-{self.runs}"
        toml = self.settings(data__train_file='"train.jsonl"', data__test_file=f'"{test}"', training__output_dir=f'"{folder}"', **changes)
        done = run_ok("run", toml)
        return folder, done, toml

    def lines_and_figures(self, folder):
        return self.rows_of(f"{folder.name}/predictions.jsonl"), json.loads((folder / "test_results.json").read_text())

    def predicted(self, rows, test, **changes):
        """Predictions for the test file of a run that trains on the rows: those for the same rows with labels, and nothing is said of these."""
        if self.known is None:
            self.write("train.jsonl", rows)
            self.known = self.lines_and_figures(self.predict("train.jsonl", **changes)[0])
        whole, known = self.known
        folder, done, toml = self.predict(test, **changes)
        bare, figures = self.lines_and_figures(folder)
        self.assertEqual(set(figures), RUN_FIGURES)
        self.assertGreater(set(known), RUN_FIGURES)
        self.assertRegex(done.stderr, rf"bascule: data: .*/{test} has no (labels|targets): writing predictions without metrics\n")
        self.assertRegex(done.stderr, r"bascule: test: step 1  \(\d+ samples in ")
        self.assertNotIn("nan", done.stdout + done.stderr)
        self.assertNotIn("test loss", done.stdout)
        for file in ("report.html", "README.md", "all_results.json", "log.jsonl"):
            self.assertNotIn("nan", (folder / file).read_text().replace("nance", ""), file)
        for command in (["reproduce", folder, "--check"], ["doctor", toml]):
            done = run_ok(*command)
            self.assertNotIn("different labels", done.stdout)
            self.assertNotIn("have no words", done.stdout)
        for one, other in zip(whole, bare, strict=True):
            self.assertTrue(set(other) < set(one), (one, other))
            self.assertEqual({key: one[key] for key in other}, other)
        return bare

    def test_classes_of_texts_in_every_form(self):
        rows = [{"text": f"{word} file {number}", "label": label} for number, (word, label) in enumerate([("open", "red"), ("close", "green"), ("read", "blue")] * 2)]
        head = {"model__head": '"sequence_classification"', "data__text_column": '"text"', "data__label_column": '"label"'}
        for rest in ({"label": -1}, {"label": None}):
            lines = self.predicted(rows, self.write("test.jsonl", [{"text": row["text"], **rest} for row in rows]), **head)
            self.assertEqual(set(lines[0]), {"row", "text", "predicted"})
        for column, label in (("", ""), (",label", ",-1")):
            (self.folder / "test.csv").write_text(f"text{column}\n" + "".join(f"{row['text']}{label}\n" for row in rows))
            self.assertEqual(self.predicted(rows, "test.csv", **head), lines)
        # Some labels are a mistake, and a file for training or validation has them.
        mixed = self.write("mixed.jsonl", [{"text": "a", "label": "red"}, {"text": "b", "label": -1}])
        done = run("run", self.settings(data__train_file='"train.jsonl"', data__test_file=f'"{mixed}"', **head))
        self.assertEqual((done.returncode, "mixed.jsonl:2: has no label, but the rows before have" in done.stderr), (3, True), done.stderr)
        done = run("run", self.settings(data__train_file='"train.jsonl"', data__validation_file='"test.jsonl"', **head))
        self.assertIn('label "label" is null', done.stderr)
        self.write("test.jsonl", [{"text": row["text"]} for row in rows])
        done = run("run", self.settings(data__train_file='"train.jsonl"', data__validation_file='"test.jsonl"', **head))
        self.assertIn('no column "label"', done.stderr)

    def test_values(self):
        write_values(self.folder / "values.jsonl", 12)
        rows = self.rows_of("values.jsonl")
        head = {"model__head": '"sequence_classification"', "data__text_column": '"text"', "data__text_pair_column": '"text_pair"', "data__label_column": '"label"'}
        for bare in ([{**row, "label": -1.0} for row in rows], [{"text": row["text"], "text_pair": row["text_pair"]} for row in rows]):
            lines = self.predicted(rows, self.write("test.jsonl", bare), **head)
        self.assertEqual(set(lines[0]), {"row", "text", "text_pair", "predicted"})
        reports = [(self.folder / f"run-{number}/report.html").read_text() for number in (1, 2, 3)]
        self.assertEqual(["furthest from their labels" in report for report in reports], [True, False, False])

    def test_tags(self):
        write_words(self.folder / "words.jsonl", 12)
        rows = self.rows_of("words.jsonl")
        head = {"model__head": '"token_classification"', "data__text_column": '"tokens"', "data__label_column": '"tags"', "data__label_all_tokens": "true"}
        for bare in ([{"tokens": row["tokens"]} for row in rows], [{"tokens": row["tokens"], "tags": [-1] * len(row["tokens"])} for row in rows]):
            lines = self.predicted(rows, self.write("test.jsonl", bare), **head)
        self.assertEqual(set(lines[0]), {"row", "words", "predicted", "probability"})

    def test_pictures(self):
        classes = DATA / "emoji-classes"
        rows = [{"image": str(classes / row["image"]), "label": row["label"]} for row in map(json.loads, (classes / "test.jsonl").read_text().splitlines()[:8])]
        pictures = {"model__model_name_or_path": f'"{classes}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": '"label"', "data__preprocessing": '"training"'}
        lines = self.predicted(rows, self.write("test.jsonl", [{"image": row["image"]} for row in rows]), **pictures)
        self.assertEqual(set(lines[0]), {"row", "image", "predicted"})

    def test_pictures_with_captions(self):
        rows = [{"image": str(EMOJI / row["image"]), "caption": row["caption"], "label": number % 2} for number, row in enumerate(map(json.loads, (EMOJI / "test.jsonl").read_text().splitlines()[:8]))]
        pairs = {"model__model_name_or_path": f'"{EMOJI}/tiny_model"', "model__tokenizer_name": f'"{EMOJI}/tokenizer"', "model__head": '"image_text_matching"', "data__label_column": '"label"',
                 "data__preprocessing": '"training"'}
        lines = self.predicted(rows, self.write("test.jsonl", [{"image": row["image"], "caption": row["caption"]} for row in rows]), **pairs)
        self.assertEqual(set(lines[0]), {"row", "image", "caption", "predicted", "probability"})

    def test_next_sentences(self):
        rows = [{"first": f"open file {number}", "second": "read it", "label": 1} for number in range(8)]
        pairs = {"model__head": '"pretraining"', "data__text_column": '"first"', "data__text_pair_column": '"second"', "data__label_column": '"label"'}
        bare = self.write("test.jsonl", [{"first": row["first"], "second": row["second"]} for row in rows])
        toml = self.settings(data__train_file=f'"{self.write("train.jsonl", rows)}"', data__test_file=f'"{bare}"', training__learning_rate="0.01", **pairs)
        run_ok("run", toml)
        line = self.rows_of("run/predictions.jsonl")[0]
        self.assertEqual(set(line["next_sentence"]), {"predicted", "probability"})
        self.assertEqual(line["next_sentence"]["predicted"], 1)
        self.assertGreaterEqual(line["next_sentence"]["probability"], 0.5)
        self.assertNotIn("The second text", (self.folder / "run/report.html").read_text())
        self.assertEqual(set(json.loads((self.folder / "run/test_results.json").read_text())), RUN_FIGURES)

    def test_targets(self):
        keywords = DATA / "emoji-keywords"
        rows = [json.loads(line) for line in (keywords / "test.jsonl").read_text().splitlines()[:8]]
        texts = {"model__model_name_or_path": f'"{keywords}/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/unigram"', "data__text_column": '"text"', "data__summary_column": '"summary"',
                 "data__max_source_length": "12", "data__max_target_length": "6", "data__max_seq_length": None, "training__predict_with_generate": "true"}
        lines = self.predicted(rows, self.write("test.jsonl", [{"text": row["text"]} for row in rows]), **texts)
        self.assertEqual(set(lines[0]), {"row", "text", "generated", "tokens", "score"})
        said = self.predict("test.jsonl", **{**texts, "training__predict_with_generate": None})[1].stderr
        self.assertIn("test.jsonl has no targets: set training.predict_with_generate = true to write texts for it\n", said)
