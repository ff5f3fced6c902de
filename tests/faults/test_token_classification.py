# SPDX-License-Identifier: Apache-2.0
"""BERT, RoBERTa and DistilBERT learn tags of words: their figures, their folders, their bits, the entities that they find in texts, and what they refuse."""
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, digest, instruction_sets, patient, run, settings, run_ok
from run_files import tensors

DATA = ROOT / "tests" / "data"
TAGS = ["B-ANIMAL", "B-THING", "I-THING", "O"]
FAMILIES = {
    "bert": ("BertForTokenClassification", DATA / "tokenizer" / "wordpiece", ("vocab.txt", "tokenizer_config.json"),
             {"vocab_size": 4000, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "max_position_embeddings": 40}),
    "roberta": ("RobertaForTokenClassification", EMOJI / "tokenizer", ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"),
                {"vocab_size": 3000, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96, "max_position_embeddings": 42, "type_vocab_size": 1}),
    "distilbert": ("DistilBertForTokenClassification", DATA / "tokenizer" / "wordpiece", ("vocab.txt", "tokenizer_config.json"),
                   {"vocab_size": 4000, "dim": 48, "n_layers": 2, "n_heads": 3, "hidden_dim": 96, "max_position_embeddings": 40}),
}
ENTITIES = [(["cat"], ["B-ANIMAL"]), (["hedgehog"], ["B-ANIMAL"]), (["red", "umbrella"], ["B-THING", "I-THING"]), (["violin"], ["B-THING"])]


def write_rows(path, rows, seed, **changes):
    """Words of captions with animals and things among them."""
    draw = random.Random(seed)
    captions = [json.loads(line)["caption"].split()[:6] for line in (EMOJI / "train.jsonl").read_text().splitlines()[:300]]
    with open(path, "w") as file:
        for _ in range(rows):
            words, tags = [], []
            for part in range(draw.randint(1, 3)):
                plain = [word for word in draw.choice(captions) if word not in ("cat", "red", "violin", "umbrella", "hedgehog")]
                found, found_tags = draw.choice(ENTITIES)
                words += plain + found
                tags += ["O"] * len(plain) + found_tags
            file.write(json.dumps({"tokens": words, "ner_tags": tags, **changes}) + "\n")


class TokenClassification(FolderTest):
    def setUp(self):
        super().setUp()
        for split, rows, seed in (("train", 200, 1), ("validation", 37, 2), ("test", 20, 3)):
            write_rows(self.folder / f"{split}.jsonl", rows, seed)

    def model(self, family="bert", **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        _, tokenizer, files, config = FAMILIES[family]
        for file in files:
            shutil.copy(tokenizer / file, folder)
        (folder / "config.json").write_text(json.dumps({"model_type": family, **config, **members}))
        return folder

    def settings(self, name="one", model=None, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return settings(folder, **{
            "model__model_name_or_path": f'"{model or self.model()}"', "model__tokenizer_name": None, "model__head": '"token_classification"', "data__train_file": f'"{self.folder}/train.jsonl"',
            "data__text_column": '"tokens"', "data__label_column": '"ner_tags"', "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "6", **changes})

    def finished(self, name="one", **changes):
        done = run_ok("run", self.settings(name, **changes))
        return self.folder / name / "run", done

    def rows_of(self, split):
        return [json.loads(line) for line in (self.folder / f"{split}.jsonl").read_text().splitlines()]

    def test_learns_tags_and_says_so(self):
        for family, (architecture, *_) in FAMILIES.items():
            with self.subTest(family):
                folder, done = self.finished(family, model=self.model(family), training__max_steps="60", training__per_device_train_batch_size="16", training__learning_rate="3e-3", training__save_steps="20",
                                             data__validation_file=f'"{self.folder}/validation.jsonl"', data__test_file=f'"{self.folder}/test.jsonl"', training__eval_strategy='"steps"',
                                             training__eval_steps="20", training__metric_for_best_model='"f1"', training__load_best_model_at_end="true")
                results = json.loads((folder / "all_results.json").read_text())
                self.assertGreater(results["validation_f1"], 0.9)
                self.assertGreater(results["validation_accuracy"], 0.9)
                for key in ("precision", "recall"):
                    self.assertIn(f"test_{key}", results)
                self.assertIn("f1", done.stderr)
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual(config["architectures"], [architecture])
                self.assertEqual(config["id2label"], {str(number): tag for number, tag in enumerate(TAGS)})
                self.assertIn("using the 4 tags of the training data (B-ANIMAL, B-THING, I-THING, ...) and a new classifier", done.stderr)
                saved = tensors(folder / "model.safetensors")
                self.assertEqual(len(saved["classifier.weight"]), 4 * 48)
                self.assertFalse([name for name in saved if "pooler" in name or "lm_head" in name or "vocab_" in name])
                card = (folder / "README.md").read_text()
                for words in (architecture, "token-classification", "seqeval"):
                    self.assertIn(words, card)
                self.predicted(folder, results)
                page = (folder / "report.html").read_text()
                for words in ("Figures of each type", "ANIMAL", "<mark"):
                    self.assertIn(words, page)
                self.asks(folder)

    def predicted(self, folder, results):
        rows, predicted = self.rows_of("test"), [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([(row["tokens"], row["ner_tags"]) for row in rows], [(row["words"], row["tags"]) for row in predicted])
        right = sum(tag == guess for row in predicted for tag, guess in zip(row["tags"], row["predicted"], strict=True) if guess is not None)
        judged = sum(guess is not None for row in predicted for guess in row["predicted"])
        self.assertAlmostEqual(results["test_accuracy"], right / judged, places=12)
        for row in predicted:
            self.assertEqual(len(row["probability"]), len(row["words"]))
            self.assertTrue(all(0.0 < share <= 1.0 for share in row["probability"] if share is not None))

    def asks(self, folder):
        """Entities by the places of their characters, which count code points."""
        text = "é🙂 a cat with a red umbrella"
        answer = json.loads(run("classify", folder, text, "--json").stdout)["texts"][0]
        self.assertEqual([(one["entity"], one["text"]) for one in answer["entities"]], [("ANIMAL", "cat"), ("THING", "red umbrella")])
        for one in answer["entities"]:
            self.assertEqual(text[one["start"]:one["end"]], one["text"])
            self.assertTrue(0.5 < one["score"] <= 1.0)
        behind_space = json.loads(run("classify", folder, " " + text, "--json").stdout)["texts"][0]["entities"]
        self.assertEqual([one["score"] for one in behind_space], [one["score"] for one in answer["entities"]])  # the first word has a space before it in any case
        shown = run("classify", folder, "-", input="a cat\nnothing\there\n\n").stdout.splitlines()
        self.assertEqual((shown[0], shown[2]), ("a cat", "nothing here"))
        self.assertRegex(shown[1], r"^ +\d+\.\d %  ANIMAL  cat  \[2, 5\)$")
        cut = run("classify", folder, "cat " * 60)
        self.assertIn("tokens and is cut to 32", cut.stderr)
        several = json.loads(run("classify", folder, "a cat", text, "--json").stdout)["texts"]
        self.assertEqual(several[1], answer)
        foreign = folder.with_name("foreign")  # a folder that no run left: words with tags have no pair there either
        shutil.copytree(folder, foreign, ignore=shutil.ignore_patterns("bascule.json", "checkpoint-*"))
        self.assertEqual(json.loads(run("classify", foreign, "a cat", text, "--json").stdout)["texts"], several)
        bad = subprocess.run([str(PROGRAM), "classify", str(folder), "-"], input=b"cat\n\xff\n", capture_output=True, timeout=patient(60))
        self.assertEqual(bad.returncode, 3)
        self.assertIn(b"line 2: byte 0 is not UTF-8", bad.stderr)

    def test_the_tags_of_further_tokens(self):
        """hedgehog has several tokens: a further one has a label only with label_all_tokens, umbrella's the I- of a B-."""
        rows = self.folder / "few.jsonl"
        rows.write_text((json.dumps({"tokens": ["hedgehog", "", "a"], "ner_tags": ["B-ANIMAL", "O", "O"]}) + "\n" + json.dumps({"tokens": ["umbrella"], "ner_tags": ["B-THING"]}) + "\n"
                         + json.dumps({"tokens": ["a"], "ner_tags": ["I-THING"]}) + "\n") * 8)
        both = {}
        for value in ("false", "true"):
            folder, _ = self.finished(f"all-{value}", model=self.model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), data__label_all_tokens=value, data__train_file=f'"{rows}"',
                                      data__test_file=f'"{rows}"')
            both[value] = digest(folder / "model.safetensors")
            first = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
            self.assertIsNone(first["predicted"][1])  # the empty word has no token
            self.assertIsNone(first["probability"][1])
            self.assertIn(first["predicted"][0], ("B-ANIMAL", "B-THING", "I-THING", "O"))
        self.assertNotEqual(both["false"], both["true"])

    def test_the_finished_folder_tokenises_texts_as_words_were(self):
        """RoBERTa's words have a space before them. The file is there whether the source has one or not; what adds spaces already is copied."""
        for name, source in (("without", None), ("with", '{"add_prefix_space":true}')):
            model = self.model("roberta")
            (model / "tokenizer_config.json").unlink()
            if source is not None:
                (model / "tokenizer_config.json").write_text(source)
            folder, _ = self.finished(name, model=model, training__max_steps="2", training__save_steps="0")
            self.assertEqual(json.loads((folder / "tokenizer_config.json").read_text()), {"add_prefix_space": True})
            if source is not None:
                self.assertEqual((folder / "tokenizer_config.json").read_text(), source)
        model = self.model("roberta")
        folder, _ = self.finished("false", model=model, training__max_steps="2", training__save_steps="0")
        self.assertEqual(json.loads((folder / "tokenizer_config.json").read_text()), {**json.loads((model / "tokenizer_config.json").read_text()), "add_prefix_space": True})
        model = self.model("bert")
        folder, _ = self.finished("word-pieces", model=model, training__max_steps="2", training__save_steps="0")
        self.assertEqual((folder / "tokenizer_config.json").read_bytes(), (model / "tokenizer_config.json").read_bytes())

    def test_words_that_are_cut_off_are_counted(self):
        folder, done = self.finished(data__max_seq_length="8", data__test_file=f'"{self.folder}/test.jsonl"')
        rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        cut = sum(guess is None for row in rows for guess in row["predicted"])
        words = sum(len(row["words"]) for row in rows)
        self.assertGreater(cut, 0)
        self.assertIn(f"{cut} of {words} words of {self.folder}/test.jsonl are cut off at data.max_seq_length = 8 tokens", done.stderr)
        _, done = self.finished("long", model=self.model(max_position_embeddings=128), data__max_seq_length="128", data__test_file=f'"{self.folder}/test.jsonl"')
        self.assertNotIn("cut off", done.stderr)

    def test_a_folder_goes_on_with_its_tags(self):
        names = {str(number): tag for number, tag in enumerate(reversed(TAGS))}
        numbered = self.folder / "numbered.jsonl"
        numbered.write_text("".join(json.dumps({"tokens": row["tokens"], "ner_tags": [list(reversed(TAGS)).index(tag) for tag in row["ner_tags"]]}) + "\n" for row in self.rows_of("train")))
        model = self.model(id2label=names)
        start, done = self.finished("names", model=model)
        self.assertNotIn("new classifier", done.stderr)
        self.assertEqual(json.loads((start / "config.json").read_text())["id2label"], names)
        numbers, _ = self.finished("numbers", model=model, data__train_file=f'"{numbered}"')
        self.assertEqual(digest(start / "model.safetensors"), digest(numbers / "model.safetensors"))
        again, done = self.finished("again", model=start, model__from_scratch="false", training__learning_rate="1e-30")
        self.assertEqual(tensors(again / "model.safetensors")["classifier.weight"], tensors(start / "model.safetensors")["classifier.weight"])
        self.assertNotIn("initialised", done.stderr)
        self.assertEqual(run("classify", model, "cat").returncode, 3)  # no weights

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        for family, precision in (("bert", "float32"), ("roberta", "bf16"), ("distilbert", "float32")):
            common = {"model": self.model(family), "model__precision": f'"{precision}"', "training__gradient_accumulation_steps": "2", "training__ema_decay": "0.9",
                      "data__validation_file": f'"{self.folder}/validation.jsonl"'}
            def outcome(name, **changes):
                folder, _ = self.finished(f"{family}-{name}", **{**common, **changes})
                results = json.loads((folder / "all_results.json").read_text())
                return digest(folder / "model.safetensors"), digest(folder / "ema" / "model.safetensors"), results["validation_f1"], results["validation_loss"]
            whole = outcome("whole")
            with self.subTest(family=family, precision=precision):
                for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("recomputed", {"training__gradient_checkpointing": '"full"'}),
                                      *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    self.assertEqual(outcome(name, **changes), whole, name)
                ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
                self.assertEqual(outcome("ranks", **ranks), outcome("sharded", **ranks, distributed__distribution_strategy='"sharded"'))
                outcome("parts", training__max_steps="4", training__lr_schedule_steps="6")
                self.assertEqual(outcome("parts", training__lr_schedule_steps="6"), whole)

    def test_the_loss_is_a_mean_over_labelled_tokens_however_they_are_cut(self):
        """Rows of very different numbers of words: two micro-batches, or two ranks, learn what one batch does, but for rounding."""
        uneven = self.folder / "uneven.jsonl"
        with open(uneven, "w") as file:
            for number in range(32):
                words = 1 if number % 2 else 20
                file.write(json.dumps({"tokens": ["cat"] + ["a"] * (words - 1), "ner_tags": ["B-ANIMAL"] + ["O"] * (words - 1)}) + "\n")
        model = self.model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        losses = {}
        for name, changes in (("whole", {}), ("micro", {"training__per_device_train_batch_size": "4", "training__gradient_accumulation_steps": "2"}),
                              ("ranks", {"training__per_device_train_batch_size": "4", "distributed__world_size": "2"})):
            folder, _ = self.finished(name, model=model, data__train_file=f'"{uneven}"', training__max_steps="4", training__logging_steps="1", **changes)
            losses[name] = [line["loss"] for line in json.loads((folder / "trainer_state.json").read_text())["log_history"] if "loss" in line]
        for name in ("micro", "ranks"):
            for one, whole in zip(losses[name], losses["whole"], strict=True):
                self.assertAlmostEqual(one, whole, places=5)

    def test_every_command_takes_the_run(self):
        model = self.model(id2label={str(number): tag for number, tag in enumerate(TAGS)})
        toml = self.settings(model=model, data__validation_file=f'"{self.folder}/validation.jsonl"', training__early_stopping_patience="3", training__eval_strategy='"steps"', training__eval_steps="2",
                             training__metric_for_best_model='"f1"')
        plan = json.loads(run("plan", toml, "--json", "--inputs").stdout)
        self.assertIn("train.jsonl", json.dumps(plan["inputs"]))
        self.assertIn("token_classification", run("settings", toml).stdout)
        for use in ([], ["--use", "evaluate"]):
            run_ok("bench", toml, "--steps", "2", *use)
        # The evaluation alone, where the tags are those of the training data.
        done = run_ok("bench", self.settings("unnamed", data__validation_share="0.2"), "--steps", "1", "--use", "evaluate")
        self.assertIn("using the 4 tags of the training data", done.stderr)
        run_ok("run", toml)
        run_ok("reproduce", self.folder / "one" / "run", "--output", self.folder / "repeated")

    def test_what_does_not_fit_is_refused(self):
        rows = self.rows_of("train")
        def data(name, change, split="train"):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(change(number, dict(row))) + "\n" for number, row in enumerate(rows)))
            return {f"data__{split}_file": f'"{self.folder}/{name}.jsonl"'}
        tags = lambda name, tag, **options: data(name, lambda number, row: {**row, "ner_tags": [tag(number, word) for word in range(len(row["tokens"]))]}, **options)
        evaluated = {"training__do_train": "false", "data__train_file": None, "data__validation_file": f'"{self.folder}/validation.jsonl"'}
        for changes, said in (
                ({"data__label_column": None}, "needs the tags of each row's words, but data.label_column is not set"),
                ({"data__label_column": '"tags"'}, 'no column "tags"'),
                ({"data__text_column": '"words"'}, 'no column "words"'),
                (data("short", lambda number, row: {**row, "ner_tags": row["ner_tags"][1:]}), "give each word one tag"),
                (tags("unknown", lambda number, word: "B-NEW" if number == 5 else "O", split="validation"), 'unknown tag "B-NEW"; the model\'s 4 tags are'),
                (tags("numbers", lambda number, word: word % 2), "tags are numbers, but the model's config.json does not name them"),
                (tags("same", lambda number, word: "O"), "all words have the same tag"),
                (tags("halves", lambda number, word: 0.5), "neither a name nor an integer"),
                (data("none", lambda number, row: {"tokens": [], "ner_tags": []}), "has no words"),
                (data("empty", lambda number, row: {"tokens": ["", " "], "ner_tags": ["O", "B-X"]}), 'no word of column "tokens" has a token'),
                ({**tags("range", lambda number, word: 4), "model": self.model(id2label={str(number): tag for number, tag in enumerate(TAGS)})}, "is 4; use a tag number from 0 to 3, or names in every row"),
                ({**evaluated, "model": self.model(id2label={"0": "O", "1": "B-X"})}, 'unknown tag "'),
                (evaluated, "tags are names, but the model's config.json names none"),
                ({"data__train_file": f'"{ROOT}/tests/data/text-corpus/validation.txt"'}, "is a text corpus"),
                ({"data__max_seq_length": "2"}, "data.max_seq_length: 2: a sample has 2 special tokens; set it to 3 or more"),
                ({"model__head": '"sequence_classification"', "data__label_all_tokens": "true"}, 'only the head "token_classification" reads words with tags')):
            with self.subTest(said):
                done = run("run", self.settings("refused", **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1])
