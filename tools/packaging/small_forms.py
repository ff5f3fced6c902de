# SPDX-License-Identifier: Apache-2.0
"""Settings files of a few updates for forms of which config/ has no demo: small models that start from scratch, and rows made of the data of the demos."""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests/data"
CONFIGS = {
    "roberta": {"vocab_size": 3000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 34, "type_vocab_size": 1},
    "distilbert": {"vocab_size": 4000, "dim": 64, "n_layers": 2, "n_heads": 4, "hidden_dim": 128, "max_position_embeddings": 64},
}
TOKENIZERS = {"roberta": "emoji-captions/tokenizer", "distilbert": "tokenizer/wordpiece"}
# {form: (family, head, keys of [data])}
FORMS = {
    "roberta_masked_lm": ("roberta", "masked_lm", 'train_file = "../tests/data/text-corpus/validation.txt"\nvalidation_share = 0.25\nmax_seq_length = 32'),
    "distilbert_token_classification": ("distilbert", "token_classification", 'train_file = "words.jsonl"\ntest_file = "words.jsonl"\ntext_column = "tokens"\nlabel_column = "tags"\nmax_seq_length = 64'),
}


def write_words(path, rows=200):
    """Words of names of emoji and of their keywords, with tags that depend on their letters."""
    with path.open("w") as file:
        for row in map(json.loads, (DATA / "emoji-keywords/train.jsonl").read_text().splitlines()[:rows]):
            words = f"{row['text']} {row['summary']}".split()
            file.write(json.dumps({"tokens": words, "tags": [("O", "B-SHORT", "B-LONG")[(len(word) + ord(word[0])) % 3] for word in words]}) + "\n")


def write_form(name, folder):
    """The settings file of a form in `folder`, which is directly in the repository."""
    family, head, data = FORMS[name]
    (folder / family).mkdir(parents=True, exist_ok=True)
    (folder / family / "config.json").write_text(json.dumps({"model_type": family, **CONFIGS[family]}))
    write_words(folder / "words.jsonl")
    config = folder / f"{name}.toml"
    config.write_text(f"""[model]
model_name_or_path = "{family}"
tokenizer_name = "../tests/data/{TOKENIZERS[family]}"
head = "{head}"
from_scratch = true
[data]
{data}
[training]
output_dir = "../runs/image"
max_steps = 8
per_device_train_batch_size = 8
learning_rate = 1e-3
save_steps = 4
""")
    return config
