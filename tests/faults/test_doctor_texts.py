# SPDX-License-Identifier: Apache-2.0
"""`bascule doctor`: finds every fault that is planted in texts, their labels and tags, targets, corpora and prompts."""
import json
import shutil

from bascule_run import run, settings
from doctor_runs import DATA, DATA_ERROR, MEMORY, DoctorTest, rows_of, write_rows
from drawing import drawing

KEYWORDS, CORPUS = DATA / "emoji-keywords", DATA / "text-corpus"


class DoctorOfTexts(DoctorTest):
    def texts(self, train, validation, **changes):
        write_rows(self.folder / "train.jsonl", train)
        write_rows(self.folder / "validation.jsonl", validation)
        model = self.folder / "model"
        if not model.exists():
            model.mkdir()
            for file in ("vocab.txt", "tokenizer_config.json"):
                shutil.copy(DATA / "tokenizer/wordpiece" / file, model)
            (model / "config.json").write_text(json.dumps({"model_type": "bert", "vocab_size": 4000, "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 96,
                                                           "max_position_embeddings": 40}))
        return settings(self.folder, **{
            "model__model_name_or_path": f'"{model}"', "model__tokenizer_name": None, "model__head": '"sequence_classification"', "data__train_file": f'"{self.folder}/train.jsonl"',
            "data__validation_file": f'"{self.folder}/validation.jsonl"', "data__text_column": '"text"', "data__label_column": '"class"', "data__preprocessing": None, "media_engine__memory_mib": None,
            **changes})

    def test_every_fault_of_classes_of_texts_is_found(self):
        train = [{"text": f"the {word} is number {i}", "class": "even" if i % 2 == 0 else "odd"} for i, word in enumerate(["cat", "dog", "sun", "moon"] * 10)]
        validation = [{"text": f"a {word} and number {i}", "class": "even"} for i, word in enumerate(["cat", "dog", "sun", "moon"] * 4)]
        healthy = self.findings(self.doctor(self.texts(train, [*validation, {"text": "an odd one", "class": "odd"}])))
        self.assertEqual([finding["what"] for finding in healthy.values() if finding["level"] != "note"], [])
        train += [{"text": "☃ ☃ ☃", "class": "odd"}, {"text": "word " * 60, "class": "odd"}, {"text": "word " * 61, "class": "odd"}, {"text": train[0]["text"], "class": "odd"}, {"text": " ", "class": "odd"}]
        document = self.doctor(self.texts(train, [*validation, {"text": train[1]["text"], "class": "odd"}]))
        findings = self.findings(document)
        self.assert_found(findings, ("unknown_tokens", "train", "warning", 1), ("cut_texts", "train", "warning", 2), ("texts_in_two_splits", "validation", "warning", 1),
                          ("empty_texts", "train", "warning", 1), ("conflicting_labels", "1 sample occurs with different labels", "warning", 1), ("repeated_texts", "train", "note", 2))
        captions = document["splits"][0]["texts"][0]
        self.assertEqual((captions["texts"], captions["longest"], captions["cut_tokens"]), (45, 63, 61))
        self.assertEqual(sum(bar["texts"] for bar in captions["lengths"]), 45)
        one = self.findings(self.doctor(self.texts([{**row, "class": "odd"} for row in train], validation), code=DATA_ERROR))
        self.assert_found(one, ("one_class", "train", "fails", 45))

    def test_advice_about_cut_texts_is_accepted_by_a_run(self):
        def advice(longest, *keys, rows=40):
            train = [{"text": f"number {i}", "class": "even" if i % 2 == 0 else "odd"} for i in range(rows)] + [{"text": "word " * (longest - 2), "class": "odd"}]
            toml = self.texts(train, train[:2])
            return self.findings(self.doctor(toml, *keys))["cut_texts", "train"]["what_to_do"]

        limit = "data.max_seq_length=20"
        self.assertEqual(advice(30, limit), "set data.max_seq_length = 30 to cut none")
        self.assertEqual(advice(90, limit), "set data.max_seq_length = 40, the most that the model has positions for")
        self.assertEqual(advice(90, "data.max_seq_length=40"), "shorten them: the model has no positions for more tokens")
        self.assertEqual(advice(30, limit, rows=400), "set data.max_seq_length = 30 to cut none")  # 99 % are whole already
        train = [{"text": "word " * 23, "class": "odd"}] * 300 + [{"text": "word " * 28, "class": "even"}]
        self.assertEqual(self.findings(self.doctor(self.texts(train, train), limit))["cut_texts", "train"]["what_to_do"], "set data.max_seq_length = 30 to cut none, or 25 to keep 99 % whole")

    def test_a_pair_of_texts_counts_whole(self):
        rows = [{"text": "!" * 200, "other": "?" * 200, "class": name} for name in ("even", "odd")]
        toml = self.texts(rows, rows, data__text_pair_column='"other"')
        findings = self.findings(document := self.doctor(toml, "data.max_seq_length=20"))
        texts = document["splits"][0]["texts"][0]
        self.assertEqual((texts["longest"], texts["cut_tokens"]), (403, 2 * (403 - 20)))  # with [CLS] and twice [SEP]
        self.assert_found(findings, ("cut_texts", "train", "warning", 2))

    def test_why_rows_of_two_splits_matter(self):
        train = [{"text": f"the number {i}", "class": "even" if i % 2 == 0 else "odd"} for i in range(40)]
        validation = [{"text": f"a number {i}", "class": "even" if i % 2 == 0 else "odd"} for i in range(8)]
        toml = self.texts(train, validation, data__test_file=f'"{self.folder}/validation.jsonl"', training__eval_strategy='"steps"', training__eval_steps="3")
        for best, reason in (("false", "settings that are chosen by one"), ("true", "the best model is chosen")):
            self.assertIn(reason, self.findings(self.doctor(toml, f"training.load_best_model_at_end={best}"))["texts_in_two_splits", "test"]["what_to_do"])

    def test_tags_of_words(self):
        train = [{"text": ["the", word, "is", "here"], "class": ["O", tag, "O", "O"]} for word, tag in [("cat", "B-ANIMAL"), ("cup", "B-THING")] * 8]
        train += [{"text": ["the", "cat", "is", "here"], "class": ["O", "O", "O", "O"]}, {"text": ["☃"] * 3 + ["word"] * 60, "class": ["O"] * 63}]
        train += [{"text": ["a", "cat"], "class": ["O"]}, {"text": "a cat", "class": "O"}]
        toml = self.texts(train, [{"text": ["a", "cat"], "class": ["O", "B-ANIMAL"]}, train[0]], model__head='"token_classification"')
        document = self.doctor(toml, code=DATA_ERROR)
        self.assertEqual(document["splits"][0]["classes"], [{"name": "B-ANIMAL", "rows": 8}, {"name": "B-THING", "rows": 8}, {"name": "O", "rows": 115}])
        findings = self.findings(document)
        self.assert_found(findings, ("conflicting_labels", "1 sample occurs with different labels", "warning", 1), ("classes_missing", "validation", "warning", 1),
                          ("cut_texts", "train", "warning", 1), ("texts_in_two_splits", "validation", "warning", 1), ("refused_rows", "train", "fails", 2))
        self.assertNotIn(("unbalanced_classes", "train"), findings)
        refused, advice = findings["refused_rows", "train"], "; give each word one tag"
        self.assertEqual(refused["examples"][0]["text"], f"{self.folder}/train.jsonl:19: 2 words in column \"text\", but 1 tag in column \"class\"{advice}")
        self.assertNotIn(advice, refused["examples"][1]["text"])
        self.assertEqual(refused["what_to_do"], "correct each of them")
        self.assertTrue(findings["texts_in_two_splits", "validation"]["examples"][0]["text"].startswith(f"{self.folder}/validation.jsonl:2: \"the cat is here\" is also"))
        self.assertNotIn("run_refused", [check for check, _ in findings])  # it would say the same
        # A name that is nearly that of a frequent class, in either split.
        rows = [{"text": ["the", "cat"], "class": ["O", "B-ANIMAL"]}] * 30
        misspelled = [{"text": ["a", "cat"], "class": ["O", "B-ANIMLA"]}]
        for train, validation, check, level in ((rows + misspelled, rows, "classes_missing", "warning"), (rows, rows + misspelled, "classes_not_in_training", "fails")):
            found = self.findings(self.doctor(self.texts(train, validation, model__head='"token_classification"'), code=DATA_ERROR if level == "fails" else 0))[check, "validation"]
            self.assertEqual(found["level"], level)
            self.assertIn("B-ANIMLA (a typing error of B-ANIMAL?)", found["what"])
            self.assertIn("correct the name where it is a typing error", found["what_to_do"])
        others = [{"text": ["cats"], "class": ["B-ANIMALS"]}] * 10 + [{"text": ["them"], "class": ["B-ANIMELS"]}]  # too frequent, too different
        found = self.findings(self.doctor(self.texts(rows + others, rows, model__head='"token_classification"')))
        self.assertNotIn("typing error", found["classes_missing", "validation"]["what"])
        inside = [{"text": ["cat"], "class": ["I-ANIMAL"]}]  # the tag of a word that goes on is another one
        found = self.findings(self.doctor(self.texts(rows, rows + inside, model__head='"token_classification"'), code=DATA_ERROR))
        self.assertNotIn("typing error", found["classes_not_in_training", "validation"]["what"])

    def test_every_fault_of_sources_and_targets_is_found(self):
        train, validation = rows_of(KEYWORDS / "train.jsonl")[:60], rows_of(KEYWORDS / "validation.jsonl")[:20]
        train += [{**train[0], "summary": ""}, {**train[1], "text": " "}, {"text": "word " * 80, "summary": "long"}, {"text": "long", "summary": "word " * 90}]
        write_rows(self.folder / "train.jsonl", train)
        write_rows(self.folder / "validation.jsonl", [*validation, train[3]])
        toml = settings(self.folder, **{
            "model__model_name_or_path": f'"{KEYWORDS}/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/unigram"', "data__train_file": f'"{self.folder}/train.jsonl"',
            "data__validation_file": f'"{self.folder}/validation.jsonl"', "data__text_column": '"text"', "data__summary_column": '"summary"', "data__max_seq_length": None,
            "data__max_source_length": "32", "data__max_target_length": "40", "data__preprocessing": None, "media_engine__memory_mib": None})
        document = self.doctor(toml, code=DATA_ERROR)
        findings = {(finding["check"], finding["what"].split(" are ")[0].split(" is ")[0].split(" has ")[0]): finding for finding in document["findings"]}
        self.assertIn(("cut_texts", "train: 1 of 64 sources"), findings)
        self.assertIn(("cut_texts", "train: 1 of 64 targets"), findings)
        self.assertIn(("empty_texts", "train: 1 of 64 targets"), findings)
        self.assertEqual(findings["texts_in_two_splits", "validation: 1 of 21 sources"]["level"], "warning")
        for kind in ("sources", "targets"):  # each stops the run, which says the same of the first
            self.assertEqual(findings["empty_texts", f"train: 1 of 64 {kind}"]["level"], "fails")
        self.assertNotIn("run_refused", [check for check, _ in findings])
        self.assertNotIn("fails", [finding["level"] for finding in self.doctor(toml, 'data.on_bad_sample="skip"')["findings"]])
        # Of the targets of an evaluation, the one in another script.
        write_rows(self.folder / "validation.jsonl", [*validation, {"text": "face", "summary": "\u4f60\u597d"}])
        write_rows(self.folder / "train.jsonl", [*train, {"text": "face", "summary": "\u4f60\u597d"}])  # nobody judges those
        keys = ('data.on_bad_sample="skip"', "training.predict_with_generate=true", 'training.metric_for_best_model="rouge1"', 'training.eval_strategy="epoch"')
        self.assertNotIn("targets_without_rouge", [finding["check"] for finding in self.doctor(toml, keys[0])["findings"]])
        without = [finding for finding in self.doctor(toml, *keys)["findings"] if finding["check"] == "targets_without_rouge"]
        self.assertEqual([(finding["level"], finding["count"], finding["what"].split(" of ")[0]) for finding in without], [("warning", 1, "validation: 1")])
        self.assertEqual(without[0]["what"], "validation: 1 of 21 targets has no word that ROUGE counts (letters a to z, digits): whatever is generated, its ROUGE is 0")
        self.assertEqual(without[0]["what_to_do"], 'choose the best weights by the loss: training.metric_for_best_model = "loss"')
        self.assertEqual([example["text"].rpartition("/")[2] for example in without[0]["examples"]], ['validation.jsonl:21: "\u4f60\u597d"'])
        own = [finding for finding in self.doctor(toml, *keys[:2])["findings"] if finding["check"] == "targets_without_rouge"]
        self.assertEqual(own[0]["what_to_do"], "judge by the loss, or by a figure of your own from predictions.jsonl")

    def test_sentences_of_a_corpus(self):
        lines = [f"the sentence with number {i} of this text" for i in range(40)]
        (self.folder / "train.txt").write_text("\n".join(lines[:20]) + "\n\n" + "\n".join(lines[20:]) + "\n")
        (self.folder / "validation.txt").write_text("\n".join([*lines[:5], *(f"another one, {i}" for i in range(20)), "long " * 90]) + "\n")
        toml = settings(self.folder, **{
            "model__model_name_or_path": f'"{CORPUS}/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "model__head": '"masked_lm"', "data__preprocessing": None, "media_engine__memory_mib": None,
            "data__train_file": f'"{self.folder}/train.txt"', "data__validation_file": f'"{self.folder}/validation.txt"', "data__text_layout": '"lines"'})
        findings = self.findings(self.doctor(toml))
        self.assert_found(findings, ("texts_in_two_splits", "validation", "warning", 5), ("cut_texts", "validation", "warning", 1))
        self.assertIn("train.txt:1", findings["texts_in_two_splits", "validation"]["examples"][0]["text"])
        blocks = self.findings(self.doctor(toml, 'data.text_layout="blocks"'))
        self.assertNotIn(("cut_texts", "validation"), blocks)
        (self.folder / "validation.txt").write_bytes(b"good\nb\xffad\n")
        self.assert_found(self.findings(self.doctor(toml, code=DATA_ERROR)), ("unreadable_data", "validation cannot be read", "fails", 1))

    def test_prompts_of_a_run_that_draws(self):
        prompts = self.folder / "prompts.jsonl"
        write_rows(prompts, [{"prompt": "a cat", "seed": 1}, {"prompt": "a cat", "seed": 1}, {"prompt": "word " * 100}])
        toml = drawing(self.folder, prompts=None, prompts_file=f'"{prompts}"')
        checks = {finding["check"]: finding for finding in self.doctor(toml)["findings"]}
        self.assertEqual({check: finding["count"] for check, finding in checks.items()}, {"cut_texts": 1, "repeated_texts": 1, "equal_pictures": 2})

    def test_drawing_has_the_memory_of_the_profile(self):
        toml = drawing(self.folder)
        profile = self.folder / "small.json"
        self.assertEqual(run("bringup", "--quick", "--only", "bits", "--save", profile).returncode, 0)
        self.doctor(toml, "--profile", profile)
        document = json.loads(profile.read_text())
        document["machine"]["memory"]["bytes"] = 1 << 20
        profile.write_text(json.dumps(document))
        document = self.doctor(toml, "--profile", profile, code=MEMORY)
        self.assertEqual(document["training"]["memory_bytes"], 1 << 20)
        self.assertIn("the machine of the profile allows", document["findings"][0]["what"])
        self.assertEqual(self.doctor(toml, "machine.memory_limit_gib=0.001", code=MEMORY)["training"]["memory_bytes"], int(0.001 * 2**30))
