#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/added_forms.json: the ids that Transformers gives with added tokens of every kind, and with accents kept.

    make_added_forms.py [--folders DIR] > tests/data/tokenizer/added_forms.json

A form is a tokenizer of tests/data/tokenizer to which tokens are added as tokenizer.add_tokens does (normalized or not, lstrip, rstrip,
single_word, special), or that keeps accents, saved by Transformers. The file holds what a test puts into the folder's files, strings, and their
ids. tools/fuzz_tokenizers.py --form FORM compares many more strings. --folders keeps the saved folders there. Needs Python with
transformers.
"""
import argparse
import json
import pathlib
import random
import tempfile

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer"
# Text and options. Some overlap, some are equal when normalised, some begin or end with a space.
TOKENS = [
    ("covid", {}), ("Café", {}), ("New York", {}), ("<ent>", {"special": True}), ("<E_1>", {"normalized": False}), ("<e_1>", {}),
    ("vid", {"single_word": True}), ("Ünder_score", {"single_word": True, "lstrip": True}), ("#tag", {"lstrip": True, "rstrip": True}),
    (" gap", {"normalized": False}), ("wide ", {"rstrip": True, "single_word": True, "normalized": False}), ("中x", {}), ("xyz", {"lstrip": True, "normalized": False}),
    ("xyzzy", {"rstrip": True}), ("ﬁn", {}), ("a\u0301b", {}), ("İst", {}), ("[new]", {"special": True, "normalized": True}), ("한", {"single_word": True}),
]
ALPHABETS = [
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", "      ", ".,;:!?-_'\"()[]{}/\\@#$%^&*+=~`|<>", "àéîõüçñßøłžÅÉİıſﬀ",
    "\u0301\u0308\u0327\u0338", "漢字仮名交じり文한국어", "\t\n\r\u00a0\u2003\u200b\u3000\ufeff", "\x00\x01\x7f\ufffd\u00ad\u200d", "😀👍🏽🇩🇪👩‍👩‍👧", "абвгдЯЖЩ", "αβγΔΩ", "אבגשׁ", "كتاب",
    "\u0301\u0308\u0327\u0338\u0323\u0331\u0345\u05b0\u05bc\u064b\u0651\u093c\u0f71\u0f72\u3099\U0001d165\U0001d16eaeoΩがא", "\u1100\u1112\u1161\u1175\u11a7\u11a8\u11c2각가힣", "ͅΣσςİŐⱯȺ\u212a\u212b\u2126ᾳᾼΐ",
    "ªﬁ①½Å\u0301\u0308\u200d\u0340\u0344\u0e33", "▁▁ ", "a\u0301e\u0301\u0302\u200b\r\n", "ﷺ㍿㈠ｶﾞ",
]
FORMS = {  # name: (folder, tokens are added, settings of the tokenizer)
    "bert-added": ("wordpiece", True, {}),
    "bert-cased-added": ("wordpiece", True, {"do_lower_case": False}),
    "bert-keep-accents": ("wordpiece", False, {"strip_accents": False}),
    "bert-keep-accents-added": ("wordpiece", True, {"strip_accents": False}),
    "t5-added": ("unigram", True, {}),
    "clip-added": ("clip", True, {}),
}


def random_string(draw, pieces):
    words = []
    for _ in range(draw.randrange(12)):
        kind = draw.random()
        if kind < 0.3:
            words.append(draw.choice(pieces))
        elif kind < 0.35:
            words.append(draw.choice(("[MASK]", "[CLS]", "[SEP]", "[UNK]", "[mask]", "[ MASK ]", "<extra_id_0>", "<extra_id_99>", "</s>", "<unk>", "＜unk＞", "<|endoftext|>", "<|EndOfText|>", "<|startoftext|>", "<|STARTofText|>>",
                                      "<|endoftext|", "|>", "</w>", "'s", "'LL", "'ve", "''t", "'D", "don't", "!")))
        elif kind < 0.38:
            words.append("".join(chr(draw.choice((draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)))) for _ in range(draw.randrange(1, 6))))
        elif kind < 0.43:
            words.append("".join(chr(draw.choice((draw.randrange(32, 0xD800), draw.randrange(0xE000, 0x11000), draw.randrange(0x1F000, 0x20000)))) for _ in range(draw.randrange(1, 6))))
        else:
            alphabet = draw.choice(ALPHABETS)
            words.append("".join(draw.choice(alphabet) for _ in range(draw.randrange(1, 120 if kind > 0.98 else 12))))
        words.append(draw.choice(("", " ", "  ")))
    return "".join(words)


def save_form(name, folder):
    """Transformers' tokenizer, saved to the folder."""
    from transformers import AddedToken, AutoTokenizer, BertTokenizer, CLIPTokenizer, T5Tokenizer

    kind, adds, settings = FORMS[name]
    tokenizer = {"wordpiece": BertTokenizer, "unigram": T5Tokenizer, "clip": CLIPTokenizer}[kind].from_pretrained(str(DATA / kind), **settings)
    if adds:
        for text, options in TOKENS:
            tokenizer.add_tokens([AddedToken(text, **options)], special_tokens=options.get("special", False))
    tokenizer.save_pretrained(str(folder))
    return AutoTokenizer.from_pretrained(str(folder))


def random_text(draw, pieces):
    """A random string with added tokens in it, in other cases too."""
    parts = []
    for _ in range(draw.randrange(1, 6)):
        token = draw.choice(TOKENS)[0]
        token = draw.choice((token, token, token.upper(), token.lower(), token.strip(), token[:-1], token + "s", "_" + token))
        parts += [token, draw.choice(("", "", " ", "  ", "\t", "\u3000", ".", "é", "\u0301", "\u200d", "1", "①", "中")), draw.choice(("", random_string(draw, pieces)[:12]))]
    return "".join(parts)


def pieces_of(kind):
    if kind == "wordpiece":
        return [piece.removeprefix("##") for piece in (DATA / kind / "vocab.txt").read_text().splitlines()]
    if kind == "clip":
        return [piece.removesuffix("</w>") for piece in json.loads((DATA / kind / "vocab.json").read_text())]
    return [piece.replace("▁", " ") for piece, _ in json.loads((DATA / kind / "tokenizer.json").read_text())["model"]["vocab"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=pathlib.Path)
    options = parser.parse_args()
    forms = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, (kind, adds, settings) in FORMS.items():
            folder = (options.folders or pathlib.Path(temporary)) / name
            tokenizer, draw, pieces = save_form(name, folder), random.Random(name), pieces_of(kind)
            texts = [random_text(draw, pieces) for _ in range(60)] if adds else [random_string(draw, pieces) for _ in range(60)]
            document = json.loads((folder / "tokenizer.json").read_text())
            shown = tokenizer.convert_ids_to_tokens([token["id"] for token in document["added_tokens"]])
            forms.append({"name": name, "folder": kind, "config": settings, "added_tokens": document["added_tokens"], "shown": shown,
                          "texts": texts, "ids": [tokenizer(text)["input_ids"] for text in texts]})
    import transformers

    print(json.dumps({"what": "Transformers' tokenizers with tokens added, and with accents kept", "made_by": f"tools/make_added_forms.py, transformers {transformers.__version__}", "forms": forms}))


if __name__ == "__main__":
    main()
