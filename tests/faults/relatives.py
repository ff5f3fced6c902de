# SPDX-License-Identifier: Apache-2.0
"""Models of BERT, RoBERTa and DistilBERT for runs from scratch, smaller than any in tests/data: config.json is all that such a run reads of them. Rows with values, and words with tags, which no data there has either."""
import json

from bascule_run import EMOJI, ROOT

DATA = ROOT / "tests" / "data"
MODELS = {"bert": {"vocab_size": 4000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 32},
          "roberta": {"vocab_size": 3000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 34},
          "distilbert": {"vocab_size": 4000, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "max_position_embeddings": 32}}
# What [model] says of them in a settings file beside their folders.
SETTINGS = {"bert": {"model_name_or_path": '"bert"', "tokenizer_name": f'"{DATA}/tokenizer/wordpiece"'},
            "roberta": {"model_name_or_path": '"roberta"', "tokenizer_name": f'"{EMOJI}/tokenizer"'},
            "distilbert": {"model_name_or_path": '"distilbert"', "tokenizer_name": f'"{DATA}/tokenizer/wordpiece"'}}


def write_relatives(folder):
    for kind, config in MODELS.items():
        (folder / kind).mkdir()
        (folder / kind / "config.json").write_text(json.dumps({"model_type": kind, **config}))


def write_words(path, rows=240):
    """Words of a name and of its keywords, whose tags depend on their letters."""
    lines = (DATA / "emoji-keywords" / "train.jsonl").read_text().splitlines()[:rows]
    with open(path, "w") as file:
        for row in map(json.loads, lines):
            words = row["text"].split() + row["summary"].split()
            file.write(json.dumps({"tokens": words, "tags": [("O", "B-SHORT", "I-SHORT", "O", "B-LONG")[(len(word) + ord(word[0])) % 5] for word in words]}) + "\n")


def write_values(path, rows=240):
    """Pairs of a name and its keywords, with a number that depends on both."""
    lines = (DATA / "emoji-keywords" / "train.jsonl").read_text().splitlines()[:rows]
    with open(path, "w") as file:
        for row in map(json.loads, lines):
            file.write(json.dumps({"text": row["text"], "text_pair": row["summary"], "label": len(row["text"]) / 8 - len(row["summary"]) / 16}) + "\n")
