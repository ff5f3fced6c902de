#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/unigram_forms.json: ids by the tokenizers library for tests/data/tokenizer/unigram with the other
published forms of its pipeline, and of pairs of texts.

usage: tools/make_unigram_forms.py > tests/data/tokenizer/unigram_forms.json

Needs Python with the package tokenizers.
"""
import json
import pathlib

from fuzz_tokenizers import with_form
from tokenizers import Tokenizer

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer" / "unigram"
TEXTS = [
    "", " ", "   ", "two cats", "two  cats", "two   cats ", " two cats\t", "two\tcats\n\nhere  ", "two\u2003cats\u3000 ", "\u2581two", "\u2581\u2581two\u2581 cats",
    "a <extra_id_0>  b", "<extra_id_0> <extra_id_1>", "  <extra_id_0>  ", "x</s> y", "two cats \u1680 ", "a\u0085b ", "e\u0301\u0301 ﬁ\u0301 ª\u0301x", "a\r\nb\r\r\nc",
    "\u200b\u0301 \u00ad", "日本語 ﷺ ㍿", "😀👍🏽 ok", "The \"collections\" module", "1½ kg, 20 ﬁles", "A\u0308\u0301\u0302\u0304\u0306\u0340\u0344b",
]


def main():
    document = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
    out = {"texts": TEXTS, "forms": {}}
    for form in ("strip", "strip-space"):
        changed = with_form(json.loads(json.dumps(document)), form)
        tokenizer = Tokenizer.from_str(json.dumps(changed))
        pipeline = {"normalizers": changed["normalizer"]["normalizers"][1:], "pre_tokenizer": changed["pre_tokenizer"]}
        out["forms"][form] = {**pipeline, "ids": [tokenizer.encode(text).ids for text in TEXTS]}
    tokenizer = Tokenizer.from_str(json.dumps(document))
    out["ids"] = [tokenizer.encode(text).ids for text in TEXTS]
    out["decoded"] = tokenizer.decode_batch(out["ids"])
    out["pairs"] = [{"first": a, "second": b, "ids": tokenizer.encode(a, b).ids} for a, b in zip(TEXTS[3:9], TEXTS[17:23])]
    rows = [json.dumps({key: value}, ensure_ascii=True)[1:-1] for key, value in out.items()]
    print("{\n" + ",\n".join(rows) + "\n}")


if __name__ == "__main__":
    main()
