# SPDX-License-Identifier: Apache-2.0
"""A killed run of ViT, of DeiT, of BERT, of RoBERTa, of DistilBERT and of T5, with each of their heads, ends with the bits of an unbroken one: weights, moments, the average of the weights and the evaluations.

BASCULE_KILLS sets how many runs of each head are killed (1); each is killed and started again until it finishes. BASCULE_TEST_SEED repeats the instants.
"""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import time
import unittest

from bascule_run import PROGRAM, ROOT, digest, run, settings
from relatives import SETTINGS, write_relatives, write_values, write_words
from small_deit import PLAIN, WITH_TEACHER, write_deit

DATA = ROOT / "tests" / "data"
COMMON = {"model__tokenizer_name": None, "data__max_seq_length": None, "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "10",
          "training__save_steps": "3", "training__save_total_limit": "2", "training__ema_decay": "0.9", "training__eval_steps": "4", "training__eval_strategy": '"steps"',
          "data__max_eval_samples": "24"}
PICTURES = {**COMMON, "data__train_file": f'"{DATA}/emoji-classes/train.jsonl"', "data__validation_file": f'"{DATA}/emoji-classes/test.jsonl"', "data__label_column": '"label"',
            "data__augment": '"crop_flip"', "data__preprocessing": '"training"'}
TEXTS = {**COMMON, "model__model_name_or_path": f'"{DATA}/text-corpus/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "data__max_seq_length": "32",
         "data__train_file": f'"{DATA}/text-corpus/validation.txt"', "data__validation_file": f'"{DATA}/text-corpus/validation.txt"', "training__optimizer": '"lamb"',
         "training__weight_decay": "0.01", "training__per_device_eval_batch_size": "64"}
TARGETS = {**COMMON, "model__model_name_or_path": f'"{DATA}/emoji-keywords/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/unigram"', "data__text_column": '"text"',
           "data__train_file": f'"{DATA}/emoji-keywords/train.jsonl"', "data__validation_file": f'"{DATA}/emoji-keywords/test.jsonl"', "data__summary_column": '"summary"',
           "data__max_source_length": "32", "data__max_target_length": "40", "training__gradient_accumulation_steps": "2", "training__label_smoothing_factor": "0.1"}
def with_model(kind, changes):
    return {**changes, **{f"model__{key}": value for key, value in SETTINGS[kind].items()}}


LABELS = {**COMMON, "model__model_name_or_path": f'"{DATA}/text-corpus/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "model__head": '"sequence_classification"',
          "data__max_seq_length": "32", "data__text_column": '"text"', "data__label_column": '"summary"', "data__train_file": f'"{DATA}/emoji-keywords/train.jsonl"',
          "data__validation_file": f'"{DATA}/emoji-keywords/train.jsonl"', "data__max_eval_samples": "200", "training__label_smoothing_factor": "0.1"}
VALUES = {**LABELS, "data__train_file": '"values.jsonl"', "data__validation_file": '"values.jsonl"', "data__text_pair_column": '"text_pair"', "data__label_column": '"label"',
          "training__label_smoothing_factor": None, "training__optimizer": '"lamb"'}
TAGS = {**LABELS, "model__head": '"token_classification"', "data__train_file": '"words.jsonl"', "data__validation_file": '"words.jsonl"', "data__text_column": '"tokens"', "data__label_column": '"tags"'}
PAIRS = {**LABELS, "model__head": '"sentence_embedding"', "data__text_pair_column": '"summary"', "data__label_column": None, "training__label_smoothing_factor": None}
SCORED = {**VALUES, "model__head": '"sentence_embedding"'}
HEADS = {
    "token": {**PICTURES, "model__model_name_or_path": f'"{DATA}/emoji-classes/model"', "data__mixup_alpha": "0.8"},
    "pooled": {**PICTURES, "model__model_name_or_path": f'"{DATA}/emoji-classes/pooled_model"', "data__cutmix_alpha": "1.0", "training__optimizer": '"adafactor"',
               "training__fused_update": "true", "training__max_grad_norm": "0.0"},
    "DeiT": {**PICTURES, "model__model_name_or_path": '"deit"', "model__head": f'"{PLAIN}"'},
    "DeiT with teacher": {**PICTURES, "model__model_name_or_path": '"deit"', "model__head": f'"{WITH_TEACHER}"', "data__mixup_alpha": "0.8", "training__optimizer": '"lamb"'},
    "masked_lm": {**TEXTS, "model__head": '"masked_lm"', "data__masking": '"bernoulli"'},
    "pretraining": {**TEXTS, "model__head": '"pretraining"', "data__dupe_factor": "1", "training__gradient_accumulation_steps": "2"},
    "masked_lm of RoBERTa": with_model("roberta", {**TEXTS, "model__head": '"masked_lm"'}),
    "masked_lm of DistilBERT": with_model("distilbert", {**TEXTS, "model__head": '"masked_lm"', "data__text_layout": '"lines"'}),
    "sequence_classification": LABELS,
    "sequence_classification of RoBERTa": with_model("roberta", {**LABELS, "training__gradient_accumulation_steps": "2"}),
    "sequence_classification of DistilBERT, values of pairs": with_model("distilbert", VALUES),
    "token_classification": {**TAGS, "data__test_file": '"words.jsonl"', "data__max_predict_samples": "24"},
    "token_classification of RoBERTa": with_model("roberta", {**TAGS, "training__gradient_accumulation_steps": "2", "data__label_all_tokens": "true"}),
    "token_classification of DistilBERT": with_model("distilbert", TAGS),
    "sentence_embedding": PAIRS,
    "sentence_embedding of RoBERTa, CoSENT": with_model("roberta", {**SCORED, "training__loss": '"cosent"', "training__gradient_accumulation_steps": "2", "training__mini_batch_size": "3"}),
    "sentence_embedding of DistilBERT, cosines": with_model("distilbert", {**SCORED, "training__loss": '"cosine_similarity"'}),
    "conditional_generation": TARGETS,
    "conditional_generation, padded": {**TARGETS, "data__ignore_pad_token_for_loss": "false", "data__pad_to_max_length": "true"},
    "conditional_generation, with texts": {**TARGETS, "data__test_file": f'"{DATA}/emoji-keywords/test.jsonl"', "training__predict_with_generate": "true",
                                           "training__generate_ema": "true", "generation__num_beams": "2", "data__max_predict_samples": "24"},
}


def outcome(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    evaluated = [{key: value for key, value in line.items() if key == "step" or key.endswith(("loss", "accuracy", "f1", "rougeLsum"))} for line in history if "loss" not in line]
    names = ["model.safetensors", "ema/model.safetensors", "checkpoint-10/training_state.safetensors", "predictions.jsonl"]
    return [digest(folder / name) for name in names if (folder / name).exists()], evaluated[:-1]  # the last is of times


def prepared(folder, changes):
    """The settings of a run, beside what no folder of tests/data has."""
    write_relatives(folder)
    write_deit(folder / "deit")
    write_values(folder / "values.jsonl")
    write_words(folder / "words.jsonl")
    return settings(folder, **changes)


class KilledFamilies(unittest.TestCase):
    def test_end_with_the_bits_of_an_unbroken_run(self):
        seed = int(os.environ.get("BASCULE_TEST_SEED", "20261123"))
        draw = random.Random(seed)
        for head, changes in HEADS.items():
            with tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary)
                began = time.monotonic()
                done = run("run", prepared(folder, changes))
                seconds = time.monotonic() - began
                self.assertEqual(done.returncode, 0, done.stderr)
                whole = outcome(folder / "run")
            for kill in range(int(os.environ.get("BASCULE_KILLS", "1"))):
                with self.subTest(head=head, kill=kill, seed=seed), tempfile.TemporaryDirectory() as temporary:
                    folder = pathlib.Path(temporary)
                    toml, kills = prepared(folder, changes), 0
                    while True:
                        process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        try:
                            # Later with each kill: a run that is always killed before its first checkpoint would never end.
                            process.wait(draw.uniform(0.0, seconds) + 0.3 * seconds * kills)
                            break
                        except subprocess.TimeoutExpired:
                            process.kill()
                            process.wait()
                            kills += 1
                    self.assertEqual(process.returncode, 0)
                    self.assertEqual(outcome(folder / "run"), whole)
