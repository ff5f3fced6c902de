#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `bascule tokenize` with the tokenizers library on random strings, and both rates on a text.

  tools/fuzz_tokenizers.py [--program build/bascule] [--model FOLDER] [--form FORM] [--strings 100000] [--pairs 10000] [--seed 1] [--text FILE]

FOLDER holds a WordPiece tokenizer (tests/data/tokenizer/wordpiece, the default), a unigram one (tests/data/tokenizer/unigram) or CLIP's
(tests/data/tokenizer/clip). --form replaces a folder by another published form: of unigram tokenizers the pipeline ("strip", "strip-space"),
of CLIP's the files: "vocabulary" (vocab.json and merges.txt), "sd1" and "sd2" (with the special tokens as Stable Diffusion 1.x and 2.x
write them). A form of tools/make_added_forms.py ("bert-added", "bert-keep-accents", "t5-added", ...) brings its own folder, as Transformers saves it. Of unigram tokenizers and CLIP's the decoded text is compared too. Needs Python with the package tokenizers, for CLIP's transformers
too. Strings are drawn from letters, accents, Chinese, control characters, spaces of every kind, punctuation, emoji, marks, all planes and pieces of
the vocabulary. Exit code 1 where ids differ: the first string that does is printed.
"""
import argparse
import json
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import make_added_forms

ROOT = pathlib.Path(__file__).resolve().parent.parent


def ours(program, model, rows, *options):
    """(ids or texts, seconds of CPU time)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, "tokenize", "--model", model, *options], input=json.dumps(rows), capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(done.stderr.strip())
    return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def with_form(document, form):
    """The unigram tokenizer with another pipeline: white space at the end goes, several spaces are one."""
    replacement = {"strip": "▁", "strip-space": " "}[form]
    map_of_characters = document["normalizer"]
    document["normalizer"] = {"type": "Sequence", "normalizers": [
        map_of_characters, {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": replacement}]}
    document["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
    return document


def write_clip_form(source, form, folder):
    """CLIP's files without tokenizer.json; special tokens as the folders of Stable Diffusion write them."""
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(source / name, folder)
    config = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}
    if form != "vocabulary":
        special = {role: {"content": f"<|{name}oftext|>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
                   for role, name in (("bos_token", "start"), ("eos_token", "end"), ("unk_token", "end"))}
        config.update({role: {"__type": "AddedToken", **token} for role, token in special.items()}, pad_token="<|endoftext|>")
        special["pad_token"] = "!" if form == "sd2" else "<|endoftext|>"
        (folder / "special_tokens_map.json").write_text(json.dumps(special))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


class OfTransformers:
    """Transformers' tokenizer with the calls of the tokenizers library."""

    def __init__(self, model):
        from transformers import AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(str(model))
        self.encode_batch, self.get_vocab_size = self.tokenizer.backend_tokenizer.encode_batch, self.tokenizer.backend_tokenizer.get_vocab_size

    def decode_batch(self, rows):
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)


def library(model):
    """(tokenizer, pieces of its vocabulary)"""
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    if (model / "vocab.json").is_file():
        return OfTransformers(model), [token.removesuffix("</w>") for token in json.loads((model / "vocab.json").read_text())]
    if (model / "vocab.txt").is_file():
        lowers = json.loads((model / "tokenizer_config.json").read_text()).get("do_lower_case", True)
        pieces = [token.removeprefix("##") for token in (model / "vocab.txt").read_text().splitlines()]
        return BertWordPieceTokenizer(str(model / "vocab.txt"), lowercase=lowers), pieces
    pieces = [piece for piece, _ in json.loads((model / "tokenizer.json").read_text())["model"]["vocab"]]
    return Tokenizer.from_file(str(model / "tokenizer.json")), [*pieces, *(piece.replace("▁", " ") for piece in pieces)]


def compare(name, what, texts, found, expected):
    for text, a, b in zip(texts, found, expected, strict=True):
        if a != b:
            sys.exit(f"{name}: {text!r}: {a}, the library has {b}")
    print(f"{name}: the {what} of all {len(texts):,} are equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "bascule")
    parser.add_argument("--model", type=pathlib.Path, default=ROOT / "tests" / "data" / "tokenizer" / "wordpiece")
    parser.add_argument("--form", choices=("strip", "strip-space", "vocabulary", "sd1", "sd2", *make_added_forms.FORMS))
    parser.add_argument("--strings", type=int, default=100_000)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=pathlib.Path, help="lines to measure the rates with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        if options.form in ("vocabulary", "sd1", "sd2"):
            write_clip_form(options.model, options.form, pathlib.Path(temporary))
            options.model = pathlib.Path(temporary)
        elif options.form in make_added_forms.FORMS:
            make_added_forms.save_form(options.form, temporary)
            options.model = pathlib.Path(temporary)
        elif options.form:
            document = with_form(json.loads((options.model / "tokenizer.json").read_text()), options.form)
            options.model = pathlib.Path(temporary)
            (options.model / "tokenizer.json").write_text(json.dumps(document))
        measure(options)


def measure(options):
    draw = random.Random(options.seed)
    is_added = options.form in make_added_forms.FORMS
    if is_added:
        tokenizer, pieces = OfTransformers(options.model), make_added_forms.pieces_of(make_added_forms.FORMS[options.form][0])
    else:
        tokenizer, pieces = library(options.model)
    make_text = make_added_forms.random_text if is_added and make_added_forms.FORMS[options.form][1] else make_added_forms.random_string
    texts = [make_text(draw, pieces) for _ in range(options.strings)]
    found = ours(options.program, options.model, texts)[0]
    compare("strings", "ids", texts, found, [one.ids for one in tokenizer.encode_batch(texts)])
    if not ((options.model / "vocab.txt").is_file() or is_added and make_added_forms.FORMS[options.form][0] == "wordpiece"):
        rows = [[draw.randrange(tokenizer.get_vocab_size() + 20) for _ in range(draw.randrange(12))] for _ in range(options.strings // 10)] + found[: options.strings // 2]
        compare("ids", "texts", rows, ours(options.program, options.model, rows, "--decode")[0], tokenizer.decode_batch(rows))
    pairs = [[make_text(draw, pieces), make_text(draw, pieces)] for _ in range(options.pairs)]
    found = ours(options.program, options.model, pairs)[0]
    expected = tokenizer.encode_batch([tuple(pair) for pair in pairs])
    compare("pairs", "ids", pairs, found, [one.ids for one in expected])
    if options.text is None:
        return
    lines = [line for line in options.text.read_text(encoding="utf-8").splitlines() if line]
    _, seconds = ours(options.program, options.model, lines)
    began = time.process_time()
    tokenizer.encode_batch(lines)
    theirs = time.process_time() - began
    print(f"{len(lines):,} lines of {options.text.name}: {seconds:.2f} s of CPU time with JSON read and written, the library {theirs:.2f} s: {theirs / seconds:.1f} times as fast")


if __name__ == "__main__":
    main()
