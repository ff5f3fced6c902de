#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/words.json: tokens of words, and places of tokens in texts, as Transformers' tokenizers give them for token classification.

    make_word_goldens.py [OUT_FILE] [--cases N]

Words are tokenised with is_split_into_words = True, those of RoBERTa with add_prefix_space = True; word_ids() says which word a token is of. Texts are those of the whole tokenizer's cases.
Needs transformers.
"""
import argparse
import json
import pathlib
import random

import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOKENIZERS = ROOT / "tests" / "data" / "tokenizer"
KINDS = {"wordpiece": (TOKENIZERS / "wordpiece", "BertTokenizer", {}), "roberta": (TOKENIZERS / "roberta-50k", "RobertaTokenizer", {"add_prefix_space": True})}
ODD_WORDS = ["", " ", "New York", " a", "b ", "don't", "U.S.", "3,000.50", "naïve", "ÉCOLE", "東京", "日本語です", "İstanbul", "e\u0301a", "\u200b", "\x01", "a\x01b", "[SEP]", "</s>", "a</s>b", "x[MASK]y", "<mask>",
             "-", "...", "word" * 30, "🙂", "👩‍👩‍👧", "ﬁne", "\u00a0", "a\u00a0b", "Straße", "#tag", "@user", "http://a.b/c?d=e", "\n", "ß", "ǅ", "Ω"]


def words_of(draw, texts):
    """A few words, some of them odd."""
    words = [word for word in draw.choice(texts).split() if "\0" not in word][:draw.randint(1, 12)] or ["a"]
    for _ in range(draw.choice([0, 1, 1, 3])):
        words.insert(draw.randint(0, len(words)), draw.choice(ODD_WORDS))
    return words


def cases_of(kind, count):
    folder, name, options = KINDS[kind]
    tokenizer = getattr(transformers, name).from_pretrained(folder, **options)
    plain = getattr(transformers, name).from_pretrained(folder)
    texts = [case["text"] for case in json.loads((TOKENIZERS / "wordpiece_cases.json").read_text())["cases"] if case["text"].strip() and "\0" not in case["text"] and len(case["text"]) < 90]
    draw = random.Random(kind)
    lists = []
    for _ in range(count):
        words, length = words_of(draw, texts), draw.choice([3, 5, 9, 16, 64, 64])
        encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=length)
        whole = tokenizer(words, is_split_into_words=True)
        kept, all_of = set(encoded.word_ids()), set(whole.word_ids())
        lists.append({"words": words, "max_length": length, "ids": encoded["input_ids"], "word_ids": [-1 if word is None else word for word in encoded.word_ids()], "cut": len(all_of - kept)})
    placed = []
    for text in draw.sample(texts, min(count, len(texts))) + ["a " + word + " b" for word in ODD_WORDS]:
        encoded = plain(text, return_offsets_mapping=True, add_special_tokens=False)
        placed.append({"text": text, "ids": encoded["input_ids"], "places": [place for pair in encoded["offset_mapping"] for place in pair]})
    return {"lists": lists, "texts": placed}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", default=str(TOKENIZERS / "words.json"), help="default: tests/data/tokenizer/words.json")
    parser.add_argument("--cases", type=int, default=14, help="of each kind (14)")
    arguments = parser.parse_args()
    made = {"made_with": {"transformers": transformers.__version__}, **{kind: cases_of(kind, arguments.cases) for kind in KINDS}}
    pathlib.Path(arguments.out).write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
