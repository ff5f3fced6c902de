# SPDX-License-Identifier: Apache-2.0
"""Pillow reads the pictures that src/pictures/png_file.h writes: every pixel, every text, and nothing else in them.

Skipped where Pillow or the test program is missing; a bare Debian has no Pillow.
"""
import importlib.util
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build")).resolve() / "tests/pictures/test_pictures"
TEXTS = {"Software": "Bascule", "prompt": "a fox, \"quoted\"\nand a second line", "negative prompt": "naïve 🦊", "seed": ""}


@unittest.skipIf(importlib.util.find_spec("PIL") is None, "needs Pillow")
@unittest.skipUnless(PROGRAM.exists(), f"needs {PROGRAM.name}")
class PngFiles(unittest.TestCase):
    def test_pillow_reads_them(self):
        from PIL import Image
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "--gtest_filter=PngFile.IsWrittenForOtherReaders"], check=True, capture_output=True,
                           env=os.environ | {"BASCULE_PNG_SAMPLES": folder})
            pictures = sorted(pathlib.Path(folder).glob("*.png"))
            self.assertEqual([path.stem for path in pictures], ["1x1", "24x16", "512x512"])
            for path in pictures:
                with Image.open(path) as picture:
                    self.assertEqual((picture.format, picture.mode), ("PNG", "RGB"))
                    self.assertEqual("{}x{}".format(*picture.size), path.stem)
                    self.assertEqual(picture.tobytes(), path.with_suffix(".rgb").read_bytes())
                    self.assertEqual({key: str(value) for key, value in picture.info.items()}, TEXTS)
