#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/tokenizer/pairs.json: pairs of texts, and the sequences that Transformers makes of them.

  tools/make_tokenizer_pairs.py        with a Python that has Transformers

The tokenizer is tests/data/emoji-captions/tokenizer, once with RoBERTa's pairs, <s> a </s></s> b </s>, and once with BERT's,
<s> a </s> b </s>. Pairs are cut by "longest_first".
"""
import json
import pathlib
import tempfile

import tokenizers
import transformers

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests/data"
TOKENIZER = DATA / "emoji-captions/tokenizer/tokenizer.json"
PAIRS = [
    ("two cats", "a dog"), ("", "a dog"), ("two cats", ""), ("", ""), ("cat face", "cat face"), ("a", "two cats sleeping on a couch next to a remote control"),
    ("two cats sleeping on a couch next to a remote control", "a"), ("two cats sleeping on a couch", "next to a remote control, both of them asleep"),
    ("a <mask> in the snow", "it is </s> a <mask>"), ("crème brûlée", "a flan, \U0001f36e"),
]
LENGTHS = [0, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 20, 27]


def sequences(processor):
    description = json.loads(TOKENIZER.read_text())
    if processor == "BertProcessing":  # which has no other members
        description["post_processor"] = {"type": processor, "sep": ["</s>", 2], "cls": ["<s>", 0]}
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "tokenizer.json"
        file.write_text(json.dumps(description))
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(file))
        for number, (first, second) in enumerate(PAIRS):
            for length in LENGTHS:
                cut = {"truncation": "longest_first", "max_length": length} if length else {}
                # As lists, as a data set's rows are: of two strings Transformers 5 leaves out a second one that is empty.
                encoded = tokenizer([first], [second], return_token_type_ids=True, **cut)
                yield {"pair": number, "max_length": length, "ids": encoded["input_ids"][0], "types": encoded["token_type_ids"][0]}


def main():
    document = {"made_by": f"tools/make_tokenizer_pairs.py, transformers {transformers.__version__}, tokenizers {tokenizers.__version__}",
                "pairs": PAIRS, **{processor: list(sequences(processor)) for processor in ("RobertaProcessing", "BertProcessing")}}
    lines = ",\n".join(f"{json.dumps(key)}: " + (json.dumps(value) if isinstance(value, str) else "[\n" + ",\n".join(json.dumps(row) for row in value) + "]")
                       for key, value in document.items())
    (DATA / "tokenizer/pairs.json").write_text("{\n" + lines + "\n}\n")


if __name__ == "__main__":
    main()
