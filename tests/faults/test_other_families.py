# SPDX-License-Identifier: Apache-2.0
"""Model families that live in tests/ alone: classifiers of pictures, of texts and of pairs of texts without pictures, go through the program's own
training, evaluation, saving, resuming and reporting; so do
classifiers of a source and a target, two texts of different length. bascule_classifiers is the program with tests/families/classifiers.cpp linked in.
"""
import json
import pathlib
import random
import struct
import tempfile
import unittest
import zlib

import bascule_run
from bascule_run import EMOJI, digest, run, settings
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
            if kind == "target_classifier":  # both texts tell the class, and some are longer than the model takes
                source, target = WORDS[number % 9 // 3], WORDS[number % 3]
                row = {"class": number % 9, "caption": f"a {source}" + generator.choice(["", " and a dog"]),
                       "reply": target + generator.choice(["", "", " and 3 cats and a dog"])}
            lines.append(json.dumps(row) + "\n")
        for split, part in (("train", lines[:rows - 12]), ("validation", lines[-12:-6]), ("test", lines[-6:])):
            (data / f"{split}.jsonl").write_text("".join(part))
        (data / "config.json").write_text(json.dumps({"model_type": kind, "image_size": SIDE, "classes": 9 if kind == "target_classifier" else 3, "vocab_size": 3000, "hidden_size": 16,
                                                      "type_vocab_size": 2, "target_length": 6}))
        tokenizer = json.loads((EMOJI / "tokenizer/tokenizer.json").read_text())
        if kind == "pair_classifier":
            tokenizer["post_processor"]["type"] = "BertProcessing"  # the tokens of the second text have type 1
        (data / "tokenizer.json").write_text(json.dumps(tokenizer))
        return data

    def settings(self, name, kind, **changes):
        data = self.make_data(kind, rows=120) if kind == "target_classifier" else self.make_data(kind)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        tokenizer = f'"{data}"' if kind != "picture_classifier" else None
        return settings(folder, **{
            "model__model_name_or_path": f'"{data}"', "model__tokenizer_name": tokenizer, "data__label_column": '"class"', "data__text_pair_column": '"reply"' if kind in ("pair_classifier", "target_classifier") else None, "data__train_file": f'"{data}/train.jsonl"',
            "data__validation_file": f'"{data}/validation.jsonl"', "data__test_file": f'"{data}/test.jsonl"', "data__preprocessing": '"training"',
            "training__max_steps": "60", "training__learning_rate": "2e-2", "training__save_steps": "10", **changes})

    def finished(self, name, kind, **changes):
        done = run("run", self.settings(name, kind, **changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.folder / name / "run", done

    def test_learn_are_judged_saved_and_reported(self):
        for kind, architecture, elements in (("picture_classifier", "PictureClassifierForTests", 3 * 3 * SIDE * SIDE),
                                          ("text_classifier", "TextClassifierForTests", 3 * 16), ("pair_classifier", "PairClassifierForTests", 3 * 16),
                                          ("target_classifier", "TargetClassifierForTests", 9 * 2 * 16)):
            with self.subTest(kind):
                folder, done = self.finished(kind, kind, training__eval_strategy='"steps"', training__eval_steps="20", training__save_steps="20",
                                             training__load_best_model_at_end="true", training__metric_for_best_model='"class_accuracy"')
                results = json.loads((folder / "all_results.json").read_text())
                self.assertEqual((results["validation_class_accuracy"], results["test_class_accuracy"]), (1.0, 1.0))
                self.assertIn("right classes", done.stdout)
                self.assertIn("right classes", (folder / "report.html").read_text())
                self.assertIn(architecture, (folder / "README.md").read_text())
                self.assertIn('"eval_class_accuracy"', (folder / "log.jsonl").read_text())
                self.assertEqual(json.loads((folder / "config.json").read_text())["architectures"], [architecture])
                self.assertEqual(len(tensors(folder / "model.safetensors")["classifier.weight"]), elements)
                self.assertEqual((folder / "tokenizer.json").exists() or (folder / "vocab.json").exists(), kind != "picture_classifier")
                self.assertEqual((folder / "preprocessor_config.json").exists(), kind == "picture_classifier")

    def test_goes_on_to_the_same_bits_and_sums_over_ranks(self):
        for kind in ("picture_classifier", "text_classifier", "pair_classifier", "target_classifier"):
            with self.subTest(kind):
                whole, _ = self.finished(f"{kind}-whole", kind)
                self.finished(f"{kind}-parts", kind, training__max_steps="27", training__lr_schedule_steps="60")
                parts, done = self.finished(f"{kind}-parts", kind, training__lr_schedule_steps="60")
                self.assertIn("resume", done.stderr + done.stdout)
                self.assertEqual(digest(parts / "model.safetensors"), digest(whole / "model.safetensors"))
                ranks = [self.finished(f"{kind}-{strategy}", kind, distributed__world_size="2", training__per_device_train_batch_size="4",
                                       distributed__distribution_strategy=f'"{strategy}"')[0] for strategy in ("fast_ddp", "ddp")]
                self.assertEqual(*(digest(folder / "model.safetensors") for folder in ranks))
                self.assertEqual(json.loads((ranks[0] / "all_results.json").read_text())["test_class_accuracy"], 1.0)

    def test_starts_from_what_it_left_and_takes_any_number_of_workers(self):
        for kind in ("picture_classifier", "text_classifier", "target_classifier"):
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
            done = run("plan", "--json", self.settings(f"{kind}-plan", kind))
            self.assertEqual(done.returncode, 0, done.stderr)
            planned[kind] = json.loads(done.stdout)["categories"]
        self.assertGreater(planned["picture_classifier"]["loader"], 20 << 20)  # the media engine's budget
        self.assertLess(planned["text_classifier"]["loader"], 1 << 20)

    def test_what_is_wrong_gets_one_line(self):
        data = self.make_data("text_classifier")
        for change, code, words in (
                ({"data__label_column": None}, 2, "needs the class of each row"), ({"data__label_column": '"kind"'}, 3, 'no column "kind"'),
                ({"model__head": '"contrastive"'}, 2, '"classes"'), ({"model__freeze": '["text_model"]'}, 2, "text_model")):
            with self.subTest(change):
                done = run("run", self.settings("wrong", "text_classifier", **change))
                self.assertEqual(done.returncode, code, done.stderr)
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
        done = run("plan", self.folder / "wrong" / "run.toml")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn('label "class" is true; use a class number from 0 to 2', done.stderr)
        self.make_data("text_classifier", label=lambda number: 3 if number == 7 else number % 3)
        done = run("plan", self.folder / "wrong" / "run.toml")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"{data}/train.jsonl:8: label \"class\" is 3; use a class number from 0 to 2", done.stderr)

    def test_a_source_and_a_target_have_lengths_of_their_own(self):
        for changes, source in (({}, 10), ({"data__max_seq_length": "4"}, 4)):
            done = run("plan", self.settings("plan", "target_classifier", **changes))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"train .* text rows \(longest text: {source} tokens\), \d+ rows of second texts \(longest: 6 tokens\)")

    def test_what_is_wrong_with_one_of_two_texts_gets_one_line(self):
        data = self.make_data("target_classifier")
        (data / "corpus.txt").write_text("one sentence.\n\nanother one.\n")
        row = json.loads((data / "train.jsonl").read_text().splitlines()[0])
        for change, rows, config, code, words in (
                ({"data__text_pair_column": None}, [row], {}, 2, "needs the second text of each row, but data.text_pair_column is not set"),
                ({}, [row, {**row, "reply": ""}], {}, 3, 'train.jsonl:2: the text of column "reply" is empty; write a text, or remove the row'),
                ({}, [row, row, {**row, "caption": ""}], {}, 3, 'train.jsonl:3: the text of column "caption" is empty'),
                ({"data__text_column": '"text"'}, [{**row, "text": ""}], {}, 3, 'train.jsonl:1: the text of column "text" is empty'),
                ({}, [row], {"target_length": 2}, 2, "the length of the model's second text: 2: a sample has 2 special tokens"),
                ({"data__train_file": f'"{data}/corpus.txt"'}, [row], {}, 2, 'is a text corpus, but this model with head "classes" reads two texts')):
            with self.subTest(words):
                settings_file = self.settings("wrong", "target_classifier", **{"training__per_device_train_batch_size": "1", **change})
                for split in ("train", "validation", "test"):
                    (data / f"{split}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
                (data / "config.json").write_text(json.dumps({**json.loads((data / "config.json").read_text()), **config}))
                done = run("plan", settings_file)
                self.assertEqual((done.returncode, len(done.stderr.strip().splitlines())), (code, 1), done.stderr)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
