#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains small T5 models that Bascule reads from a Transformers folder, and loads what it saves in Transformers.

    verify_t5_folders.py --bascule build/bascule [--keep DIR]

How the head is made depends on two keys of config.json, tie_word_embeddings and scale_decoder_outputs, and on whether the file has
an lm_head of its own. For each of these 18 ways, the tool writes a folder, trains it for three updates on tests/data/emoji-keywords,
and checks the saved folder:
- Transformers loads it without a warning, except the line with which it greets every T5 with a head of its own;
- the head is made there as Transformers makes it for the folder that the run began with;
- its loss on the validation rows is the one that the run reports, and its logits are ours: both within 1e-5.

Needs torch, transformers and safetensors. Exit 0: all passed; 1: some failed; 2: wrong use.
"""
import argparse
import itertools
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from verify_with_transformers import load_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS = ROOT / "tests" / "data" / "emoji-keywords"
TOKENIZER = ROOT / "tests" / "data" / "tokenizer" / "unigram"
PREFIX = "keywords: "
SOURCE_TOKENS, TARGET_TOKENS = 16, 12  # some rows are longer
TOLERANCE = 1e-5
LOGIT_ROWS = 8
WAYS = [dict(zip(("tie_word_embeddings", "scale_decoder_outputs", "lm_head"), way))
        for way in itertools.product((True, False), (None, True, False), ("own", "absent", "equal"))]


def write_source(folder, way, seed):
    """A folder of Transformers with random weights; None: without that key."""
    torch.manual_seed(seed)
    config = transformers.T5Config(vocab_size=2100, d_model=24, d_kv=10, d_ff=36, num_layers=1, num_decoder_layers=2, num_heads=3, decoder_start_token_id=0,
                                   feed_forward_proj="gated-gelu" if seed % 2 else "relu")
    transformers.T5ForConditionalGeneration(config).save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    words = tensors["shared.weight"]
    tensors.pop("lm_head.weight", None)
    if way["lm_head"] != "absent":
        tensors["lm_head.weight"] = words.clone() if way["lm_head"] == "equal" else 0.5 * torch.randn_like(words)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    written = json.loads((folder / "config.json").read_text())
    for key in ("tie_word_embeddings", "scale_decoder_outputs"):
        written.pop(key, None)
        if way[key] is not None:
            written[key] = way[key]
    (folder / "config.json").write_text(json.dumps(written))
    for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, folder)


def train(program, folder):
    """Three updates; returns the saved folder and its validation loss."""
    settings = folder / "run.toml"
    settings.write_text(f"""
[model]
model_name_or_path = "{folder}/source"
[data]
train_file = "{ROWS}/train.jsonl"
validation_file = "{ROWS}/validation.jsonl"
text_column = "text"
summary_column = "summary"
source_prefix = "{PREFIX}"
max_source_length = {SOURCE_TOKENS}
max_target_length = {TARGET_TOKENS}
[training]
output_dir = "{folder}/run"
max_steps = 3
learning_rate = 1e-3
per_device_train_batch_size = 16
per_device_eval_batch_size = 256
[report]
html = false
tensorboard = false
""")
    done = subprocess.run([program, "run", settings], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"bascule run: exit {done.returncode}: {done.stderr.strip().splitlines()[-1]}")
    return folder / "run", json.loads((folder / "run" / "all_results.json").read_text())["validation_loss"]


def validation_batch(folder):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    rows = [json.loads(line) for line in (ROWS / "validation.jsonl").read_text(encoding="utf-8").splitlines()]
    encode = lambda texts, tokens: tokenizer(texts, padding=True, truncation=True, max_length=tokens, return_tensors="pt")
    source = encode([PREFIX + row["text"] for row in rows], SOURCE_TOKENS)
    target = encode([row["summary"] for row in rows], TARGET_TOKENS)
    labels = target.input_ids.masked_fill(target.attention_mask == 0, -100)
    return {"input_ids": source.input_ids, "attention_mask": source.attention_mask, "labels": labels}


def logits_by_verify(program, saved, model, batch, folder):
    """Relative error of our logits, by `bascule verify` of a case with the saved weights."""
    shutil.copytree(saved, folder, ignore=shutil.ignore_patterns("checkpoint-*", "report*", "runs"))
    batch = {key: value[:LOGIT_ROWS].contiguous() for key, value in batch.items()}
    with torch.no_grad():
        output = model(**batch, use_cache=False)
    save_file({f"batch0.{key}": value for key, value in batch.items()}, folder / "batch.safetensors")
    save_file({"logits": output.logits.float().contiguous(), "loss": output.loss.float()}, folder / "expected.safetensors")
    limits = {name: {"rel_l2": 0.0, "rel_l2_worst": TOLERANCE / 3} for name in ("logits", "loss")}
    (folder / "float32_error.json").write_text(json.dumps({"outputs": limits}))
    (folder / "case.json").write_text(json.dumps({
        "case": folder.name, "family": "t5", "head": "conditional_generation", "model_class": "T5ForConditionalGeneration", "weights_dtype": "float32", "batches": 1,
        "forward_arguments": {}, "gradient_sample": None, "loss": output.loss.item(), "freeze": [], "frozen_parameters": [], "unused_parameters": [],
        "zero_gradient": [], "decay_parameters": [], "tied_parameters": {}}))
    done = subprocess.run([program, "verify", "--json", folder], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"bascule verify: exit {done.returncode}: {done.stderr.strip()}")
    found = {tensor["name"]: tensor for tensor in json.loads(done.stdout)["cases"][0]["tensors"]}
    return found["logits"]["relative_l2"]


def head_of(model):
    return {"tied": model.lm_head.weight is model.shared.weight, "scaled": bool(model.config.scale_decoder_outputs)}


def check(program, folder, way, seed):
    """(what is wrong, figures)"""
    write_source(folder / "source", way, seed)
    saved, loss = train(program, folder)
    source, _ = load_model(folder / "source")
    model, problems = load_model(saved)
    wrong = [f"{kind}: {said}" for kind, said in problems.items()]
    if head_of(model) != head_of(source):
        wrong.append(f"the head is {head_of(model)}, but {head_of(source)} in the folder that the run began with")
    model = model.double()
    batch = validation_batch(saved)
    with torch.no_grad():
        distance = abs(loss / model(**batch, use_cache=False).loss.item() - 1)
    logits = logits_by_verify(program, saved, model, batch, folder / "case")
    wrong += [f"{name} differ by {value:.1e}" for name, value in (("losses", distance), ("logits", logits)) if not value <= TOLERANCE]
    return wrong, f"loss {loss:.5f}, off by {distance:.1e}, logits {logits:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", type=pathlib.Path, default=ROOT / "build" / "bascule")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder in which the models stay")
    arguments = parser.parse_args()
    transformers.utils.logging.disable_progress_bar()
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        for seed, way in enumerate(WAYS):
            folder = (arguments.keep or pathlib.Path(temporary)) / f"t5_{seed:02}"
            folder.mkdir(parents=True)
            try:
                wrong, figures = check(arguments.bascule.resolve(), folder, way, seed)
            except RuntimeError as error:
                wrong, figures = [str(error)], ""
            failures += bool(wrong)
            print(f"{'FAILED' if wrong else 'passed'} {json.dumps(way)}: {figures}", flush=True)
            for line in wrong:
                print(f"    {line}")
    print(f"{len(WAYS) - failures} passed, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
