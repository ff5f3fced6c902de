# SPDX-License-Identifier: Apache-2.0
"""tests/data/emoji-keywords is what tools/make_emoji_keywords.py writes: names and keywords of all captions with a bar."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data"
ROWS = {"train": 1556, "validation": 197, "test": 100}


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class MakeEmojiKeywords(unittest.TestCase):
    def test_the_files_are_what_the_tool_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "tools/make_emoji_keywords.py", folder], check=True)
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), sorted(f"{split}.jsonl" for split in ROWS))
            for split in ROWS:
                self.assertEqual((DATA / "emoji-keywords" / f"{split}.jsonl").read_bytes(), pathlib.Path(folder, f"{split}.jsonl").read_bytes())

    def test_each_row_is_a_caption_divided_at_its_bar(self):
        for split, count in ROWS.items():
            rows = rows_of(DATA / "emoji-keywords" / f"{split}.jsonl")
            captions = [row["caption"] for row in rows_of(DATA / "emoji-captions" / f"{split}.jsonl")]
            self.assertEqual([list(row) for row in rows], [["text", "summary"]] * count)
            self.assertEqual([f"{row['text']} | {row['summary']}" for row in rows], [caption for caption in captions if " | " in caption])
