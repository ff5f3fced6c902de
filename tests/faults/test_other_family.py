# SPDX-License-Identifier: Apache-2.0
"""A family and a judge that live in tests/families alone: the program trains, evaluates, resumes and reports them as its own.

A linear classifier learns whether a picture is bright. Its rows have a caption, which nobody reads, and no tokenizer.
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

OTHER_PROGRAM = PROGRAM.parent / "tests" / "bascule_linear"
SIDE = 16


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
        (model / "config.json").write_text(json.dumps({"model_type": "linear", "image_size": SIDE}))
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
        self.assertIn('model.head: "contrastive" is not a valid value; allowed: "picture_classes"', done.stderr)


if __name__ == "__main__":
    unittest.main()
