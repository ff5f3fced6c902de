# SPDX-License-Identifier: Apache-2.0
"""What the tests of `bascule doctor` share: its answer, and data to plant faults in."""
import json
import pathlib
import shutil
import struct
import zlib

from bascule_run import EMOJI, ROOT, FolderTest, run_ends, settings

DATA = ROOT / "tests/data"
SETTINGS_ERROR, DATA_ERROR, MEMORY = 2, 3, 4


def rows_of(path):
    return [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def png_file(width, height, bits, color, lines):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b"")


def png(width, height, pixel=None):
    """A PNG file of RGB pixels; without them it is black."""
    return png_file(width, height, 8, 2, b"".join(b"\0" + (bytes(3 * width) if pixel is None else b"".join(bytes(pixel(x, y)) for x in range(width))) for y in range(height)))


def grey_16(width, height):
    return png_file(width, height, 16, 0, b"".join(b"\0" + b"".join(struct.pack(">H", 40 * x * y) for x in range(width)) for y in range(height)))


class DoctorTest(FolderTest):
    def doctor(self, toml, *arguments, code=0, **options):
        done = run_ends(code, "doctor", toml, "--json", *arguments, **options)
        return json.loads(done.stdout)

    def findings(self, document):
        """By (check, split); the split begins the line."""
        return {(finding["check"], finding["what"].split(":")[0]): finding for finding in document["findings"]}

    def assert_found(self, findings, *wanted):
        for check, split, level, count in wanted:
            with self.subTest(check=check, split=split):
                self.assertIn((check, split), findings)
                found = findings[check, split]
                self.assertEqual((found["level"], found["count"]), (level, count), found["what"])

    def assert_says(self, findings, wanted):
        """wanted: what follows the split and the number of rows, and the advice, by (check, split)."""
        for key, words in wanted.items():
            with self.subTest(key=key):
                self.assertEqual((findings[key]["what"].split(": ", 1)[1], findings[key]["what_to_do"]), words)

    def captions(self, plant=lambda rows: None, **changes):
        """Settings for 64 pictures of the demo with their captions, in which `plant` puts faults."""
        images = self.folder / "images"
        images.mkdir(exist_ok=True)
        rows = {"train": rows_of(EMOJI / "train.jsonl")[:48], "validation": rows_of(EMOJI / "validation.jsonl")[:16]}
        for row in rows["train"] + rows["validation"]:
            shutil.copy(EMOJI / row["image"], images)
        plant(rows)
        for split, of_split in rows.items():
            write_rows(self.folder / f"{split}.jsonl", of_split)
        return settings(self.folder, **{"data__train_file": f'"{self.folder}/train.jsonl"', "data__validation_file": f'"{self.folder}/validation.jsonl"', **changes})
