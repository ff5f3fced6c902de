# SPDX-License-Identifier: Apache-2.0
"""A family and a judge that live in tests/families alone: the program trains, evaluates, resumes and reports them as its own.

A linear classifier learns whether a picture is bright, another one whether a text says so. The first has captions that nobody
reads and no tokenizer; the second has no pictures.
"""
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

from bascule_run import PROGRAM, digest, settings
from run_files import tensors
from small_run import TOKENIZER

OTHER_PROGRAM = PROGRAM.parent / "tests" / "bascule_linear"
SIDE = 16
VOCABULARY = 1000


def png(path, level):
    """A grey square."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes([level] * 3 * SIDE) for _ in range(SIDE))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class OtherFamily(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        model = self.folder / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps({"model_type": "linear", "image_size": SIDE, "vocab_size": VOCABULARY}))
        lines = []
        for level in range(8, 256, 8):
            png(self.folder / f"{level}.png", level)
            lines.append(json.dumps({"image": f"{level}.png", "caption": "", "bright": int(level > 127)}))
        (self.folder / "rows.jsonl").write_text("\n".join(lines) + "\n")

    def start(self, name, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        rows = f'"{self.folder}/rows.jsonl"'
        values = {"model__model_name_or_path": f'"{self.folder}/model"', "model__tokenizer_name": None, "data__train_file": rows, "data__validation_file": rows,
                  "data__test_file": rows, "data__label_column": '"bright"', "data__preprocessing": '"training"', "training__max_steps": "40", "training__eval_steps": "20",
                  "training__save_steps": "20", "training__learning_rate": "1e-2", "training__metric_for_best_model": '"top_1"', **changes}
        file = settings(folder, **values)
        return subprocess.run([str(OTHER_PROGRAM), "run", str(file)], capture_output=True, text=True, timeout=600, check=False), folder / "run"

    def test_it_trains_evaluates_and_reports_as_its_own(self):
        done, run = self.start("whole")
        self.assertEqual(done.returncode, 0, done.stderr)
        results = json.loads((run / "all_results.json").read_text())
        self.assertGreater(results["test_top_1"], 0.8)
        self.assertLess(results["test_loss"], 0.6)
        self.assertIn("top-1 accuracy", done.stdout)
        self.assertIn("top-1 accuracy", (run / "report.html").read_text())
        self.assertIn("LinearForPictures", (run / "README.md").read_text())
        self.assertEqual(json.loads((run / "config.json").read_text())["architectures"], ["LinearForPictures"])
        self.assertEqual(sorted(tensors(run / "model.safetensors")), ["linear.bias", "linear.weight"])
        self.assertIn('"eval_top_1"', (run / "log.jsonl").read_text())

    def test_texts_need_no_pictures(self):
        words = (("dark", "night", "shade"), ("bright", "noon", "sun"))
        for suffix, line in (("jsonl", lambda text, bright: json.dumps({"caption": text, "bright": bright})), ("csv", lambda text, bright: f"{text},{bright}")):
            with self.subTest(suffix=suffix):
                file = self.folder / f"texts.{suffix}"
                lines = [line(f"a {words[bright][i % 3]} picture {i}", bright) for i in range(12) for bright in (0, 1)]
                file.write_text("\n".join((["caption,bright"] if suffix == "csv" else []) + lines) + "\n")
                files = {f"data__{split}_file": f'"{file}"' for split in ("train", "validation", "test")}
                done, run = self.start(suffix, model__head='"text_classes"', model__tokenizer_name=f'"{TOKENIZER}"', data__max_seq_length="16", training__max_steps="120", training__learning_rate="3e-2", **files)
                self.assertEqual(done.returncode, 0, done.stderr)
                results = json.loads((run / "all_results.json").read_text())
                self.assertGreater(results["test_top_1"], 0.9)
                self.assertEqual(sorted(tensors(run / "model.safetensors")), ["linear.bias", "linear.positions", "linear.type", "linear.weight", "linear.words"])
                self.assertTrue((run / "vocab.json").exists())
                self.assertFalse((run / "preprocessor_config.json").exists())

    def test_it_resumes_to_the_same_bits(self):
        _, whole = self.start("whole")
        first, run = self.start("parts", training__max_steps="20", training__lr_schedule_steps="40")
        self.assertEqual(first.returncode, 0, first.stderr)
        second, run = self.start("parts", training__lr_schedule_steps="40")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(digest(run / "model.safetensors"), digest(whole / "model.safetensors"))

    def test_settings_name_its_words(self):
        done, _ = self.start("wrong", model__head='"contrastive"')
        self.assertEqual(done.returncode, 2)
        self.assertIn('model.head: "contrastive" is not a valid value; allowed: "picture_classes" or "text_classes"', done.stderr)


if __name__ == "__main__":
    unittest.main()
