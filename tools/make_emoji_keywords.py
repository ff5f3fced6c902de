#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/emoji-keywords: the names of emoji and their keywords, out of the captions of tests/data/emoji-captions.

  tools/make_emoji_keywords.py [FOLDER]        FOLDER: where to write; default tests/data/emoji-keywords

A caption is "name | group, keyword, ...". Its row has the name as `text` and what follows the bar as `summary`; captions without
a bar are left out. The prefix that the model reads before each text is data.source_prefix of config/t5_demo.toml.
"""
import json
import pathlib
import sys

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
SPLITS = ("train", "validation", "test")


def rows_of(split):
    for line in (DATA / "emoji-captions" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines():
        name, bar, keywords = json.loads(line)["caption"].partition(" | ")
        if bar:
            yield {"text": name, "summary": keywords}


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "emoji-keywords"
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows_of(split)]
        (folder / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
