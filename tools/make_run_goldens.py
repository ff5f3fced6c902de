#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/run_goldens: whole runs of `bascule run`, as Transformers in float64 makes them from the same weights, pictures, captions and order.

    make_run_goldens.py [--bascule build/bascule] [--cases contrastive,...] [OUT_DIR]

Each case is a run of 8 updates on 15 rows, four samples a micro-batch and two micro-batches an update, of which the last of an epoch has three samples. Weights are those of
tests/data/goldens. Bascule only decodes the pictures and cuts the captions into tokens; order, masks and foreign captions are computed by drawn_rows.py, all arithmetic is torch's.

`run.json` of a case: the settings of the run and the ways to start it, the rows of each update, the log, and for each parameter which elements are kept and the limits of
their error. A limit rests on 17 equally good float32 runs of PyTorch: one as it is, 16 with the samples of each micro-batch in another order and every weight moved by half a unit in the last
place; it is max(3 * the worst of them, floor), by the rule of tests/data/goldens/README.md. `expected.safetensors`: the kept elements of each trained parameter after the run.
tests/faults/test_run_goldens.py reads it.

The reference set's oracle/make_goldens.py is found through BASCULE_REFERENCE_DIR. Needs torch, transformers and safetensors. The same command gives the same bytes on one machine.
"""
import argparse
import copy
import fnmatch
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from drawn_rows import epoch_order, masked, matching_sample
from fuzz_against_transformers import load_oracle

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
OUT = DATA / "run_goldens"
SEED, STEPS, ROWS, LENGTH, KEPT, EQUIVALENT = 5_000_000_007, 8, 15, 16, 128, 16
MICRO_BATCH, ACCUMULATION = 4, 2
FLOOR, UPDATE_FLOOR = 2e-6, 1e-3
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

ONE_RANK = {"training__per_device_train_batch_size": "4"}
TWO_RANKS = {"training__per_device_train_batch_size": "2", "distributed__world_size": "2"}
COMMON = {"model__dropout": '"off"', "data__max_seq_length": str(LENGTH), "data__preprocessing": '"training"', "training__seed": str(SEED), "training__max_steps": str(STEPS),
          "training__gradient_accumulation_steps": str(ACCUMULATION), "training__logging_steps": "1", "training__save_steps": "0"}
CASES = {
    "contrastive": dict(model="itc_add", head="contrastive", ways={"one rank": ONE_RANK, "two ranks": {**TWO_RANKS, "training__gather_negatives": "true"}},
                        learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
    "contrastive_own_negatives": dict(model="itc_add", head="contrastive", shares=2, ways={"two ranks": TWO_RANKS},
                                      learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
    # A group within stacked matrices, one of a decay of its own, one that keeps its weights; the first that matches counts.
    "groups": dict(model="itc_add", head="contrastive", ways={"one rank": ONE_RANK, "two ranks": {**TWO_RANKS, "training__gather_negatives": "true"}},
                   groups=[{"match": "*.query.weight", "learning_rate_multiplier": 3.0}, {"match": "text_model.embeddings.*", "freeze": True},
                           {"match": "vision_model.*.mlp.*", "freeze": True}, {"match": "cross_modal*", "learning_rate_multiplier": 0.25, "weight_decay": 0.4},
                           {"match": "bridgetower.*.bias", "weight_decay": 0.3}],
                   learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
    "matching": dict(model="itm_scaled_add", head="image_text_matching", ways={"one rank": ONE_RANK, "two ranks": TWO_RANKS},
                     learning_rate=2e-3, weight_decay=0.1, betas=(0.85, 0.99), eps=1e-6, schedule="cosine", warmup={"training__warmup_ratio": "0.2"}),
    "masked_lm": dict(model="mlm_interpolate", head="masked_lm", ways={"one rank": ONE_RANK, "two ranks": TWO_RANKS},
                      learning_rate=1e-3, weight_decay=0.02, betas=(0.9, 0.98), eps=1e-7, schedule="constant_with_warmup", warmup={"training__warmup_steps": "2"}),
    "masked_lm_tied": dict(model="mlm_tied", head="masked_lm", ways={"one rank": ONE_RANK},
                           learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
    "matching_frozen": dict(model="itm_frozen", head="image_text_matching", freeze=["vision_model", "text_model"], label_column="label", ways={"one rank": ONE_RANK},
                            learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
    "smoothing": dict(model="mlm_interpolate", head="masked_lm", freeze=["vision_model", "text_model"], label_smoothing=0.1, kept=16, ways={"one rank": ONE_RANK, "two ranks": TWO_RANKS},
                      learning_rate=1e-3, weight_decay=0.05, betas=(0.9, 0.999), eps=1e-8, schedule="linear", warmup={"training__warmup_steps": "2"}),
}
WARMUP_STEPS = 2  # of each of them: ceil(0.2 * 8) is 2 as well


def bascule(arguments, *words, stdin=None):
    done = subprocess.run([arguments.bascule, *map(str, words)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"make_run_goldens: bascule {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def read_rows():
    return [json.loads(line) for line in (OUT / "rows.jsonl").read_text().splitlines()]


class Inputs:
    """Pictures and tokens of the rows, as Bascule reads them."""

    def __init__(self, arguments, config, load_file):
        self.rows = read_rows()
        assert len(self.rows) == ROWS
        self.config = config
        self.pictures = [row["image"] for row in self.rows]
        with tempfile.TemporaryDirectory() as folder:
            bascule(arguments, "decode", "--size", config.vision_config.image_size, "--preprocessing", "training", "--mean", ",".join(map(str, MEAN)), "--std", ",".join(map(str, STD)),
                    "--output", f"{folder}/pixels.safetensors", *[OUT / picture for picture in dict.fromkeys(self.pictures)])
            pixels = load_file(f"{folder}/pixels.safetensors")
        self.pixels = [pixels[pathlib.Path(picture).name] for picture in self.pictures]
        captions = json.dumps([row["caption"] for row in self.rows])
        self.ids = json.loads(bascule(arguments, "tokenize", "--model", OUT / "tokenizer", "--max-length", LENGTH, stdin=captions))
        self.vocabulary = json.loads((OUT / "tokenizer" / "vocab.json").read_text())
        self.special = sorted(self.vocabulary[token] for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>"))


def make_batch(torch, spec, inputs, epoch, rows):
    """One batch in Transformers' form, and how much it counts."""
    head, label_column = spec["head"], spec.get("label_column")
    ids, labels, matching = [], [], []
    for row in rows:
        caption, label = row, inputs.rows[row].get(label_column)
        if head == "image_text_matching" and not label_column:
            caption, label = matching_sample(SEED, inputs.pictures, epoch, row)
        shown, wanted = inputs.ids[caption], None
        if head == "masked_lm":
            shown, wanted = masked(SEED, shown, epoch, row, len(inputs.vocabulary), inputs.special, inputs.vocabulary["<mask>"])
        ids.append(shown)
        labels.append(wanted)
        matching.append(label)
    longest = max(map(len, ids))
    padded = lambda values, fill: torch.tensor([list(v) + [fill] * (longest - len(v)) for v in values])
    batch = {"pixel_values": torch.stack([inputs.pixels[row] for row in rows]), "attention_mask": padded([[1] * len(i) for i in ids], 0),
             "input_ids": padded(ids, inputs.config.text_config.pad_token_id)}
    if head == "masked_lm":
        batch["labels"] = padded(labels, -100)
        return batch, int((batch["labels"] != -100).sum())
    if head == "image_text_matching":
        batch["labels"] = torch.tensor(matching)
    return batch, len(rows)


def shares_of(rows, count):
    """Contiguous shares that differ by one at most, the larger ones first."""
    each, more = divmod(len(rows), count)
    cuts = [rank * each + min(rank, more) for rank in range(count + 1)]
    return [rows[a:b] for a, b in zip(cuts, cuts[1:]) if a < b]


def make_updates(torch, spec, inputs):
    """For each update its batches with their weights; and its rows, for the record."""
    updates, record, epoch = [], [], 0
    while len(updates) < STEPS:
        order = epoch_order(SEED, epoch, ROWS)
        micro = [order[at:at + MICRO_BATCH] for at in range(0, ROWS, MICRO_BATCH)]
        for at in range(0, len(micro), ACCUMULATION):
            parts = [share for rows in micro[at:at + ACCUMULATION] for share in shares_of(rows, spec.get("shares", 1))]
            batches = [make_batch(torch, spec, inputs, epoch, rows) for rows in parts]
            whole = sum(count for _, count in batches)
            updates.append([(batch, count / whole) for batch, count in batches])
            record.append({"epoch": epoch, "batches": parts})
        epoch += 1
    return updates[:STEPS], record[:STEPS]


def group_of(spec, name):
    """The first group of the settings that matches the tensor, or {}."""
    matches = lambda pattern: fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.removeprefix("bridgetower."), pattern)
    return next((group for group in spec.get("groups", []) if matches(group["match"])), {})


def toml_groups(groups):
    value = lambda v: str(v).lower() if isinstance(v, bool) else json.dumps(v)
    return "[" + ", ".join("{" + ", ".join(f"{key} = {value(v)}" for key, v in group.items()) + "}" for group in groups) + "]"


def loss_of(oracle, model, spec, batch):
    loss, outputs = oracle.forward(model, spec, batch)[:2]
    if "label_smoothing" not in spec:
        return loss
    logits, epsilon = outputs["logits"], spec["label_smoothing"]
    smoothed = oracle.torch.nn.functional.cross_entropy(logits.flatten(0, -2), batch["labels"].flatten(), label_smoothing=epsilon)
    theirs = oracle.transformers.trainer_pt_utils.LabelSmoother(epsilon)({"logits": logits}, batch["labels"])  # which adds up in float32
    assert abs(theirs.item() / smoothed.item() - 1) < 1e-5
    return smoothed


def train(oracle, model, spec, max_grad_norm, updates):
    """The run in torch; changes the model."""
    torch = oracle.torch
    decay = oracle.decay_names(model)
    for n, p in model.named_parameters():
        p.requires_grad_(p.requires_grad and not group_of(spec, n).get("freeze", False))
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    groups = []
    for n, p in named:
        group = group_of(spec, n)
        groups.append({"params": [p], "lr": spec["learning_rate"] * group.get("learning_rate_multiplier", 1.0),
                       "weight_decay": group.get("weight_decay", spec["weight_decay"] if n in decay else 0.0)})
    optimizer = torch.optim.AdamW(groups, lr=spec["learning_rate"], betas=spec["betas"], eps=spec["eps"], foreach=False)
    schedule = oracle.transformers.get_scheduler(spec["schedule"], optimizer, num_warmup_steps=WARMUP_STEPS, num_training_steps=STEPS)
    log = {"loss": [], "grad_norm": [], "learning_rate": []}
    for batches in updates:
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for batch, weight in batches:
            loss = loss_of(oracle, model, spec, batch)
            (loss * weight).backward()
            total += loss.item() * weight
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in named], max_grad_norm or math.inf, foreach=False)
        log["loss"].append(total)
        log["grad_norm"].append(norm.item())
        log["learning_rate"].append(spec["learning_rate"] * schedule.lr_lambdas[0](schedule.last_epoch))
        optimizer.step()
        schedule.step()
    return log


def choose_clipping(oracle, model, spec, updates):
    """A round bound that clips some updates and not others: in the middle of the largest gap between the run's own norms."""
    bound = None
    for _ in range(12):
        norms = sorted(train(oracle, copy.deepcopy(model), spec, bound, updates)["grad_norm"])
        at = max(range(2, STEPS - 3), key=lambda i: norms[i + 1] / norms[i])
        chosen = float(f"{math.sqrt(norms[at] * norms[at + 1]):.3g}")
        if chosen == bound:
            break
        bound = chosen
    assert all(abs(norm / bound - 1) > 0.005 for norm in norms), (norms, bound)
    return bound


def equivalent(oracle, model, updates, number):
    """A float32 run as good as the plain one: (model, updates)."""
    shuffle = random.Random(number)

    def reordered(batch):
        order = list(range(len(batch["input_ids"])))
        shuffle.shuffle(order)
        return {key: value[order] for key, value in batch.items()}

    return oracle.moved(model, 7000 + number), [[(reordered(batch), weight) for batch, weight in batches] for batches in updates]


def kept_elements(name, tensor, slices, count):
    """Which elements are compared: evenly spaced, without those whose gradient is zero in exact arithmetic."""
    step = max(1, tensor.numel() // count)
    kept = {"step": step, "stop": min(tensor.numel(), step * count)}
    kept.update({"skip": [start, stop] for n, start, stop in slices if n == name})
    return kept


def places(kept):
    start, stop = kept.get("skip", (0, 0))
    return [at for at in range(0, kept["stop"], kept["step"]) if not start <= at < stop]


def make_case(arguments, oracle, load_file, save_file, name, spec):
    torch = oracle.torch
    folder = DATA / "goldens" / spec["model"]
    load = lambda dtype: oracle.load(folder, spec, dtype)
    truth, plain = load(torch.float32).double(), load(torch.float32)
    inputs = Inputs(arguments, truth.config, load_file)
    updates, record = make_updates(torch, spec, inputs)
    slices = oracle.insensitive_slices(oracle.run_once(truth, spec, updates[0][0][0])[2])
    bound = choose_clipping(oracle, truth, spec, updates)
    start = {n: p.detach().clone() for n, p in truth.named_parameters()}
    log = train(oracle, truth, spec, bound, updates)
    runs = []
    for model, same in [(copy.deepcopy(plain), updates)] + [equivalent(oracle, plain, updates, i) for i in range(EQUIVALENT)]:
        runs.append((train(oracle, model, spec, bound, same), {n: p.detach() for n, p in model.named_parameters()}))

    parameters, expected = {}, {}
    for n, p in truth.named_parameters():
        final = p.detach()
        kept = kept_elements(n, final, slices, spec.get("kept", KEPT))
        chosen = places(kept)
        if final.equal(start[n]) or not chosen:
            continue  # no gradient, or one that is zero in exact arithmetic
        pick = lambda tensor: tensor.flatten()[chosen].double()
        worst = lambda base: max(oracle.error(pick(run[n]) - base, pick(final) - base)["rel_l2"] for _, run in runs)
        parameters[n] = {**kept, "limit": oracle.short(max(3 * worst(0.0), FLOOR)), "update_limit": oracle.short(max(3 * worst(pick(start[n])), UPDATE_FLOOR))}
        expected[n] = pick(final).float()
    limits = {key: [oracle.short(max(3 * max(abs(run[key][s] / value - 1) for run, _ in runs), FLOOR)) for s, value in enumerate(log[key])] for key in ("loss", "grad_norm")}
    settings = {**COMMON, **spec["warmup"], "model__head": f'"{spec["head"]}"', "training__learning_rate": repr(spec["learning_rate"]), "training__weight_decay": repr(spec["weight_decay"]),
                "training__adam_beta1": repr(spec["betas"][0]), "training__adam_beta2": repr(spec["betas"][1]), "training__adam_epsilon": repr(spec["eps"]),
                "training__lr_scheduler_type": f'"{spec["schedule"]}"', "training__max_grad_norm": repr(bound)}
    settings.update({"model__freeze": json.dumps(spec["freeze"])} if "freeze" in spec else {})
    settings.update({"data__label_column": json.dumps(spec["label_column"])} if "label_column" in spec else {})
    settings.update({"training__label_smoothing_factor": repr(spec["label_smoothing"])} if "label_smoothing" in spec else {})
    settings.update({"training__groups": toml_groups(spec["groups"])} if "groups" in spec else {})
    clipped = [norm > bound for norm in log["grad_norm"]]
    case = {"model": spec["model"], "made_with": {"torch": torch.__version__.split("+")[0], "transformers": oracle.transformers.__version__}, "equivalent_runs": EQUIVALENT,
            "settings": settings, "ways": spec["ways"], "updates": record, "log": {**log, "clipped": clipped}, "limits": limits,
            "zero_gradient": [n for n, a, b in slices if b - a == start[n].numel()], "sum_of_learning_rates": sum(log["learning_rate"]), "parameters": parameters}
    out = arguments.out / name
    out.mkdir(parents=True, exist_ok=True)
    (out / "run.json").write_text(oracle.json_text(case) + "\n")
    save_file(expected, out / "expected.safetensors")
    worst = max(entry["update_limit"] for entry in parameters.values())
    print(f"{name}: {len(parameters)} parameters, loss {log['loss'][0]:.4f} to {log['loss'][-1]:.4f}, {sum(clipped)} of {STEPS} updates clipped at {bound}, largest limit of an update {worst:.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", default=str(ROOT / "build" / "bascule"))
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("out", nargs="?", type=pathlib.Path, default=OUT, help="default: tests/data/run_goldens")
    arguments = parser.parse_args()
    if "BASCULE_REFERENCE_DIR" not in os.environ:
        parser.error("BASCULE_REFERENCE_DIR names no reference set")
    from safetensors.torch import load_file, save_file
    oracle = load_oracle(os.environ["BASCULE_REFERENCE_DIR"])
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.disable_progress_bar()
    for name in arguments.cases:
        make_case(arguments, oracle, load_file, save_file, name, CASES[name])


if __name__ == "__main__":
    main()
