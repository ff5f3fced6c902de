# SPDX-License-Identifier: Apache-2.0
"""tools/export_dataset.py writes manifests whose pictures are the source's, shards and texts, and leaves out bad rows.

What needs Pillow is skipped where it is not installed; a bare Debian has none.
"""
import contextlib
import io
import json
import tarfile
import unittest
from unittest import mock

from exporting import COLUMNS, HAS_PILLOW, WEBPS, InAFolder, Table, bmp, jpegs, library, lines_of, png, run, tool

import export_pictures
import export_source
import export_texts


class Rows(InAFolder):
    def test_the_name_of_a_file_says_of_which_split_it_is(self):
        for name, split in (("validation-00000-of-00001", "validation"), ("Dev", "validation"), ("my_TEST.2", "test"), ("latest", "train"), ("0000", "train"),
                            ("valid", "validation"), ("val-1", "validation"), ("eval", "validation"), ("testing", "test")):
            self.assertEqual(export_source.split_of(name), split, name)

    def test_columns_of_texts_do_not_go_with_those_of_pictures(self):
        for flags in (("--summary_column", "s"), ("--text_column", "t", "--summary_column", "s", "--class_column", "c"), ("--summary_column", "s", "--shard_rows", "3")):
            code, said = run("somebody/unknown", "--output", self.output, *flags)
            self.assertEqual((code, len(said)), (2, 1), said)

    def test_rows_without_text_or_summary_are_named_or_left_out(self):
        rows = [{"a": "text", "b": "summary"}, {"a": " ", "b": "x"}, {"a": "x", "b": ""}, {"a": "x", "b": None}, {"a": "x\ud800", "b": "x"}, {"a": "y", "b": "z"}]
        columns = {"text": "a", "summary": "b"}
        with contextlib.redirect_stderr(io.StringIO()) as said:
            counts = tool.export_split("train", rows, columns, export_texts.Rows("train", self.output), self.folder, True)
        self.assertEqual(counts, (2, 4))
        self.assertEqual(lines_of(self.output / "train.jsonl"), [{"text": "text", "summary": "summary"}, {"text": "y", "summary": "z"}])
        self.assertIn("train, row 2 skipped: the summary is empty or not text", said.getvalue())
        with self.assertRaisesRegex(tool.ExportError, "row 1: the text is empty"):
            tool.export_split("train", rows, columns, export_texts.Rows("train", self.output), self.folder, False)

    def test_shards_hold_the_same_rows_in_whole_files(self):
        first, second = jpegs(2)
        rows = [{"image": first, "caption": ["a", "b"], "match": 1}, {"image": second, "caption": "ünï 🦊", "match": 0}]
        shards = tool.Shards("train", self.output, 2)
        counts = tool.export_split("train", rows, {**COLUMNS, "label": "match"}, shards, self.folder, False)
        self.assertEqual(counts, (3, 0))
        self.assertEqual(shards.written_name(), "train-{00000..00001}.tar")
        self.assertEqual(sorted(path.name for path in self.output.iterdir()), ["train-00000.tar", "train-00001.tar"])
        found = []
        for path in sorted(self.output.iterdir()):
            with tarfile.open(path) as tar:
                found += [(member.name, tar.extractfile(member).read()) for member in tar]
        self.assertEqual([name for name, _ in found[::2]], ["000000000.jpg", "000000001.jpg", "000000002.jpg"])
        self.assertEqual([data for _, data in found[::2]], [first, first, second])
        self.assertEqual([json.loads(data) for _, data in found[1::2]],
                         [{"caption": "a", "label": 1}, {"caption": "b", "label": 1}, {"caption": "ünï 🦊", "label": 0}])

    def test_a_still_webp_keeps_its_bytes(self):
        still = (WEBPS / "lossy_40.webp").read_bytes()
        animated = (WEBPS / "bad_animated.webp").read_bytes()
        self.assertEqual((export_pictures.format_of(still), export_pictures.format_of(animated)), ("webp", None))
        _, lines, _ = self.export_rows([{"image": still, "caption": "a"}])
        self.assertTrue(lines[0]["image"].endswith(".webp"))
        self.assertEqual((self.output / lines[0]["image"]).read_bytes(), still)

    def test_a_jpeg_keeps_its_bytes_and_equal_pictures_are_one_file(self):
        first, second = jpegs(2)
        rows = [{"image": {"bytes": data, "path": None}, "caption": caption}
                for data, caption in ((first, "a"), (second, "b"), (first, "ünï 🦊"))]
        counts, lines, _ = self.export_rows(rows)
        self.assertEqual(counts, (3, 0))
        self.assertEqual([line["caption"] for line in lines], ["a", "b", "ünï 🦊"])
        self.assertEqual(lines[0]["image"], lines[2]["image"])
        self.assertEqual([(self.output / line["image"]).read_bytes() for line in lines], [first, second, first])
        self.assertEqual(len(list(self.output.rglob("*.jpg"))), 2)

    def test_a_list_of_captions_gives_a_row_for_each(self):
        _, lines, _ = self.export_rows([{"image": jpegs(1)[0], "caption": ["a", "b"]}])
        self.assertEqual([line["caption"] for line in lines], ["a", "b"])
        self.assertEqual(len({line["image"] for line in lines}), 1)

    def test_a_path_is_taken_from_the_sources_folder(self):
        (self.folder / "x.jpg").write_bytes(jpegs(1)[0])
        _, lines, _ = self.export_rows([{"image": "x.jpg", "caption": "a"}])
        self.assertEqual((self.output / lines[0]["image"]).read_bytes(), jpegs(1)[0])

    def test_labels_are_0_or_1(self):
        columns = {**COLUMNS, "label": "match"}
        _, lines, _ = self.export_rows([{"image": jpegs(1)[0], "caption": "a", "match": True}], columns)
        self.assertEqual(lines[0]["label"], 1)
        with self.assertRaises(tool.ExportError):
            self.export_rows([{"image": jpegs(1)[0], "caption": "a", "match": 2}], columns)

    def test_classes_are_names_or_numbers(self):
        first, second = jpegs(2)
        columns = {"image": "image", "class": "kind"}
        rows = [{"image": first, "kind": 1}, {"image": second, "kind": 0}]
        self.assertEqual([line["label"] for line in self.export_rows(rows, columns)[1]], [1, 0])
        pictures = tool.Pictures(self.output)
        manifest = tool.Manifest("named", self.output, pictures)
        self.assertEqual(tool.export_split("named", rows, columns, manifest, self.folder, False, ["cat", "dög"]), (2, 0))
        self.assertEqual([(line["label"], sorted(line)) for line in lines_of(self.output / "named.jsonl")],
                         [("dög", ["image", "label"]), ("cat", ["image", "label"])])
        for bad in (None, -1, "", True, 1.5):
            with self.assertRaisesRegex(tool.ExportError, "^train, row 0: the class is "):
                self.export_rows([{"image": first, "kind": bad}], columns)
        unlabelled = {"image": [first, second], "kind": [-1, -1]}  # as a whole split, where it is no mistake
        self.assertTrue(tool.has_no_labels(unlabelled, columns))
        self.assertFalse(tool.has_no_labels({**unlabelled, "kind": [-1, 0]}, columns))
        self.assertTrue(tool.has_no_labels({"words": [["a", "b"]], "tags": [[-1, -1]]}, {"text": "words", "tag": "tags"}))
        bare = tool.Manifest("bare", self.output, pictures)
        tool.export_split("bare", [{"image": first, "kind": -1}], columns, bare, self.folder, False, tool.NO_LABELS)
        self.assertEqual([line["label"] for line in lines_of(self.output / "bare.jsonl")], [-1])
        with self.assertRaisesRegex(tool.ExportError, "the class is 2, but the data set names 2"):
            tool.export_split("named", [{"image": first, "kind": 2}], columns, manifest, self.folder, False, ["cat", "dog"])

    def test_classes_stand_in_shards(self):
        shards = tool.Shards("train", self.output, 2)
        tool.export_split("train", [{"image": jpegs(1)[0], "kind": 1}], {"image": "image", "class": "kind"}, shards, self.folder, False, ["cat", "dog"])
        with tarfile.open(self.output / "train-00000.tar") as tar:
            self.assertEqual(json.loads(tar.extractfile("000000000.json").read()), {"label": "dog"})

    def test_labels_of_texts_are_numbers_whose_names_are_told(self):
        rows = {"a": ["one", "two", "three"], "b": ["x", "", "z"]}
        flags = ("--text_column", "a", "--text_pair_column", "b", "--class_column", "label")
        splits = {"train": Table({**rows, "label": [1, 0, 1]}, ["no", "jä"]), "test": Table({**rows, "label": [-1] * 3}, ["no", "jä"])}
        with library(splits):
            code, said = run("somebody/pairs", "--output", self.output, *flags)
        self.assertEqual(code, 0, said)
        self.assertEqual(lines_of(self.output / "train.jsonl"), [{"text": a, "text_pair": b, "label": label} for a, b, label in zip(rows["a"], rows["b"], [1, 0, 1])])
        self.assertEqual([line["label"] for line in lines_of(self.output / "test.jsonl")], [-1] * 3)
        self.assertIn('labels are numbers of classes; to name them in the trained model, write "id2label": {"0": "no", "1": "jä"} into the model\'s config.json', said)
        self.assertIn("test: its labels are all -1, that is, it has none: as data.test_file it gets predictions alone", said)
        self.assertEqual([line for line in said if line.startswith("train: ")], ["train: 3 rows, 0 skipped"])
        # One label of -1 is a mistake, as are numbers that have no name and values that are none.
        for labels, names, what in (([1, -1, 0], ["no", "yes"], "row 1: the class is -1, neither"), ([1, 0, 2], ["no", "yes"], "row 2: the class is 2, but the data set names 2"),
                                    ([0.5, float("nan"), 1.0], None, "row 1: the class is nan")):
            output = self.folder / f"bad{labels[-1]}"
            with library({"train": Table({**rows, "label": labels}, names)}):
                code, said = run("somebody/pairs", "--output", output, *flags)
            self.assertEqual((code, len([line for line in said if what in line])), (3, 1), said)
        with library({"train": Table({**rows, "label": [0.5, 2.0, 1e-3]})}):
            code, said = run("somebody/scores", "--output", self.folder / "scores", *flags)
        self.assertEqual([line["label"] for line in lines_of(self.folder / "scores" / "train.jsonl")], [0.5, 2.0, 1e-3])
        self.assertNotIn("id2label", " ".join(said))

    def test_tags_have_the_names_of_the_data_set(self):
        words = {"words": [["A", "fox"], ["runs"]]}
        splits = {"train": Table({**words, "tags": [[1, 0], [0]]}, ["O", "B-X"]), "test": Table({**words, "tags": [[-1, -1], [-1]]}, ["O", "B-X"])}
        with library(splits):
            code, said = run("somebody/words", "--output", self.output, "--text_column", "words", "--tag_column", "tags")
        self.assertEqual(code, 0, said)
        self.assertEqual(lines_of(self.output / "train.jsonl"), [{"tokens": ["A", "fox"], "tags": ["B-X", "O"]}, {"tokens": ["runs"], "tags": ["O"]}])
        self.assertEqual([line["tags"] for line in lines_of(self.output / "test.jsonl")], [[-1, -1], [-1]])
        self.assertIn("test: its labels are all -1, that is, it has none: as data.test_file it gets predictions alone", said)

        self.assertNotIn("id2label", " ".join(said))
        self.assertFalse(tool.has_no_labels({"words": words["words"], "tags": [[-1, 0], [-1]]}, {"text": "words", "tag": "tags"}))
        for tokens, tags, what in ((["a", "b"], [0], "there are not as many tags as words"), (["a"], [0, 0], "there are not as many tags as words"), (["a\0"], [0], "or contains a zero byte")):
            with library({"train": Table({"words": [tokens], "tags": [tags]})}):
                code, said = run("somebody/words", "--output", self.folder / "bad", "--text_column", "words", "--tag_column", "tags")
            self.assertEqual((code, what in said[-1]), (3, True), said)

    def test_a_file_is_loaded_as_the_split_of_its_name(self):
        for name, loader, split in (("dev-0.parquet", "parquet", "validation"), ("x.arrow", "arrow", "train")):
            (self.folder / name).touch()
            asked = []
            with library({split: Table({"text": ["a"]})}, asked):
                code, said = run(self.folder / name, "--output", self.folder / f"out-{split}", "--text_column", "text")
            self.assertEqual(code, 0, said)
            self.assertEqual(asked, [((loader,), {"data_files": {split: str(self.folder / name)}})])
        asked = []
        with library({"train": Table({"text": ["a"]})}, asked):
            run("somebody/x.parquet", "--output", self.output, "--text_column", "text", "--config", "c", "--revision", "r")
            self.assertEqual(asked, [(("somebody/x.parquet", "c"), {"revision": "r"})])
            code, said = run("somebody/x", "--output", self.folder / "other", "--text_column", "t")
            self.assertEqual((code, said), (2, ['export_dataset: there is no column "t"; name it with --text_column, one of: text']))
            code, said = run("somebody/x", "--output", self.folder / "other", "--text_column", "text", "--split", "test")
            self.assertEqual((code, said), (2, ['export_dataset: there is no split "test"; there are: train']))

    def test_texts_become_a_corpus(self):
        rows = [{"text": "One.\n\n  Two\tthree. \r\n"}, {"text": ""}, {"text": ["Four.", "Fünf."]}, {"text": " "}]
        texts = export_texts.Texts("train", self.output)
        self.assertEqual(tool.export_split("train", rows, {"text": "text"}, texts, self.folder, False), (2, 0))
        self.assertEqual((self.output / "train.txt").read_text(encoding="utf-8"), "One.\nTwo three.\n\nFour.\nFünf.\n")
        for bad in (None, 3, ["a", 1], "\ud800"):
            with self.assertRaisesRegex(tool.ExportError, "^train, row 0: the text is not"):
                tool.export_split("train", [{"text": bad}], {"text": "text"}, export_texts.Texts("train", self.output), self.folder, False)

    def test_a_line_that_a_corpus_cannot_hold_is_a_bad_row(self):
        texts = export_texts.Texts("train", self.output)
        rows = [{"text": "Short."}, {"text": "x" * (2**20 + 1)}, {"text": "y" * 2**20}]
        self.assertEqual(tool.export_split("train", rows, {"text": "text"}, texts, self.folder, True), (2, 1))

    def test_columns_that_do_not_go_together_are_refused(self):
        no_pair, no_tag, no_text = "--text_pair_column needs", "--tag_column needs", "--text_column, --summary_column: texts have"
        for columns, what in (("t text c class s summary", no_text), ("t text p text_pair", no_pair), ("c class p text_pair", no_pair), ("t text l label", no_text), ("c class l label", "--class_column and --label_column: give"),
                              ("g tag", no_tag), ("t text g tag c class", no_tag), ("t text g tag l label", no_tag), ("t text g tag x caption", no_tag), ("t text g tag s summary", no_tag)):
            words = columns.split()
            code, said = run("nowhere", "--output", self.output, *(word for name, column in zip(words[::2], words[1::2]) for word in (f"--{column}_column", name)))
            self.assertEqual((code, len(said), what in said[0]), (2, 1, True), said)
        for column in (("--text_column", "t"), ("--text_column", "t", "--tag_column", "g")):
            self.assertEqual(run("nowhere", "--output", self.output, *column, "--shard_rows", "9")[0], 2)

    def test_a_bad_row_is_named_or_left_out_and_counted(self):
        good = {"image": jpegs(1)[0], "caption": "a"}
        for bad in ({"image": None}, {"image": {"bytes": None, "path": None}}, {"image": "nowhere.jpg"}, {"caption": None},
                    {"caption": " "}, {"caption": []}, {"caption": 3}, {"caption": "\ud800"}, {"image": b""}):
            rows = [good, {**good, **bad}]
            with self.assertRaisesRegex(tool.ExportError, "^train, row 1: "):
                self.export_rows(rows)
            self.assertEqual(self.export_rows(rows, skip_bad=True)[0], (1, 1))

    def test_a_failed_split_leaves_no_manifest(self):
        with self.assertRaises(tool.ExportError):
            self.export_rows([{"image": jpegs(1)[0], "caption": "a"}, {"image": None, "caption": "b"}])
        self.assertFalse((self.output / "train.jsonl").exists())
        with self.assertRaisesRegex(tool.ExportError, "no usable row"):
            self.export_rows([])

    @unittest.skipUnless(HAS_PILLOW, "needs Pillow")
    def test_another_format_becomes_a_jpeg_and_is_counted(self):
        from PIL import Image
        _, lines, pictures = self.export_rows([{"image": bmp((200, 30, 40)), "caption": "a"}] * 2)
        self.assertEqual(pictures.re_encoded, 1)
        with Image.open(self.output / lines[0]["image"]) as picture:
            self.assertEqual((picture.format, picture.mode, picture.size), ("JPEG", "RGB", (16, 24)))
            self.assertLess(max(abs(a - b) for a, b in zip(picture.getpixel((8, 8)), (200, 30, 40))), 4)

    def test_a_png_keeps_its_bytes(self):
        _, lines, pictures = self.export_rows([{"image": png(), "caption": "a"}])
        self.assertEqual(pictures.re_encoded, 0)
        self.assertTrue(lines[0]["image"].endswith(".png"))
        self.assertEqual((self.output / lines[0]["image"]).read_bytes(), png())

    def test_a_png_keeps_its_bytes_in_a_shard(self):
        shards = tool.Shards("train", self.output, 2)
        tool.export_split("train", [{"image": png(), "caption": "a"}], COLUMNS, shards, self.folder, False)
        with tarfile.open(self.output / "train-00000.tar") as tar:
            self.assertEqual(tar.extractfile("000000000.png").read(), png())

    @unittest.skipUnless(HAS_PILLOW, "needs Pillow")
    def test_bytes_that_are_no_picture_are_a_bad_row(self):
        with self.assertRaisesRegex(tool.ExportError, "cannot be decoded"):
            self.export_rows([{"image": b"GIF89a and then nothing", "caption": "a"}])

    def test_writing_that_fails_leaves_no_half_file(self):
        with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
            with self.assertRaises(OSError):
                tool.write_whole(self.folder / "deep" / "x", b"data")
        self.assertEqual(list((self.folder / "deep").iterdir()), [])
