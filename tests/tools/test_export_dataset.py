# SPDX-License-Identifier: Apache-2.0
"""tools/export_dataset.py writes manifests whose pictures are the source's, and goes on where it was interrupted.

What needs the `datasets` library or Pillow is skipped where they are not installed; a bare Debian has neither.
"""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "tests/data/emoji-captions/images"
PNGS = ROOT / "tests/data/images/png"
WEBPS = ROOT / "tests/data/images/webp"

sys.path.insert(0, str(ROOT / "tools"))  # for what the tool imports
spec = importlib.util.spec_from_file_location("export_dataset", ROOT / "tools/export_dataset.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)
import export_pictures  # noqa: E402: the path first
import export_texts  # noqa: E402

HAS_PILLOW = importlib.util.find_spec("PIL") is not None
HAS_DATASETS = HAS_PILLOW and importlib.util.find_spec("datasets") is not None
COLUMNS = {"image": "image", "caption": "caption"}


def jpegs(count):
    return [path.read_bytes() for path in sorted(PICTURES.glob("*.jpg"))[:count]]


def bmp(colour):
    from PIL import Image
    out = io.BytesIO()
    Image.new("RGB", (16, 24), colour).save(out, "BMP")
    return out.getvalue()


def png():
    return (PNGS / "rgba_8.png").read_bytes()


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(*arguments):
    """The tool as a command -> (exit code, lines of standard error)."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = tool.main([str(a) for a in arguments])
    return code, said.getvalue().splitlines()


def setUpModule():
    """The datasets library reads these when it is imported: no network, and a cache of this test alone."""
    cache = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(cache.cleanup)
    os.environ.update(HF_HOME=cache.name, HF_HUB_OFFLINE="1")


class InAFolder(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory()
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        self.output = self.folder / "out"

    def export_rows(self, rows, columns=None, skip_bad=False):
        pictures = tool.Pictures(self.output)
        with contextlib.redirect_stderr(io.StringIO()):
            manifest = tool.Manifest("train", self.output, pictures)
            counts = tool.export_split("train", rows, columns or COLUMNS, manifest, self.folder, skip_bad)
        return counts, lines_of(self.output / "train.jsonl"), pictures


class Rows(InAFolder):
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
        with self.assertRaisesRegex(tool.ExportError, "the class is 2, but the data set names 2"):
            tool.export_split("named", [{"image": first, "kind": 2}], columns, manifest, self.folder, False, ["cat", "dog"])

    def test_classes_stand_in_shards(self):
        shards = tool.Shards("train", self.output, 2)
        tool.export_split("train", [{"image": jpegs(1)[0], "kind": 1}], {"image": "image", "class": "kind"}, shards, self.folder, False, ["cat", "dog"])
        with tarfile.open(self.output / "train-00000.tar") as tar:
            self.assertEqual(json.loads(tar.extractfile("000000000.json").read()), {"label": "dog"})

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
        for arguments in (("--text_column", "t", "--class_column", "c", "--summary_column", "s"), ("--text_column", "t", "--text_pair_column", "p"), ("--text_column", "t", "--shard_rows", "9"), ("--class_column", "c", "--label_column", "l")):
            code, said = run("nowhere", "--output", self.output, *arguments)
            self.assertEqual((code, len(said)), (2, 1), said)

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
            self.assertFalse((output / "test.jsonl").exists())
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


if __name__ == "__main__":
    unittest.main()
