# SPDX-License-Identifier: Apache-2.0
"""Models of published size but T5 and pipelines, for tools/make_published_model: config.json, and the files beside it, which are copied from tests/data."""
import json
import pathlib
import shutil

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
WORD_PIECE = ("tokenizer/wordpiece", ("vocab.txt", "tokenizer_config.json"))
ROBERTA = ("tokenizer/roberta-50k", ("vocab.json", "merges.txt", "tokenizer_config.json", "special_tokens_map.json"))
EMOJI = ("emoji-captions/tokenizer", ("vocab.json", "merges.txt", "tokenizer_config.json"))
CLASSES = {str(number): f"class {number}" for number in range(1000)}
BERT = {"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 30522}


def bridgetower(width, heads, text_layers, vision_layers, side, patch):
    return {"model_type": "bridgetower", "hidden_size": width, "num_hidden_layers": 6, "num_attention_heads": heads, "contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592,
            "text_config": {"vocab_size": 50265, "hidden_size": width, "num_hidden_layers": text_layers, "num_attention_heads": heads, "intermediate_size": 4 * width},
            "vision_config": {"hidden_size": width, "num_hidden_layers": vision_layers, "patch_size": patch, "image_size": side}}


KINDS = {  # config.json, and folder and names of the other files
    "bridgetower-base": (bridgetower(768, 12, 12, 12, 288, 16), EMOJI),
    "bridgetower-large": (bridgetower(1024, 16, 24, 24, 294, 14), EMOJI),
    "vit-base": ({"model_type": "vit", "id2label": CLASSES, "label2id": {name: int(number) for number, name in CLASSES.items()}}, ("emoji-classes/model", ("preprocessor_config.json",))),
    "deit-base": ({"model_type": "deit", "id2label": CLASSES, "label2id": {name: int(number) for number, name in CLASSES.items()}}, ("emoji-classes/model", ("preprocessor_config.json",))),
    "bert-base": (BERT, WORD_PIECE),
    "bert-large": ({**BERT, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}, WORD_PIECE),
    "roberta-base": ({"architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5,
                      "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}, ROBERTA),
    "distilbert-base": ({"architectures": ["DistilBertForMaskedLM"], "model_type": "distilbert", "vocab_size": 30522, "pad_token_id": 0, "tie_weights_": True}, WORD_PIECE),
}


def write_encoder(kind, folder):
    """The files of the model in that folder, which exists."""
    config, (source, names) = KINDS[kind]
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in names:
        shutil.copy(DATA / source / name, folder)
