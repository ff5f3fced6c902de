#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains with several ranks, and judges the parameters by a float64 run of Transformers on the same batches.

    ranks_against_transformers.py --bascule build/bascule [--ranks 1,2,3,4] [--heads contrastive,image_text_matching,masked_lm] [--strategy fast_ddp] [--seed 1]

For each head: fresh weights by Transformers, 13 rows of the emoji captions, so that every update takes all rows and their order does not matter and the ranks' shares
are uneven, 8 updates with warm-up, decay and clipping. The truth, and the errors of equally good float32 runs of PyTorch, come from the reference set's own oracle/make_goldens.py; the
rule is that of tests/data/goldens/README.md: relative L2 of a parameter <= max(3 * PyTorch's worst, 2e-6), of its movement <= max(3 * PyTorch's worst, 1e-3). Contrastive runs gather negatives.
For the other heads two more runs resume in their middle with half the ranks and twice the micro-batches.

The reference set is found through BASCULE_REFERENCE_DIR. Needs torch, transformers and safetensors. Exit 0: all passed; 1: some failed.
"""
import argparse
import copy
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from drawn_rows import masked
from fuzz_against_transformers import load_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent
EMOJI = ROOT / "tests" / "data" / "emoji-captions"
ROWS, LENGTH, SEED = 13, 32, 42
RUN = dict(learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, warmup_steps=2, steps=8, gradient_accumulation_steps=1, max_grad_norm=1.0,
           batches_of_step=[[s] for s in range(8)])


def run(arguments, *words, stdin=None):
    done = subprocess.run([arguments.bascule, *map(str, words)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"ranks_against_transformers: bascule {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def make_model(oracle, torch, head, seed, folder):
    """A folder with fresh weights for the head, tokenizer and preprocessor beside them."""
    config = oracle.BridgeTowerConfig.from_pretrained(EMOJI / "model")
    torch.manual_seed(seed)
    oracle.MODEL_CLASS[head](config).save_pretrained(folder)
    for file in [*(EMOJI / "tokenizer").iterdir(), EMOJI / "model" / "preprocessor_config.json"]:
        shutil.copy(file, folder)
    return config


def make_batches(arguments, torch, load_file, head, config, folder):
    """One batch of all rows an update, and the manifest that gives Bascule the same."""
    rows = [json.loads(line) for line in (EMOJI / "train.jsonl").read_text().splitlines()[:ROWS]]
    for number, row in enumerate(rows):
        row.update(image=str(EMOJI / row["image"]), label=number % 3 == 0)
    (folder / "rows.jsonl").write_text("".join(json.dumps({**row, "label": int(row["label"])}) + "\n" for row in rows))
    processor = json.loads((EMOJI / "model" / "preprocessor_config.json").read_text())
    numbers = {key: ",".join(map(repr, processor[f"image_{key}"])) for key in ("mean", "std")}
    run(arguments, "decode", "--size", config.vision_config.image_size, "--preprocessing", "processor", "--mean", numbers["mean"], "--std", numbers["std"],
        "--output", folder / "pixels.safetensors", *[row["image"] for row in rows])
    pixels = load_file(folder / "pixels.safetensors")
    ids = json.loads(run(arguments, "tokenize", "--model", EMOJI / "tokenizer", "--max-length", LENGTH, stdin=json.dumps([row["caption"] for row in rows])))
    vocabulary = json.loads((EMOJI / "tokenizer" / "vocab.json").read_text())
    special = sorted(vocabulary[token] for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))
    longest = max(map(len, ids))
    padded = lambda values, fill: torch.tensor([list(v) + [fill] * (longest - len(v)) for v in values])
    batches = []
    for epoch in range(RUN["steps"]):
        batch = {"pixel_values": torch.stack([pixels[pathlib.Path(row["image"]).name] for row in rows]), "attention_mask": padded([[1] * len(i) for i in ids], 0)}
        shown = ids
        if head == "masked_lm":
            pairs = [masked(SEED, i, epoch, row, config.text_config.vocab_size, special, vocabulary["<mask>"]) for row, i in enumerate(ids)]
            shown = [pair[0] for pair in pairs]
            batch["labels"] = padded([pair[1] for pair in pairs], -100)
        elif head == "image_text_matching":
            batch["labels"] = torch.tensor([int(row["label"]) for row in rows])
        batch["input_ids"] = padded(shown, config.text_config.pad_token_id)
        batches.append(batch)
    return batches


def train_ours(arguments, head, ranks, folder):
    """The parameters after a run of so many ranks."""
    output = folder / f"ranks{ranks}"
    run(arguments, "run", write_settings(arguments, head, ranks, folder, output))
    return output / "model.safetensors"


def train_ours_in_two_parts(arguments, head, ranks, others, folder):
    """The same, but from its middle on by fewer ranks, each of which takes more micro-batches."""
    output = folder / f"ranks{ranks}then{others}"
    run(arguments, "run", write_settings(arguments, head, ranks, folder, output))
    shutil.rmtree(output / f"checkpoint-{RUN['steps']}")
    (output / "bascule.json").unlink()
    run(arguments, "run", write_settings(arguments, head, others, folder, output, accumulation=ranks // others))
    return output / "model.safetensors"


def write_settings(arguments, head, ranks, folder, output, accumulation=1):
    settings = folder / f"ranks{ranks}.toml"
    settings.write_text(f"""
[model]
model_name_or_path = "{folder}/model"
head = "{head}"
dropout = "off"
[data]
train_file = "{folder}/rows.jsonl"
label_column = "{'label' if head == 'image_text_matching' else ''}"
max_seq_length = {LENGTH}
preprocessing = "processor"
[training]
output_dir = "{output}"
seed = {SEED}
max_steps = {RUN['steps']}
per_device_train_batch_size = {-(-ROWS // (ranks * accumulation))}
gradient_accumulation_steps = {accumulation}
learning_rate = {RUN['learning_rate']}
weight_decay = {RUN['weight_decay']}
max_grad_norm = {RUN['max_grad_norm']}
warmup_steps = {RUN['warmup_steps']}
save_steps = {RUN['steps'] // 2}
gather_negatives = {str(head == 'contrastive').lower()}
[distributed]
world_size = {ranks}
distribution_strategy = "{arguments.strategy}"
bucket_mib = 1
""")
    return settings


def judge_head(arguments, oracle, head):
    import torch
    from safetensors.torch import load_file
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = make_model(oracle, torch, head, arguments.seed, folder / "model")
        batches = make_batches(arguments, torch, load_file, head, config, folder)
        spec = {"head": head, "seed": 1}
        truth, plain = (oracle.load(folder / "model", spec, dtype) for dtype in (torch.float64, torch.float32))
        slices = oracle.insensitive_slices(oracle.run_once(truth, spec, batches[0])[2])
        start = {n: p.detach().clone() for n, p in truth.named_parameters()}
        oracle.train(truth, spec, RUN, batches)
        theirs = []
        for model, same in [(copy.deepcopy(plain), batches)] + oracle.equivalent_runs(plain, batches, 1):
            oracle.train(model, spec, RUN, same)
            theirs.append(dict(model.named_parameters()))
        ways = {f"{ranks} ranks": train_ours(arguments, head, ranks, folder) for ranks in arguments.ranks}
        for ranks, others in ((2, 1), (4, 2)) if head != "contrastive" else ():  # micro-batches would have negatives of their own
            ways[f"{ranks} ranks, then {others}"] = train_ours_in_two_parts(arguments, head, ranks, others, folder)
        return all([judge(oracle, load_file(file), theirs, dict(truth.named_parameters()), start, slices, f"{head}, {way}") for way, file in ways.items()])


def judge(oracle, ours, theirs, truth, start, slices, what):
    """Prints a line; each parameter that fails on a line of its own."""
    failed, worst, judged = [], [0.0, 0.0], 0
    for name, final in truth.items():
        pick = lambda tensor: oracle.without_slices(name, tensor.detach(), slices).double()
        if final.equal(start[name]) or pick(final).numel() == 0:
            continue
        judged += 1
        figures = []
        for floor, base in ((2e-6, 0.0), (1e-3, pick(start[name]))):
            of = lambda tensor: oracle.error(pick(tensor) - base, pick(final) - base)["rel_l2"]
            figures.append((of(ours[name]), max(3 * max(of(run[name]) for run in theirs), floor)))
        worst = [max(w, value / limit) for w, (value, limit) in zip(worst, figures)]
        if any(value > limit for value, limit in figures):
            failed.append(f"    {name}: " + ", ".join(f"{value:.2e} (limit {limit:.2e})" for value, limit in figures))
    print(f"{'FAILED' if failed else 'passed'} {what}: {judged} parameters, {len(failed)} failed; the worst at {worst[0]:.2f} of its limit, its movement at {worst[1]:.2f}", flush=True)
    for line in failed[:12]:
        print(line)
    return not failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", default=str(ROOT / "build" / "bascule"))
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 3, 4])
    parser.add_argument("--heads", type=lambda text: text.split(","), default=["contrastive", "image_text_matching", "masked_lm"])
    parser.add_argument("--strategy", default="fast_ddp", choices=["fast_ddp", "ddp", "sharded"])
    parser.add_argument("--seed", type=int, default=1, help="seed of the initial weights")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    import transformers
    transformers.logging.disable_progress_bar()
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"])
    results = [judge_head(arguments, oracle, head) for head in arguments.heads]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
