# SPDX-License-Identifier: Apache-2.0
"""tools/export_dataset.py reads data sets of every kind, and goes on where it was interrupted.

Needs the `datasets` library and Pillow, and is skipped where they are not installed; a bare Debian has neither.
"""
import os
import shutil
import tempfile
import unittest
from unittest import mock

from exporting import HAS_DATASETS, InAFolder, bmp, jpegs, lines_of, run, tool


def setUpModule():
    """The datasets library reads these when it is imported: no network, and a cache of this test alone."""
    cache = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(cache.cleanup)
    os.environ.update(HF_HOME=cache.name, HF_HUB_OFFLINE="1")


@unittest.skipUnless(HAS_DATASETS, "needs the datasets library")
class DataSets(InAFolder):
    def setUp(self):
        super().setUp()
        import datasets
        self.datasets = datasets
        datasets.disable_progress_bars()
        pictures = jpegs(3) + [bmp((10, 20, 30))]
        self.rows = {"picture": [{"bytes": pictures[i % 4], "path": None} for i in range(10)],
                     "text": [f"caption {i}" for i in range(10)], "label": [i % 2 for i in range(10)]}
        features = datasets.Features({"picture": datasets.Image(), "text": datasets.Value("string"),
                                      "label": datasets.ClassLabel(names=["no", "yes"])})
        self.table = datasets.Dataset.from_dict(self.rows, features=features)
        self.flags = ["--output", self.output, "--image_column", "picture", "--caption_column", "text"]

    def saved(self):
        source = self.folder / "saved"
        self.datasets.DatasetDict({"train": self.table, "validation": self.table.select(range(4))}).save_to_disk(source)
        return source

    def test_a_saved_data_set_gives_its_splits(self):
        code, said = run(self.saved(), *self.flags, "--label_column", "label")
        self.assertEqual(code, 0, said)
        train = lines_of(self.output / "train.jsonl")
        self.assertEqual([line["caption"] for line in train], self.rows["text"])
        self.assertEqual([line["label"] for line in train], self.rows["label"])
        self.assertEqual(len(lines_of(self.output / "validation.jsonl")), 4)
        self.assertEqual((self.output / train[5]["image"]).read_bytes(), jpegs(3)[1])
        self.assertIn("train: 10 rows, 4 pictures, 1 re-encoded as JPEG of quality 95, 0 skipped", said)

    def test_an_interrupted_export_goes_on_and_another_is_refused(self):
        source = self.saved()
        self.assertEqual(run(source, *self.flags)[0], 0)
        before = {path: path.stat().st_mtime_ns for path in self.output.rglob("*.jpg")}
        whole = (self.output / "validation.jsonl").read_bytes()
        (self.output / "validation.jsonl").unlink()
        code, said = run(source, *self.flags)
        self.assertEqual(code, 0)
        self.assertIn("train: already exists", said)
        self.assertEqual((self.output / "validation.jsonl").read_bytes(), whole)
        self.assertEqual({path: path.stat().st_mtime_ns for path in self.output.rglob("*.jpg")}, before)
        code, said = run(source, *self.flags, "--label_column", "label")
        self.assertEqual((code, len(said)), (2, 1))

    def test_parquet_and_picture_folders_are_read(self):
        parquet = self.folder / "parquet"
        parquet.mkdir()
        self.table.to_parquet(parquet / "train.parquet")
        self.assertEqual(run(parquet, *self.flags)[0], 0)
        self.assertEqual((self.output / lines_of(self.output / "train.jsonl")[0]["image"]).read_bytes(), jpegs(1)[0])
        pictures = self.folder / "pictures" / "train"
        pictures.mkdir(parents=True)
        (pictures / "a.jpg").write_bytes(jpegs(1)[0])
        (pictures / "metadata.jsonl").write_text('{"file_name": "a.jpg", "text": "hello"}\n')
        output = self.folder / "out2"
        code, said = run(pictures.parent, "--output", output, "--caption_column", "text")
        self.assertEqual(code, 0, said)
        self.assertEqual((output / lines_of(output / "train.jsonl")[0]["image"]).read_bytes(), jpegs(1)[0])

    def test_a_single_file_gives_the_split_of_its_name_and_keeps_names_of_classes(self):
        self.saved()
        arrow = next((self.folder / "saved" / "train").glob("*.arrow"))
        for name, split in (("validation-00000-of-00001.parquet", "validation"), ("cats.parquet", "train"), ("test.arrow", "test")):
            file, output = self.folder / name, self.folder / f"out-{split}"
            if file.suffix == ".arrow":
                shutil.copy(arrow, file)
            else:
                self.table.to_parquet(file)
            code, said = run(file, "--output", output, "--image_column", "picture", "--class_column", "label")
            self.assertEqual(code, 0, said)
            self.assertEqual([line["label"] for line in lines_of(output / f"{split}.jsonl")], ["no", "yes"] * 5)
        code, said = run(self.folder / "absent.parquet", *self.flags)
        self.assertEqual((code, len(said)), (3, 1), said)

    def test_classes_are_exported_with_their_names(self):
        code, said = run(self.saved(), "--output", self.output, "--image_column", "picture", "--class_column", "label")
        self.assertEqual(code, 0, said)
        self.assertEqual([line["label"] for line in lines_of(self.output / "train.jsonl")], ["no", "yes"] * 5)

    def test_texts_are_exported_with_a_part_for_validation(self):
        source = self.folder / "texts"
        self.datasets.DatasetDict({"train": self.table}).save_to_disk(source)
        code, said = run(source, "--output", self.output, "--text_column", "text", "--validation_fraction", "0.2")
        self.assertEqual(code, 0, said)
        parts = [(self.output / f"{name}.txt").read_text().strip().split("\n\n") for name in ("train", "validation")]
        self.assertEqual([len(part) for part in parts], [8, 2])
        self.assertEqual(sorted(sum(parts, [])), self.rows["text"])
        self.assertIn("train: 8 rows, 0 skipped", said)
        self.assertIn("train: already exists", run(source, "--output", self.output, "--text_column", "text", "--validation_fraction", "0.2")[1])

    def test_texts_with_summaries_become_rows(self):
        source = self.folder / "texts"
        table = self.datasets.Dataset.from_dict({"long": ["one\ntwo", "ünï 🦊"], "short": ["1", "2\n3"], "id": [1, 2]})
        self.datasets.DatasetDict({"train": table, "test": table.select([1])}).save_to_disk(source)
        flags = ("--output", self.output, "--text_column", "long", "--summary_column", "short")
        code, said = run(source, *flags)
        self.assertEqual(code, 0, said)
        self.assertEqual(lines_of(self.output / "train.jsonl"), [{"text": "one\ntwo", "summary": "1"}, {"text": "ünï 🦊", "summary": "2\n3"}])
        self.assertEqual(lines_of(self.output / "test.jsonl"), [{"text": "ünï 🦊", "summary": "2\n3"}])
        self.assertIn("train: 2 rows, 0 skipped", said)
        self.assertIn("train: already exists", run(source, *flags)[1])

    def test_texts_with_labels_become_rows(self):
        # As in MRPC: F1 is of class 1 of the data set, whatever the order of the names.
        names = self.datasets.ClassLabel(names=["not_equivalent", "equivalent"])
        for labels, feature, expected in (([1, 0], names, [1, 0]), ([4, 0], self.datasets.Value("int64"), [4, 0]), ([2.5, 3.0], self.datasets.Value("float32"), [2.5, 3.0])):
            source, output = self.folder / f"source{expected[0]}", self.folder / f"out{expected[0]}"
            rows = {"a": ["one", ""], "b": ["two", "ünï"], "label": labels}
            table = self.datasets.Dataset.from_dict(rows, features=self.datasets.Features(a=self.datasets.Value("string"), b=self.datasets.Value("string"), label=feature))
            unlabelled = self.datasets.Dataset.from_dict({**rows, "label": [-1, -1]}, features=table.features)
            self.datasets.DatasetDict({"train": table, "test": unlabelled}).save_to_disk(source)
            code, said = run(source, "--output", output, "--text_column", "a", "--text_pair_column", "b", "--class_column", "label")
            self.assertEqual(code, 0, said)
            self.assertEqual(lines_of(output / "train.jsonl"), [{"text": "one", "text_pair": "two", "label": expected[0]}, {"text": "", "text_pair": "ünï", "label": expected[1]}])
            self.assertEqual(lines_of(output / "test.jsonl"), [{"text": "one", "text_pair": "two", "label": -1}, {"text": "", "text_pair": "ünï", "label": -1}])
            self.assertIn("its labels are all -1", " ".join(said))
            self.assertEqual('"id2label": {"0": "not_equivalent", "1": "equivalent"}' in " ".join(said), feature is names)

    def test_words_with_tags_become_rows(self):
        classes = self.datasets.ClassLabel(names=["O", "B-PER"])
        for number, (feature, tags, expected) in enumerate(((classes, [[1, 0], [0]], [["B-PER", "O"], ["O"]]), (self.datasets.Value("string"), [["x", "y"], ["z"]], [["x", "y"], ["z"]]))):
            source, output = self.folder / f"words{number}", self.folder / f"words-out{number}"
            features = self.datasets.Features(id=self.datasets.Value("string"), tokens=self.datasets.Sequence(self.datasets.Value("string")), ner_tags=self.datasets.Sequence(feature))
            table = self.datasets.Dataset.from_dict({"id": ["0", "1"], "tokens": [["Ünï", "fox"], ["a"]], "ner_tags": tags}, features=features)
            self.datasets.DatasetDict({"train": table}).save_to_disk(source)
            code, said = run(source, "--output", output, "--text_column", "tokens", "--tag_column", "ner_tags")
            self.assertEqual(code, 0, said)
            self.assertEqual(lines_of(output / "train.jsonl"), [{"tokens": ["Ünï", "fox"], "tags": expected[0]}, {"tokens": ["a"], "tags": expected[1]}])
        features = self.datasets.Features(tokens=self.datasets.Sequence(self.datasets.Value("string")), tags=self.datasets.Sequence(classes))
        self.datasets.Dataset.from_dict({"tokens": [["a", "b"]], "tags": [[0]]}, features=features).save_to_disk(self.folder / "short")
        code, said = run(self.folder / "short", "--output", self.folder / "short-out", "--text_column", "tokens", "--tag_column", "tags")
        self.assertEqual(code, 3)
        self.assertIn("there are not as many tags as words", " ".join(said))
        self.assertEqual(run(self.folder / "short", "--output", self.folder / "other", "--tag_column", "tags")[0], 2)

    def test_columns_of_known_data_sets_need_no_name(self):
        for name, text in (("cnn_dailymail", "article"), ("xsum", "document"), ("samsum", "dialogue")):
            summary = "highlights" if name == "cnn_dailymail" else "summary"
            table = self.datasets.Dataset.from_dict({text: ["a long text"], summary: ["a text"], "id": ["x"]})
            self.datasets.DatasetDict({"train": table}).save_to_disk(self.folder / name)
            output = self.folder / f"{name}-out"
            code, said = run(self.folder / name, "--output", output)
            self.assertEqual(code, 0, said)
            self.assertEqual(lines_of(output / "train.jsonl"), [{"text": "a long text", "summary": "a text"}])
            code, said = run(self.folder / name, "--output", self.folder / f"{name}-corpus", "--text_column", text)
            self.assertEqual((code, (self.folder / f"{name}-corpus" / "train.txt").read_text()), (0, "a long text\n"))

    def test_train_is_cut_60_20_20_without_a_test_split(self):
        source = self.folder / "one"
        self.datasets.DatasetDict({"train": self.table}).save_to_disk(source)
        self.assertEqual(run(source, *self.flags, "--make_test_split")[0], 0)
        captions = [{line["caption"] for line in lines_of(self.output / f"{name}.jsonl")}
                    for name in ("train", "validation", "test")]
        self.assertEqual([len(c) for c in captions], [6, 2, 2])
        self.assertEqual(set.union(*captions), set(self.rows["text"]))

    def test_too_few_rows_to_cut_are_one_line(self):
        source = self.folder / "one"
        self.datasets.DatasetDict({"train": self.table.select([0])}).save_to_disk(source)
        for flags in (("--make_test_split",), ("--validation_fraction", "0.2")):
            code, said = run(source, *self.flags, *flags)
            self.assertEqual((code, len(said)), (3, 1), said)
            self.assertIn("train: too few rows (1) to cut off", said[0])

    def test_mistakes_are_one_line(self):
        source = self.saved()
        occupied = self.folder / "occupied"
        occupied.mkdir()
        (occupied / "x").write_text("")
        for expected, arguments in ((2, (source, "--output", self.output)),
                                    (2, (source, *self.flags, "--split", "nothing")),
                                    (2, (source, "--output", occupied)),
                                    (3, (self.folder / "nowhere", "--output", self.output))):
            code, said = run(*arguments)
            self.assertEqual((code, len(said)), (expected, 1), said)
            self.assertFalse(self.output.exists())

    def test_a_full_disk_is_exit_code_6(self):
        source = self.saved()
        with mock.patch.object(tool, "write_whole", side_effect=OSError(28, "No space left on device", "x")):
            code, said = run(source, *self.flags)
        self.assertEqual((code, len(said)), (6, 1))
