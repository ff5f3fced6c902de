# SPDX-License-Identifier: Apache-2.0
"""A BERT learns a class or a value of texts: its figures, its folder, its bits, what it says of further texts, and what it refuses."""
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, digest, instruction_sets, patient, run, run_ends, run_ok, settings
from run_files import tensors

WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
NAMES = ["sky", "animal", "face"]
BEGINNINGS = {"sky": ("red sun", "new moon"), "animal": ("cat", "dog with a hat"), "face": ("face with tears", "smiling face")}


def write_rows(path, rows, seed, kind="names"):
    """Texts and pairs whose beginning says the class; as a value, 2.5 times the class and a bit less."""
    generator = random.Random(seed)
    captions = [json.loads(line)["caption"] for line in (EMOJI / "train.jsonl").read_text().splitlines()]
    with open(path, "w") as file:
        for _ in range(rows):
            name = generator.choice(NAMES)
            label = {"names": name, "numbers": NAMES.index(name), "values": NAMES.index(name) * 2.5 - 0.3}[kind]
            file.write(json.dumps({"text": f"{generator.choice(BEGINNINGS[name])} {generator.choice(captions)}", "other": generator.choice(captions), "class": label}) + "\n")


class SequenceClassification(FolderTest):
    def setUp(self):
        super().setUp()
        for kind in ("names", "values", "numbers"):
            for split, rows, seed in (("train", 240, 1), ("validation", 37, 2), ("test", 20, 3)):
                write_rows(self.folder / f"{kind}-{split}.jsonl", rows, seed, kind)

    def model_with(self, **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, folder)
        (folder / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "max_position_embeddings": 40, **members}))
        return folder

    def settings(self, name="one", model=None, kind="names", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return settings(folder, **{
            "model__model_name_or_path": f'"{model or self.model_with()}"', "model__tokenizer_name": None, "model__head": '"sequence_classification"', "data__train_file": f'"{self.folder}/{kind}-train.jsonl"',
            "data__text_column": '"text"', "data__label_column": '"class"', "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "6", **changes})

    def finished(self, name="one", **changes):
        done = run_ok("run", self.settings(name, **changes))
        return self.folder / name / "run", done

    def learned(self, kind, **changes):
        return self.finished(kind, kind=kind, training__max_steps="90", training__per_device_train_batch_size="16", training__learning_rate="2e-3", training__save_steps="0", training__warmup_ratio="0.2",
                             data__validation_file=f'"{self.folder}/{kind}-validation.jsonl"', data__test_file=f'"{self.folder}/{kind}-test.jsonl"', **changes)

    def rows_of(self, kind, split="test"):
        return [json.loads(line) for line in (self.folder / f"{kind}-{split}.jsonl").read_text().splitlines()]

    def test_learns_classes_and_says_so(self):
        folder, done = self.learned("names", training__metric_for_best_model='"macro_f1"', training__load_best_model_at_end="true", training__eval_strategy='"epoch"', training__save_strategy='"epoch"')
        results = json.loads((folder / "all_results.json").read_text())
        self.assertGreater(results["validation_accuracy"], 0.9)
        self.assertGreater(results["validation_matthews_correlation"], 0.8)
        self.assertNotIn("validation_f1", results)  # of two classes alone
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["BertForSequenceClassification"])
        self.assertEqual(config["id2label"], {"0": "animal", "1": "face", "2": "sky"})
        self.assertEqual(config["problem_type"], "single_label_classification")
        self.assertIn("new classifier", done.stderr)
        self.assertEqual(tensors(folder / "model.safetensors")["classifier.weight"].__len__(), 3 * 48)
        card = (folder / "README.md").read_text()
        self.assertIn("BertForSequenceClassification", card)
        self.assertIn("text-classification", card)
        rows, predicted = self.rows_of("names"), [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([(row["text"], row["class"]) for row in rows], [(row["text"], row["label_name"]) for row in predicted])
        right = sum(row["label_name"] == row["predicted"][0]["class_name"] for row in predicted)
        self.assertEqual(results["test_accuracy"], right / len(rows))
        self.assertAlmostEqual(sum(guess["probability"] for guess in predicted[0]["predicted"]), 1.0, places=5)
        page = (folder / "report.html").read_text()
        self.assertIn("Accuracy of each class", page)
        self.assertEqual("Worst mistakes" in page, right < len(rows))
        self.asks(folder, rows, predicted)

    def asks(self, folder, rows, predicted):
        """`bascule classify` says what the run has predicted, of one text and of lines."""
        one = run_ok("classify", folder, rows[0]["text"], "--json")
        answer = json.loads(one.stdout)["texts"]
        self.assertEqual([guess["label"] for guess in answer[0]["labels"]], [guess["class_name"] for guess in predicted[0]["predicted"]])
        self.assertAlmostEqual(answer[0]["labels"][0]["probability"], predicted[0]["predicted"][0]["probability"], places=5)
        lines = "".join(row["text"] + "\n" for row in rows)
        many = run("classify", folder, "-", "--top", "1", input=lines)
        shown = many.stdout.splitlines()
        self.assertEqual(shown[0::2], [row["text"] for row in rows])
        self.assertEqual([line.split("%  ")[1] for line in shown[1::2]], [row["predicted"][0]["class_name"] for row in predicted])
        # The run's rows had one text each: several arguments are several texts, and a tab is white space.
        texts = [row["text"] for row in rows[:11]]
        several = json.loads(run("classify", folder, *texts, "--json").stdout)["texts"]
        self.assertEqual([(row["text"], row["labels"][0]["label"]) for row in several], [(row["text"], row["predicted"][0]["class_name"]) for row in predicted[:11]])
        self.assertEqual(several[0], answer[0])
        alone, beside = (json.loads(run("classify", folder, "cat " * 20, *more, "--json").stdout)["texts"] for more in ((), ("a",)))
        self.assertEqual(beside[0], alone[0])  # a longer text before a short one
        tab, space = json.loads(run("classify", folder, "-", "--json", input="cat\ta dog\ncat a dog\n").stdout)["texts"]
        self.assertEqual((tab["text"], tab["labels"]), ("cat\ta dog", space["labels"]))
        # A folder that no run left may be of a model of pairs: two texts are one.
        foreign = self.folder / "foreign"
        shutil.copytree(folder, foreign, ignore=shutil.ignore_patterns("bascule.json", "checkpoint-*"))
        pair = json.loads(run("classify", foreign, "cat", "a dog", "--json").stdout)["texts"][0]
        self.assertEqual((pair["text"], pair["text_pair"]), ("cat", "a dog"))
        self.assertEqual(json.loads(run("classify", foreign, "-", "--json", input="cat\ta dog\n").stdout)["texts"], [pair])
        self.assertNotEqual(json.loads(run("classify", foreign, "cat", "--json").stdout)["texts"][0]["labels"], pair["labels"])
        self.assertEqual(json.loads(run("classify", foreign, "-", "a dog", "--json", input="cat\n").stdout)["texts"][0]["text"], "-")
        self.assertEqual(run("classify", foreign, "a", "b", "c").returncode, 2)
        # A path is words, which is said.
        path = str(EMOJI / "train.jsonl")
        done = run("classify", folder, path, "--json")
        self.assertEqual((done.returncode, json.loads(done.stdout)["texts"][0]["text"]), (0, path))
        self.assertEqual(done.stderr, f'bascule: the model reads texts: "{path}" is taken as words, and the file of that name is not read\n')
        long = run("classify", folder, "cät " * 4000).stdout.splitlines()
        self.assertEqual(long[0], "cät " * 48 + "...")
        cut = run("classify", folder, "cat " * 60)
        self.assertIn("has 62 tokens and is cut to 32", cut.stderr)
        bad = subprocess.run([str(PROGRAM), "classify", str(folder), "-"], input=b"cat\n\xff\n", capture_output=True, timeout=patient(60))
        self.assertEqual(bad.returncode, 3)
        self.assertIn(b"line 2", bad.stderr)
        self.assertEqual(len(bad.stdout.splitlines()), 4)
        for line, place in ((b"cat\ta\xff\n", b"line 1: byte 1 of the second text"), (b"c\xfft\ta\n", b"line 1: byte 1 of the first text")):
            pair = subprocess.run([str(PROGRAM), "classify", str(foreign), "-"], input=line, capture_output=True, timeout=patient(60))
            self.assertIn(place, pair.stderr)
        empty = run("classify", folder, "-", input="\n")
        self.assertEqual((empty.returncode, len(empty.stdout.splitlines())), (0, 4), empty.stderr)

    def test_learns_values_and_says_so(self):
        folder, done = self.learned("values")
        results = json.loads((folder / "all_results.json").read_text())
        self.assertGreater(results["validation_pearson"], 0.8)
        self.assertAlmostEqual(results["validation_mse"], results["validation_loss"], places=5)
        self.assertAlmostEqual(results["validation_combined_score"], (results["validation_pearson"] + results["validation_spearmanr"]) / 2, places=12)
        self.assertNotIn("validation_accuracy", results)
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["problem_type"], config["id2label"]), ("regression", {"0": "LABEL_0"}))
        self.assertIn("regression", done.stderr)
        rows, predicted = self.rows_of("values"), [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([row["class"] for row in rows], [row["label"] for row in predicted])
        error = sum((row["label"] - row["predicted"]) ** 2 for row in predicted) / len(rows)
        self.assertAlmostEqual(results["test_mse"], error, places=6)
        self.assertIn("Worst mistakes", (folder / "report.html").read_text())
        answer = json.loads(run("classify", folder, rows[0]["text"], "--json").stdout)["texts"][0]
        self.assertAlmostEqual(answer["value"], predicted[0]["predicted"], places=5)
        shown = run("classify", folder, rows[0]["text"]).stdout.splitlines()
        self.assertAlmostEqual(float(shown[1]), predicted[0]["predicted"], places=2)
        # Integers of another split are values as well.
        integers = self.folder / "integers.jsonl"
        integers.write_text("".join(json.dumps({**row, "class": round(row["class"]) - 3}) + "\n" for row in rows))
        checked, _ = self.finished("checked", kind="values", training__max_steps="2", data__validation_file=f'"{integers}"')
        self.assertIn("validation_mse", json.loads((checked / "all_results.json").read_text()))
        # Its folder goes on with integers, which are values there, and starts a run of classes.
        again, again_said = self.finished("again", model=folder, model__from_scratch="false", data__train_file=f'"{integers}"')
        self.assertEqual(json.loads((again / "config.json").read_text())["problem_type"], "regression")
        self.assertNotIn("initialised", again_said.stderr)
        named, done = self.finished("named", model=folder, model__from_scratch="false")
        self.assertEqual(json.loads((named / "config.json").read_text())["problem_type"], "single_label_classification")
        self.assertIn("in place of the folder's regression", done.stderr)

    def test_a_pretrained_encoder_gets_a_classifier(self):
        captions = f'"{EMOJI}/train.jsonl"'
        start, _ = self.finished("masked", model__head='"masked_lm"', data__label_column=None, data__text_column='"caption"', data__train_file=captions)
        folder, done = self.finished("after", model=start, model__from_scratch="false", training__learning_rate="1e-30")
        before, behind = tensors(start / "model.safetensors"), tensors(folder / "model.safetensors")
        names = {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias"}
        self.assertEqual(set(behind) - set(before), names)
        self.assertEqual(behind["bert.embeddings.word_embeddings.weight"], before["bert.embeddings.word_embeddings.weight"])
        self.assertIn("not used: ", done.stderr)
        self.assertIn("using the 3 classes of the training data (animal, face, sky) and a new classifier", done.stderr)
        for name in ("bert.pooler.dense.weight", "bert.pooler.dense.bias"):
            self.assertIn(f"{name} missing from the checkpoint; initialised", done.stderr)
        again, done = self.finished("again", model=folder, model__from_scratch="false", training__learning_rate="1e-30")
        self.assertEqual(tensors(again / "model.safetensors")["classifier.weight"], behind["classifier.weight"])  # the same classes: nothing is new
        self.assertNotIn("initialised", done.stderr)
        self.assertEqual(run("classify", start, "cat").returncode, 3)  # its head was never trained

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        model = self.model_with()
        for kind, precision in (("names", "float32"), ("names", "bf16"), ("values", "float32")):
            common = {"model": model, "kind": kind, "model__precision": f'"{precision}"', "data__text_pair_column": '"other"', "training__gradient_accumulation_steps": "2"}
            weights = lambda name, **changes: digest(self.finished(f"{kind}-{precision}-{name}", **common, **changes)[0] / "model.safetensors")
            whole = weights("whole")
            with self.subTest(kind=kind, precision=precision):
                for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("recomputed", {"training__gradient_checkpointing": '"full"'}),
                                      *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    self.assertEqual(weights(name, **changes), whole, name)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                self.assertEqual(weights("ranks", **ranks), weights("sharded", **ranks, distributed__distribution_strategy='"sharded"'))
                weights("parts", training__max_steps="4", training__lr_schedule_steps="6")
                self.assertEqual(weights("parts", training__lr_schedule_steps="6"), whole)

    def test_pairs_are_another_input_than_single_texts(self):
        test = {"model": self.model_with(initializer_range=0.2), "data__test_file": f'"{self.folder}/names-test.jsonl"'}
        alone, _ = self.finished("alone", **test)
        both, _ = self.finished("both", data__text_pair_column='"other"', **test)
        self.assertNotEqual(digest(alone / "model.safetensors"), digest(both / "model.safetensors"))
        rows = [json.loads(line) for line in (both / "predictions.jsonl").read_text().splitlines()]
        asked = run("classify", both, "-", "--json", input="".join(f"{row['text']}\t{row['text_pair']}\n" for row in rows))
        for row, answer in zip(rows, json.loads(asked.stdout)["texts"], strict=True):
            self.assertEqual([guess["class_name"] for guess in row["predicted"]], [guess["label"] for guess in answer["labels"]])
            for ours, theirs in zip(row["predicted"], answer["labels"]):
                self.assertAlmostEqual(ours["probability"], theirs["probability"], places=5)
        pair = json.loads(run("classify", both, rows[0]["text"], rows[0]["text_pair"], "--json").stdout)["texts"]
        self.assertEqual([(one["text"], one["text_pair"], one["labels"][0]["label"]) for one in pair], [(rows[0]["text"], rows[0]["text_pair"], rows[0]["predicted"][0]["class_name"])])
        self.assertIn("the model reads pairs", run("classify", both, "a", "b", "c").stderr)

    def test_the_classifier_has_a_rate_of_dropout_of_its_own(self):
        digests = {digest(self.finished(f"rate{rate}", model=self.model_with(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=rate))[0] / "model.safetensors")
                   for rate in (0.0, 0.5, None)}
        self.assertEqual(len(digests), 2)  # without one it is that of the layers, which is 0

    def test_every_command_takes_the_run(self):
        model = self.model_with(id2label={str(number): name for number, name in enumerate(NAMES)})
        toml = self.settings(model=model, data__validation_file=f'"{self.folder}/names-validation.jsonl"')
        plan = json.loads(run("plan", toml, "--json", "--inputs").stdout)
        self.assertIn("names-train.jsonl", json.dumps(plan["inputs"]))
        self.assertIn("sequence_classification", run("settings", toml).stdout)
        for use in ([], ["--use", "evaluate"]):
            run_ok("bench", toml, "--steps", "2", *use)
        # The evaluation alone, where the training data says that labels are values.
        done = run_ok("bench", self.settings("evaluated", kind="values", data__test_file=f'"{self.folder}/values-test.jsonl"'), "--steps", "1", "--use", "evaluate")
        self.assertIn("with a new regression head", done.stderr)
        run_ok("run", toml)
        run_ok("reproduce", self.folder / "one" / "run", "--output", self.folder / "repeated")

    def test_what_has_no_best_is_no_metric_to_choose_by(self):
        judged = {"data__validation_file": f'"{self.folder}/names-validation.jsonl"', "training__eval_strategy": '"steps"', "training__eval_steps": "2"}
        for name in ("f1", "combined_score"):
            done = run_ends(2, "run", self.settings("refused", training__metric_for_best_model=f'"{name}"', **judged))
            self.assertIn(f'training.metric_for_best_model = "{name}" needs 2 classes, but the model has 3; choose one of: loss, accuracy, macro_f1 or matthews_correlation', done.stderr)
        rows = [{**row, "class": 1.5} for row in self.rows_of("values", "validation")]
        (self.folder / "equal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        best = {**judged, "data__validation_file": f'"{self.folder}/equal.jsonl"', "training__metric_for_best_model": '"pearson"', "training__greater_is_better": "true"}
        last = self.settings("last", kind="values", training__max_steps="2", **best)
        for start in range(2):  # its checkpoint is kept: another start finds the same
            done = run_ends(3, "run", last)
        done = run("run", self.settings("last", kind="values", training__max_steps="2", **{**best, "training__metric_for_best_model": '"loss"', "training__greater_is_better": "false"}))
        self.assertIn("nothing left to train, and no best checkpoint was kept; keeping the last weights", done.stderr)
        done = run_ends(3, "run", self.settings("refused", kind="values", **best))
        self.assertRegex(done.stderr.splitlines()[-1], r"^bascule: \S*equal.jsonl: the evaluation after update 2 has no pearson, by which the best is chosen; choose another training.metric_for_best_model")
        self.assertNotIn("-1", done.stderr)
        # Once there is a best, an evaluation without the figure is none: so large a rate makes all predictions equal.
        folder, done = self.finished("lost", kind="values", training__max_steps="4", training__learning_rate="0.3", training__lr_scheduler_type='"constant"',
                                     **{**best, "data__validation_file": f'"{self.folder}/values-validation.jsonl"', "training__eval_steps": "1"})
        found = [line["step"] for line in map(json.loads, (folder / "log.jsonl").read_text().splitlines()) if "eval_pearson" in line]
        self.assertTrue(0 < len(found) < 4, found)
        self.assertEqual(json.loads((folder / "trainer_state.json").read_text())["best_global_step"], found[0])

    def test_what_does_not_fit_is_refused(self):
        rows = [json.loads(line) for line in (self.folder / "names-train.jsonl").read_text().splitlines()]
        data = lambda name, change: (self.folder / f"{name}.jsonl").write_text("".join(json.dumps({**row, "class": change(number, row)}) + "\n" for number, row in enumerate(rows))) and {
            "data__train_file": f'"{self.folder}/{name}.jsonl"'}
        values_model = self.model_with(num_labels=1)
        for changes, said in (
                ({"data__label_column": None}, "data.label_column is not set"),
                ({"data__label_column": '"label"'}, 'no column "label"'),
                (data("several", lambda number, row: [0, 2]), "several labels at once are not supported"),
                (data("one", lambda number, row: 1), "all rows have the same class"),
                (data("mixed", lambda number, row: 1 if number > 3 else "a"), 'is a number, but "a" of '),
                ({"data__validation_file": f'"{self.folder}/values-validation.jsonl"'}, "labels are values, but those of"),
                ({"kind": "numbers", "data__validation_file": f'"{self.folder}/names-validation.jsonl"'}, "labels are names, but those of"),
                ({"kind": "values", "training__label_smoothing_factor": "0.1"}, "the labels are values, not classes"),
                ({"model": self.model_with(problem_type="multi_label_classification")}, "multi_label_classification"),
                ({"model": values_model, "training__do_train": "false", "data__train_file": None, "data__validation_file": f'"{self.folder}/names-validation.jsonl"'}, "the model predicts values"),
                ({"training__do_train": "false", "data__train_file": None, "data__validation_file": f'"{self.folder}/values-validation.jsonl"'}, "the model has classes"),
                ({"training__metric_for_best_model": '"pearson"', "training__eval_strategy": '"epoch"', "data__validation_file": f'"{self.folder}/names-validation.jsonl"'}, "pearson"),
                ({"data__train_file": f'"{ROOT}/tests/data/text-corpus/validation.txt"'}, "is a text corpus"),
                ({"data__text_pair_column": '"text"'}, "must be different columns"),
                ({"model": self.model_with(type_vocab_size=1), "data__text_pair_column": '"other"'}, "token type")):
            with self.subTest(said):
                done = run("run", self.settings("refused", **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1])
