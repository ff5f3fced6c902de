#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/tokenizer/clip_forms.json: what Transformers' CLIPTokenizer makes of strings with the files of
tests/data/tokenizer/clip and other files beside them, the text of ids in any order, and what of prompts is cut at 77 tokens.

usage: tools/make_clip_forms.py > tests/data/tokenizer/clip_forms.json

Needs Python with the package transformers.
"""
import json
import pathlib
import random
import shutil
import tempfile

import transformers
from transformers import CLIPTokenizer

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer" / "clip"
TEXTS = [
    "", "hello!", "! a!b !!!", "<|endoftext|>", "<|EndOfText|>", "<|StartOfText|>>", "a <|endoftext|>> <|ENDOFTEXT|>>", "..<|EndOfText|>", "<Cat> <cat> <CAT>s cat",
    "e\u0301<Cat>\u0301", "a \u00a0<Dog>\u0301 <dog>", "\u0130<|endoftext|>\u0307", "D'S 's'T", "</w> a</w>b", "\ud55c\u1100\u1161\u11a8", "<|startoftext|>x<|startoftext|>",
]
LENGTH = 77
PROMPTS = [
    "a photo of an astronaut riding a horse on mars", "", "!", " ".join(f"word {number}," for number in range(30)), "a " * 74 + "b", "a " * 75 + "b", "a " * 75 + "b c <|endoftext|> Don't",
    "\U0001f600" * 30, "caf\u00e9 " * 40,
]


def files_of_forms():
    written = {role: {"content": f"<|{name}oftext|>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
               for role, name in (("bos_token", "start"), ("eos_token", "end"), ("unk_token", "end"))}
    config = {"tokenizer_class": "CLIPTokenizer", "model_max_length": LENGTH}
    typed = {**config, **{role: {"__type": "AddedToken", **token} for role, token in written.items()}, "pad_token": "<|endoftext|>"}
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    cat = {**plain, "id": 1514, "content": "<Cat>", "normalized": True, "special": False}
    dog = {**plain, "id": 1515, "content": "<Dog>", "lstrip": True, "rstrip": True}
    specials = [{**plain, "id": 1512, "content": "<|startoftext|>"}, {**plain, "id": 1513, "content": "<|endoftext|>", "normalized": True}]
    return {
        "vocabulary": {"tokenizer_config.json": config},
        "sd1": {"tokenizer_config.json": typed, "special_tokens_map.json": {**written, "pad_token": "<|endoftext|>"}},
        "sd2": {"tokenizer_config.json": typed, "special_tokens_map.json": {**written, "pad_token": "!"}},
        "added": {"tokenizer_config.json": config, "added_tokens.json": {"<Cat>": 1514, "<Dog>": 1515}},
        "further": {"tokenizer_config.json": {**config, "extra_special_tokens": ["cat</w>"]}},
        "listed": {"tokenizer_config.json": {**config, "pad_token": "!", "added_tokens_decoder": {
            "0": {**plain, "content": "!"}, **{str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in specials}}},
            "special_tokens_map.json": {"pad_token": "a"}, "added_tokens.json": {"<Cat>": 1514}},
        "document": {"tokenizer_config.json": config, "added_tokens": [*specials, cat, dog]},
    }


def load(files):
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        if "added_tokens" in files:
            document = json.loads((FOLDER / "tokenizer.json").read_text(encoding="utf-8"))
            document["added_tokens"] = files["added_tokens"]
            (folder / "tokenizer.json").write_text(json.dumps(document))
        else:
            for name in ("vocab.json", "merges.txt"):
                shutil.copy(FOLDER / name, folder)
        for name, content in files.items():
            if name.endswith(".json"):
                (folder / name).write_text(json.dumps(content))
        return CLIPTokenizer.from_pretrained(temporary)


def prompt_row(tokenizer, text):
    whole = tokenizer(text).input_ids
    cut = whole[LENGTH - 1 : -1]  # as diffusers' Stable Diffusion pipeline takes them for its warning
    return {"text": text, "ids": tokenizer(text, padding="max_length", max_length=LENGTH, truncation=True).input_ids, "tokens_cut": len(cut) if len(whole) > LENGTH else 0,
            "text_cut": tokenizer.decode(cut, skip_special_tokens=True) if len(whole) > LENGTH else ""}


def main():
    heads = [{"what": "Transformers' CLIPTokenizer with other files beside those of clip/; rows: ids in any order and their text; "
                       "prompts: cut and padded to 77, and what was cut"},
            {"made_by": f"tools/make_clip_forms.py, transformers {transformers.__version__}"}, {"texts": TEXTS}]
    forms = []
    for name, files in files_of_forms().items():
        tokenizer = load(files)
        form = {"name": name, "files": files, "pad_id": tokenizer.pad_token_id, "ids": [tokenizer(text).input_ids for text in TEXTS]}
        form["decoded"] = [tokenizer.decode(ids, skip_special_tokens=True) for ids in form["ids"]]
        form["pair"] = tokenizer("two", "cats").input_ids
        if name == "vocabulary":
            draw = random.Random(1)
            rows = [[draw.randrange(draw.choice((256, 512, 1520))) for _ in range(draw.randrange(1, 9))] for _ in range(300)]
            form["rows"] = [[ids, tokenizer.decode(ids, skip_special_tokens=True)] for ids in rows]
        if name in ("sd1", "sd2"):
            form["prompts"] = [prompt_row(tokenizer, text) for text in PROMPTS]
        forms.append(form)
    print("{\n" + ",\n".join(json.dumps(head)[1:-1] for head in heads) + ',\n"forms": [\n' + ",\n".join(json.dumps(form) for form in forms) + "\n]\n}")


if __name__ == "__main__":
    main()
