# SPDX-License-Identifier: Apache-2.0
"""Model families that live in tests/ alone: classifiers of pictures, of texts and of pairs of texts without pictures, go through the program's own
training, evaluation, saving, resuming and reporting; so does a writer of targets, whose samples are a source and a target.
bascule_classifiers is the program with tests/families/classifiers.cpp linked in.
"""
import json
import os
import pathlib
import random
import shutil
import struct
import tempfile
import unittest
import zlib

import bascule_run
from bascule_run import EMOJI, digest, run, run_ends, run_ok, settings
from run_files import tensors

PROGRAM = bascule_run.PROGRAM
CLASSIFIERS = PROGRAM.parent / "tests" / "bascule_classifiers"
COLOURS = [(200, 30, 30), (30, 200, 30), (30, 30, 200)]
WORDS = ["red rose", "green frog", "blue sky"]
SIDE = 16


def write_png(path, colour):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(colour) * SIDE) * SIDE
    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class OtherFamilies(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.addCleanup(setattr, bascule_run, "PROGRAM", PROGRAM)
        bascule_run.PROGRAM = CLASSIFIERS
        self.folder = pathlib.Path(self.temporary.name)

    def make_data(self, kind, rows=48, label=lambda number: number % 3):
        """Settings of a run on rows whose class is easy to tell, and the rows."""
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        generator = random.Random(5)
        lines = []
        for number in range(rows):
            row = {"class": label(number)}
            if kind == "picture_classifier":
                write_png(data / f"{number}.png", [max(0, min(255, c + generator.randint(-25, 25))) for c in COLOURS[number % 3]])
                row["image"] = f"{number}.png"
            else:
                row["caption"] = f"a {WORDS[number % 3]} and {generator.randint(0, 99)}"
            if kind == "pair_classifier":  # only the second text tells the class
                row["reply"], row["caption"] = row["caption"], f"a {generator.choice(WORDS)} and {generator.randint(0, 99)}"
            if kind == "target_writer":  # the source tells the target, and some of either are cut
                row = {"text": f"a {WORDS[number % 3]}" + generator.choice(["", " and a dog and a cat"]), "summary": ["red rose", "frog", "blue sky and a large boat"][number % 3]}
            lines.append(json.dumps(row) + "\n")
        for split, part in (("train", lines[:rows - 12]), ("validation", lines[-12:-6]), ("test", lines[-6:])):
            (data / f"{split}.jsonl").write_text("".join(part))
        (data / "config.json").write_text(json.dumps({"model_type": kind, "image_size": SIDE, "classes": 3, "vocab_size": 3000, "hidden_size": 16,
                                                      "type_vocab_size": 2}))
        tokenizer = json.loads((EMOJI / "tokenizer/tokenizer.json").read_text())
        if kind == "pair_classifier":
            tokenizer["post_processor"]["type"] = "BertProcessing"  # the tokens of the second text have type 1
        (data / "tokenizer.json").write_text(json.dumps(tokenizer))
        return data

    def settings(self, name, kind, **changes):
        data = self.make_data(kind)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        tokenizer = f'"{data}"' if kind != "picture_classifier" else None
        columns = {"data__text_column": '"text"', "data__summary_column": '"summary"', "data__max_source_length": "10", "data__max_target_length": "6", "data__max_seq_length": None} if kind == "target_writer" \
            else {"data__label_column": '"class"'}
        return settings(folder, **{**columns,
            "model__model_name_or_path": f'"{data}"', "model__tokenizer_name": tokenizer, "data__text_pair_column": '"reply"' if kind == "pair_classifier" else None, "data__train_file": f'"{data}/train.jsonl"',
            "data__validation_file": f'"{data}/validation.jsonl"', "data__test_file": f'"{data}/test.jsonl"', "data__preprocessing": '"training"',
            "training__max_steps": "60", "training__learning_rate": "6e-2" if kind == "target_writer" else "2e-2", "training__save_steps": "10", **changes})

    def finished(self, name, kind, **changes):
        done = run_ok("run", self.settings(name, kind, **changes))
        return self.folder / name / "run", done

    def test_learn_are_judged_saved_and_reported(self):
        for kind, architecture, elements in (("picture_classifier", "PictureClassifierForTests", 3 * 3 * SIDE * SIDE),
                                          ("text_classifier", "TextClassifierForTests", 3 * 16), ("pair_classifier", "PairClassifierForTests", 3 * 16),
                                          ("target_writer", "TargetWriterForTests", 3000 * 2 * 16)):
            with self.subTest(kind):
                metric, words = ("target_accuracy", "right tokens of targets") if kind == "target_writer" else ("class_accuracy", "right classes")
                folder, done = self.finished(kind, kind, training__eval_strategy='"steps"', training__eval_steps="20", training__save_steps="20",
                                             training__load_best_model_at_end="true", training__metric_for_best_model=f'"{metric}"')
                results = json.loads((folder / "all_results.json").read_text())
                self.assertEqual((results[f"validation_{metric}"], results[f"test_{metric}"]), (1.0, 1.0))
                self.assertIn(words, done.stdout)
                self.assertIn(words, (folder / "report.html").read_text())
                self.assertIn(architecture, (folder / "README.md").read_text())
                self.assertIn(f'"eval_{metric}"', (folder / "log.jsonl").read_text())
                self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], [architecture])
                self.assertEqual(len(tensors(folder / "model.safetensors")["classifier.weight"]), elements)
                self.assertEqual((folder / "tokenizer.json").exists() or (folder / "vocab.json").exists(), kind != "picture_classifier")
                self.assertEqual((folder / "preprocessor_config.json").exists(), kind == "picture_classifier")

    def test_goes_on_to_the_same_bits_and_sums_over_ranks(self):
        for kind in ("picture_classifier", "text_classifier", "pair_classifier", "target_writer"):
            with self.subTest(kind):
                whole, _ = self.finished(f"{kind}-whole", kind)
                self.finished(f"{kind}-parts", kind, training__max_steps="27", training__lr_schedule_steps="60")
                parts, done = self.finished(f"{kind}-parts", kind, training__lr_schedule_steps="60")
                self.assertIn("resume", done.stderr + done.stdout)
                self.assertEqual(digest(parts / "model.safetensors"), digest(whole / "model.safetensors"))
                ranks = [self.finished(f"{kind}-{strategy}", kind, distributed__world_size="2", training__per_device_train_batch_size="4",
                                       distributed__distribution_strategy=f'"{strategy}"')[0] for strategy in ("fast_ddp", "ddp")]
                self.assertEqual(*(digest(folder / "model.safetensors") for folder in ranks))
                results = json.loads((ranks[0] / "all_results.json").read_text())
                self.assertEqual([value for key, value in results.items() if key.startswith("test_") and key.endswith("_accuracy")], [1.0])

    def test_starts_from_what_it_left_and_takes_any_number_of_workers(self):
        for kind in ("picture_classifier", "text_classifier", "target_writer"):
            with self.subTest(kind):
                first, _ = self.finished(f"{kind}-first", kind, data__dataloader_num_workers="0")
                second, _ = self.finished(f"{kind}-second", kind, data__dataloader_num_workers="3", machine__threads="1")
                self.assertEqual(digest(first / "model.safetensors"), digest(second / "model.safetensors"))
                changes = {"model__model_name_or_path": f'"{first}"', "model__from_scratch": None, "training__do_train": "false", "data__train_file": None}
                again, _ = self.finished(f"{kind}-again", kind, **changes)
                loss = [json.loads((folder / "all_results.json").read_text())["test_loss"] for folder in (first, again)]
                self.assertEqual(*loss)

    def test_needs_no_memory_for_what_it_does_not_read(self):
        planned = {}
        for kind in ("picture_classifier", "text_classifier"):
            done = run_ok("plan", "--json", self.settings(f"{kind}-plan", kind))
            planned[kind] = json.loads(done.stdout)["categories"]
        self.assertGreater(planned["picture_classifier"]["loader"], 20 << 20)  # the media engine's budget
        self.assertLess(planned["text_classifier"]["loader"], 1 << 20)

    def test_what_is_wrong_gets_one_line(self):
        data = self.make_data("text_classifier")
        for change, code, words in (
                ({"data__label_column": None}, 2, "needs the class of each row"), ({"data__label_column": '"kind"'}, 3, 'no column "kind"'),
                ({"model__head": '"contrastive"'}, 2, '"classes"'), ({"model__freeze": '["text_model"]'}, 2, "text_model")):
            with self.subTest(change):
                done = run_ends(code, "run", self.settings("wrong", "text_classifier", **change))
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertIn(words, done.stderr)
        for kind, key, value in (("text_classifier", "vocab_size", 0), ("text_classifier", "classes", -1), ("picture_classifier", "image_size", 0)):
            with self.subTest(key):
                settings_file = self.settings("wrong", kind)
                config = json.loads((data / "config.json").read_text())
                (data / "config.json").write_text(json.dumps({**config, key: value}))
                done = run("plan", settings_file)
                self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (3, 1), done.stderr)
                self.assertIn(f"{data}/config.json", done.stderr)
        for change, words in (({"type_vocab_size": 1}, "has token type 1, the model has 1 token types"), ({"type_vocab_size": 2}, 'correct data.text_pair_column')):
            with self.subTest(change):
                settings_file = self.settings("wrong", "pair_classifier")
                config = json.loads((data / "config.json").read_text())
                (data / "config.json").write_text(json.dumps({**config, **change}))
                (data / "train.jsonl").write_text('{"caption": "red rose", "class": 0}\n')
                done = run("plan", settings_file)
                self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (3, 1), done.stderr)
                self.assertIn(words, done.stderr)
        self.settings("wrong", "text_classifier")
        (data / "train.jsonl").write_text('{"caption": "red rose", "class": true}\n')
        self.assertIn('label "class" is true; use a class number from 0 to 2', run_ends(3, "plan", self.folder / "wrong" / "run.toml").stderr)
        self.make_data("text_classifier", label=lambda number: 3 if number == 7 else number % 3)
        self.assertIn(f"{data}/train.jsonl:8: label \"class\" is 3; use a class number from 0 to 2", run_ends(3, "plan", self.folder / "wrong" / "run.toml").stderr)

    def plan(self, **changes):
        """What a plan of the writer says: its figures, and the lines before them."""
        done = run_ok("plan", self.settings("plan", "target_writer", **changes))
        return done.stdout, done.stderr

    def write_rows(self, rows, **more):
        for split in ("train", "validation", "test"):
            (self.folder / "data" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more.get(split, rows)))

    def results(self, folder):
        return json.loads((folder / "all_results.json").read_text())

    def test_a_source_and_a_target_have_lengths_of_their_own(self):
        for changes, source, target, evaluated in (({}, 10, 6, 6), ({"data__max_source_length": "4"}, 4, 6, 6), ({"data__max_target_length": "4"}, 10, 4, 4),
                                                   ({"data__val_max_target_length": "5"}, 10, 6, 5)):
            with self.subTest(changes):
                figures, _ = self.plan(**changes)
                for split, length in (("train", target), ("validation", evaluated), ("test", evaluated)):
                    self.assertRegex(figures, rf"{split} .* text rows \(longest text: {source} tokens\), \d+ rows of second texts \(longest: {length} tokens\)")

    def test_texts_that_are_cut_are_counted_in_one_line(self):
        _, said = self.plan()
        data = self.folder / "data"
        rows = [json.loads(line) for line in (data / "train.jsonl").read_text().splitlines()]
        long_sources, long_targets = sum(len(row["text"].split()) > 3 for row in rows), sum(row["summary"].endswith("boat") for row in rows)
        self.assertIn(f"bascule: data: 36 rows of {data}/train.jsonl: cut {long_sources} sources at data.max_source_length = 10, "
                      f"{long_targets} targets at data.max_target_length = 6 tokens\n", said)
        _, said = self.plan(data__val_max_target_length="30", data__max_source_length="30")
        self.assertEqual(said.count(": cut "), 1, said)
        _, said = self.plan(data__max_source_length="30", data__max_target_length="30")
        self.assertNotIn(": cut ", said)

    def test_a_plan_of_large_data_takes_the_limits_until_a_run_has_measured_it(self):
        settings_file = self.settings("large", "target_writer", training__max_steps="1", training__do_eval="false", training__do_predict="false")
        data = self.folder / "data"
        (data / "train.jsonl").write_text('{"text": "a frog", "summary": "frog"}\n' * 100_000)
        home = {**os.environ, "XDG_CACHE_HOME": str(self.folder)}
        said = f"plan: the lengths of the texts in {data}/train.jsonl are not known yet; planned for data.max_source_length = 10 and data.max_target_length = 6; a run measures them and may need less\n"
        for command, is_said, lengths in (("plan", True, (10, 6)), ("run", False, None), ("plan", False, (5, 5))):
            done = run_ok(command, settings_file, env=home)
            self.assertEqual(said in done.stderr, is_said, done.stderr)
            if lengths:
                self.assertIn(f"longest text: {lengths[0]} tokens", done.stdout)
                self.assertIn(f"(longest: {lengths[1]} tokens)", done.stdout)

    def test_padding_counts_where_it_is_not_ignored(self):
        plain, _ = self.finished("plain", "target_writer")
        padded, _ = self.finished("padded", "target_writer", data__ignore_pad_token_for_loss="false", data__pad_to_max_length="true", data__val_max_target_length="9")
        self.assertNotEqual(digest(plain / "model.safetensors"), digest(padded / "model.safetensors"))
        one, _ = self.finished("one", "target_writer", data__ignore_pad_token_for_loss="false", data__pad_to_max_length="true", data__dataloader_num_workers="3", training__do_eval="false")
        self.assertEqual(digest(one / "model.safetensors"), digest(padded / "model.safetensors"))
        figures, _ = self.plan(data__ignore_pad_token_for_loss="false", data__pad_to_max_length="true", data__max_target_length="17", data__val_max_target_length="19")
        self.assertRegex(figures, rf"train .* {8 * 17} rows of second texts \(longest: 17 tokens\)")
        self.assertRegex(figures, rf"validation .* {6 * 19} rows of second texts \(longest: 19 tokens\)")

    def test_settings_without_effect_are_named(self):
        _, said = self.plan(data__pad_to_max_length="true", data__max_seq_length="7", data__mlm_probability="0.5", data__image_column='"x"', data__caption_column='"y"',
                            data__max_eval_samples="3", training__do_eval="false")
        for words in ("data.pad_to_max_length (padding is ignored)", "data.caption_column, data.max_seq_length (the model reads sources and targets)", "data.image_column (the model reads no pictures)",
                      "data.mlm_probability (no tokens are masked)", "data.max_eval_samples (nothing is evaluated)"):
            self.assertIn(words, said)
        done = run("plan", self.settings("plan", "text_classifier", data__source_prefix='"say: "', data__max_source_length="7", data__max_target_length="7", data__val_max_target_length="7",
                                         data__pad_to_max_length="true", data__ignore_pad_token_for_loss="false", data__max_predict_samples="3", training__do_predict="false"))
        self.assertIn("settings: ignored: data.source_prefix, data.max_source_length, data.max_target_length, data.val_max_target_length, data.ignore_pad_token_for_loss, data.pad_to_max_length "
                      "(the model writes no text); data.max_predict_samples (nothing is predicted)\n", done.stderr)
        _, said = self.plan(training__do_eval="false", training__do_predict="false", data__val_max_target_length="5")
        self.assertIn("data.val_max_target_length (nothing is evaluated)", said)

    def test_what_is_wrong_with_a_source_or_a_target_gets_one_line(self):
        data = self.make_data("target_writer")
        (data / "corpus.txt").write_text("one sentence.\n\nanother one.\n")
        row = json.loads((data / "train.jsonl").read_text().splitlines()[0])
        empty = '; write a text, remove the row, or set data.on_bad_sample = "skip"'
        skip = {"data__on_bad_sample": '"skip"'}
        for change, rows, config, code, words in (
                ({"data__summary_column": None}, [row], {}, 2, "needs the target of each row, but data.summary_column is not set"),
                ({"data__text_column": None}, [row], {}, 2, "needs the source of each row, but data.text_column is not set"),
                ({"data__summary_column": '"abstract"'}, [row], {}, 3, 'train.jsonl:1: no column "abstract" among'),
                ({"data__text_column": '"article"'}, [row], {}, 3, 'train.jsonl:1: no column "article" among'),
                ({}, [row, {**row, "summary": ""}], {}, 3, 'train.jsonl:2: the text of column "summary" is empty' + empty),
                ({}, [row, row, {**row, "text": " \n\t"}], {}, 3, 'train.jsonl:3: the text of column "text" is empty' + empty),
                (skip, [{**row, "summary": ""}, {**row, "text": ""}], {}, 3, 'train.jsonl:1: the text of column "summary" is empty, and no row of'),
                ({}, [row, {**row, "summary": "a cat"}], {"vocab_size": 300}, 3, "the model's vocabulary has 300"),
                ({"data__max_target_length": "2"}, [row], {}, 2, "data.max_target_length: 2: a sample has 2 special tokens; set it to 3 or more"),
                ({"data__max_source_length": "60"}, [row], {}, 2, "data.max_source_length: 60: the model has positions for at most 38 tokens"),
                ({"data__max_source_length": "65000", "data__max_target_length": "1000"}, [row], {}, 2, "run.toml:"),
                ({"data__train_file": f'"{data}/corpus.txt"'}, [row], {}, 2, 'is a text corpus, but this model with head "targets" reads two texts'),
                ({"data__text_pair_column": '"summary"', "data__summary_column": None}, [row], {}, 2, "data.text_pair_column is set, but no head of this model reads pairs of texts")):
            with self.subTest(words):
                settings_file = self.settings("wrong", "target_writer", **{"training__per_device_train_batch_size": "1", **change})
                self.write_rows(rows)
                (data / "config.json").write_text(json.dumps({**json.loads((data / "config.json").read_text()), **config}))
                done = run("plan", settings_file)
                self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (code, 1), done.stderr)
                self.assertIn(words, done.stderr)

    def test_a_source_of_seventy_thousand_tokens_is_cut(self):
        for ending in ("jsonl", "json", "csv", "tsv"):
            with self.subTest(ending):
                settings_file = self.settings("long", "target_writer", data__train_file=f'["{self.folder}/data/train.jsonl", "{self.folder}/data/long-*.{ending}"]', training__max_steps="6")
                rows = [{"text": "a cat " * 35_000, "summary": "frog"}, {"text": "a dog", "summary": "red rose"}]
                separator = "," if ending == "csv" else "\t"
                text = {"jsonl": "".join(json.dumps(row) + "\n" for row in rows), "json": json.dumps(rows)}.get(
                    ending, f"text{separator}summary\n" + "".join(f"{row['text']}{separator}{row['summary']}\n" for row in rows))
                (self.folder / "data" / f"long-1.{ending}").write_text(text)
                done = run_ok("run", settings_file)
                self.assertIn("38 rows of ", done.stderr)
                self.assertIn(" sources at data.max_source_length = 10", done.stderr)

    def test_rows_with_an_empty_source_or_target_are_skipped_and_counted(self):
        settings_file = self.settings("skip", "target_writer", data__on_bad_sample='"skip"', training__max_steps="10", data__dataloader_num_workers="2")
        rows = [json.loads(line) for line in (self.folder / "data" / "train.jsonl").read_text().splitlines()]
        self.write_rows(None, train=[*rows[:5], {"text": "", "summary": "frog"}, *rows[5:], {"text": "a frog", "summary": "  "}], validation=[rows[0], {"text": "a", "summary": ""}, rows[1]], test=rows[:3])
        done = run_ok("run", settings_file)
        data, results = self.folder / "data", self.results(self.folder / "skip" / "run")
        self.assertIn(f"index: 2 of 38 rows of {data}/train.jsonl have an empty source or target and are skipped; the first is {data}/train.jsonl:6\n", done.stderr)
        bad = results["bad_samples"]
        self.assertIn((f"{data}/train.jsonl:6", "its source or its target is empty"), [(one["row"], one["reason"]) for one in bad])
        self.assertIn((f"{data}/validation.jsonl:2", "its source or its target is empty"), [(one["row"], one["reason"]) for one in bad])
        # A run goes on where such rows are taken out, or one of them is mended; another row must stay as it is.
        shutil.copytree(self.folder / "skip", self.folder / "mended")
        self.write_rows(None, train=rows, validation=rows[:3], test=rows[:3])
        settings_file.write_text(settings_file.read_text().replace("max_steps = 10", "max_steps = 14"))
        done = run_ok("run", settings_file)
        self.assertRegex(done.stderr, "data.train_file, row 6.*an empty source or target.*taken out")
        mended_file = self.folder / "mended" / "run.toml"
        mended_file.write_text(settings_file.read_text().replace(f"{self.folder}/skip", f"{self.folder}/mended"))
        mended = [*rows[:5], {"text": "a frog", "summary": "frog"}, *rows[5:], {"text": "a frog", "summary": "  "}]
        self.write_rows(None, train=[{"text": "another", "summary": "row"}, *mended[1:]], validation=rows[:3], test=rows[:3])
        self.assertIn("row 1 has a different text", run_ends(3, "run", mended_file).stderr)
        self.write_rows(None, train=mended, validation=rows[:3], test=rows[:3])
        done = run_ok("run", mended_file)
        self.assertRegex(done.stderr, "data.train_file, row 6.*an empty source or target")

    def test_the_first_samples_of_a_split_may_be_used_alone(self):
        for kind in ("picture_classifier", "target_writer"):
            with self.subTest(kind):
                both, _ = self.finished(f"{kind}-first", kind, data__max_eval_samples="4", data__max_predict_samples="2", training__max_steps="4")
                whole, _ = self.finished(f"{kind}-whole", kind, training__max_steps="4")
                first, all_of_it = self.results(both), self.results(whole)
                self.assertEqual((first["validation_samples"], first["test_samples"], first["train_samples"]), (4, 2, 36))
                self.assertEqual((all_of_it["validation_samples"], all_of_it["test_samples"]), (6, 6))
                self.assertEqual(digest(both / "model.safetensors"), digest(whole / "model.safetensors"))
                for split, rows in (("validation", 4), ("test", 2)):
                    path = self.folder / "data" / f"{split}.jsonl"
                    path.write_text("".join(path.read_text().splitlines(keepends=True)[:rows]))
                settings_file = self.folder / f"{kind}-whole" / "run.toml"
                settings_file.write_text(settings_file.read_text().replace(f"{kind}-whole", f"{kind}-short"))
                (self.folder / f"{kind}-short").mkdir()
                self.assertEqual(run("run", settings_file).returncode, 0)
                short = self.results(self.folder / f"{kind}-short" / "run")
                self.assertEqual([short[f"{split}_loss"] for split in ("validation", "test")], [first[f"{split}_loss"] for split in ("validation", "test")])
