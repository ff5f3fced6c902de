#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs short trainings and compares digests of weights, moments and metrics with those in tests/data/recorded_bits.json.

  tools/recorded_bits.py build/bascule                      every run, on each instruction set of this CPU
  tools/recorded_bits.py build/bascule --record             writes the file anew, after a change that is meant to change bits
  tools/recorded_bits.py build/bascule --record --runs 'DeiT*'   adds runs to the file, or writes these anew
  tools/recorded_bits.py build/bascule --quick --emulator "qemu-x86_64 -cpu Haswell"      the shortest runs, on an emulated CPU

The runs: `bascule verify --bits`; runs of tests/data/run_goldens; the demo with dropout, with either preparation of
pictures, on one rank and two, in float32 and bf16, with sums of pairs and of tiles; the demos of ViT, BERT and T5; a small DeiT; classes and values of texts, tags of words and vectors of texts,
with BERT and its relatives. Scalar code has shorter ones of these. Exit 1 where a digest differs. `make test` and `make emulated-check` call it.
"""
import argparse
import fnmatch
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "faults"))
from bascule_run import has_tiles, instruction_sets  # noqa: E402
from relatives import SETTINGS as RELATIVES, write_relatives, write_values, write_words  # noqa: E402
from run_digests import digests  # noqa: E402: the path first
from run_edited import NO_EVALUATION, edited  # noqa: E402
from small_deit import WITH_TEACHER, write_deit  # noqa: E402

DATA = ROOT / "tests/data"
RECORD = DATA / "recorded_bits.json"


# Evaluated in a whole batch and a cut one. More rows would be evaluated by the same kernels: with scalar code in bf16, that took four minutes.
FEW_ROWS = {"max_eval_samples": 24, "max_predict_samples": 24}
EVALUATION_BATCH = {"per_device_eval_batch_size": 16}
SMALL_PICTURES = {"memory_mib": 48}  # to touch the usual 256 MiB takes longer than some of the runs


def golden(name):
    """Settings of a run of tests/data/run_goldens."""
    case = json.loads((DATA / "run_goldens" / name / "run.json").read_text())
    changes = {"model": {"model_name_or_path": f'"{DATA}/goldens/{case["model"]}"', "tokenizer_name": f'"{DATA}/run_goldens/tokenizer"'},
               "data": {"train_file": f'"{DATA}/run_goldens/rows.jsonl"', "max_seq_length": 32}, "media_engine": dict(SMALL_PICTURES)}
    for key, value in {**case["settings"], **case["ways"]["one rank"]}.items():
        table, name = key.split("__")
        changes.setdefault(table, {})[name] = value
    return "", changes


def demo(updates, batch, **changes):
    """Settings of the demo's first updates, without evaluation where an emulator would take minutes for it."""
    emoji = DATA / "emoji-captions"
    changes = {table: dict(keys) for table, keys in changes.items()}
    files = {f"{split}_file": f'"{emoji}/{split}.jsonl"' if split == "train" or updates > 2 else None for split in ("train", "validation", "test")}
    changes["model"] = {**changes.get("model", {}), "model_name_or_path": f'"{emoji}/model"', "tokenizer_name": f'"{emoji}/tokenizer"'}
    changes["data"] = {**files, **FEW_ROWS, **changes.get("data", {})}
    changes["media_engine"] = SMALL_PICTURES
    changes["training"] = {**NO_EVALUATION, **EVALUATION_BATCH, "num_train_epochs": None, "warmup_ratio": None, "max_steps": updates, "per_device_train_batch_size": batch}
    return (ROOT / "config/demo.toml").read_text(), changes


def vit(updates, batch, **changes):
    """Settings of the ViT demo's first updates."""
    classes = DATA / "emoji-classes"
    files = {f"{split}_file": f'"{classes}/{split}.jsonl"' for split in ("train", "validation", "test")}
    changes = {**changes, "data": {**files, **FEW_ROWS, **changes.get("data", {})},
               "training": {**NO_EVALUATION, **EVALUATION_BATCH, "num_train_epochs": None, "warmup_ratio": None, "max_steps": updates, "per_device_train_batch_size": batch, **changes.get("training", {})}}
    changes["model"] = {**changes.get("model", {}), "model_name_or_path": f'"{classes}/model"'}
    changes["media_engine"] = SMALL_PICTURES
    return (ROOT / "config/vit_demo.toml").read_text(), changes


def deit(updates, batch, **changes):
    """Settings of a small DeiT that learns what the ViT demo does."""
    text, changes = vit(updates, batch, **changes)
    changes["model"].update(model_name_or_path='"deit"', head=f'"{WITH_TEACHER}"')
    return text, changes


def bert(updates, batch, **changes):
    """Settings of the BERT demo's first updates, on its shorter text."""
    texts = {f"{split}_file": f'"{DATA}/text-corpus/validation.txt"' for split in ("train", "validation", "test")}
    training = {**EVALUATION_BATCH, "eval_strategy": '"no"', "num_train_epochs": None, "warmup_ratio": None, "max_steps": updates, "per_device_train_batch_size": batch}
    model = {"model_name_or_path": f'"{DATA}/text-corpus/model"', "tokenizer_name": f'"{DATA}/tokenizer/wordpiece"'}
    return (ROOT / "config/bert_demo.toml").read_text(), {"model": {**model, **changes.get("model", {})}, "data": {**texts, **FEW_ROWS}, "training": {**training, **changes.get("training", {})}}


def labels(updates, batch, evaluated=200, **changes):
    """Settings of a BERT that learns the keywords of a name as its class."""
    folder = DATA / "emoji-keywords"
    rows = {f"{split}_file": f'"{folder}/train.jsonl"' for split in ("train", "validation")}
    texts, changes = bert(updates, batch, **changes)
    changes["model"]["head"] = '"sequence_classification"'
    changes["data"] = {**rows, "test_file": None, "max_eval_samples": evaluated, "text_column": '"text"', "label_column": '"summary"', "dupe_factor": None, "masking": None, "max_seq_length": 32}
    return texts, changes


def values(updates, batch, evaluated, **changes):
    """Settings of a model that learns values of pairs."""
    texts, changes = labels(updates, batch, evaluated, **changes)
    changes["data"].update(train_file='"values.jsonl"', validation_file='"values.jsonl"', text_pair_column='"text_pair"', label_column='"label"')
    return texts, changes


def tags(updates, batch, evaluated, all_tokens=False, **changes):
    """Settings of a model that learns tags of words."""
    texts, changes = labels(updates, batch, evaluated, **changes)
    changes["model"]["head"] = '"token_classification"'
    changes["data"].update(train_file='"words.jsonl"', validation_file='"words.jsonl"', text_column='"tokens"', label_column='"tags"', label_all_tokens=str(all_tokens).lower())
    return texts, changes


def embeddings(updates, batch, evaluated, loss="multiple_negatives_ranking", **changes):
    """Settings of a model that embeds texts."""
    texts, changes = values(updates, batch, evaluated, **changes)
    changes["model"]["head"] = '"sentence_embedding"'
    changes["training"].update(loss=f'"{loss}"', batch_sampler='"batch_sampler"')
    if "ranking" in loss:
        changes["data"]["label_column"] = None
    return texts, changes


def t5(updates, batch, **changes):
    """Settings of the T5 demo's first updates."""
    keywords = DATA / "emoji-keywords"
    files = {f"{split}_file": f'"{keywords}/{split}.jsonl"' for split in ("train", "validation", "test")}
    training = {**EVALUATION_BATCH, "eval_strategy": '"no"', "num_train_epochs": None, "warmup_ratio": None, "max_steps": updates, "per_device_train_batch_size": batch}
    model = {"model_name_or_path": f'"{keywords}/model"', "tokenizer_name": f'"{DATA}/tokenizer/unigram"'}
    return (ROOT / "config/t5_demo.toml").read_text(), {**changes, "model": {**model, **changes.get("model", {})}, "data": {**files, **FEW_ROWS, **changes.get("data", {})}, "training": training}


def short(run):
    """The settings with two rows of each file evaluated."""
    text, changes = run
    return text, {**changes, "data": {**changes["data"], "max_eval_samples": 2, "max_predict_samples": 2}}


def tiles(run):
    """The settings with sums of tiles."""
    text, changes = run
    return text, {**changes, **TILES, "model": {**changes["model"], **TILES["model"]}}


BF16 = {"model": {"precision": '"bf16"'}}
TILES = {**BF16, "machine": {"bf16_sums": '"tiles"'}}
TRAINING_PREPARATION = {"data": {"preprocessing": '"training"'}}
MIXED_LABELS = {"data": {"mixup_alpha": 0.8, "cutmix_alpha": 1.0}, "training": {"ema_decay": 0.5}}
PADDED_LABELS = {"ignore_pad_token_for_loss": "false", "pad_to_max_length": "true"}
LAMB = {"training": {"optimizer": '"lamb"'}}
TWO_RANKS = {"distributed": {"world_size": 2}}
QUICK = {
    "golden contrastive": lambda: golden("contrastive"),
    "demo, 2 updates": lambda: demo(2, 2),
    "demo, 2 updates, bf16": lambda: demo(2, 2, **BF16),
    "demo, 2 updates, tiles": lambda: demo(2, 2, **TILES),
    "BERT, values of pairs, 2 updates": lambda: values(2, 8, 24, model=RELATIVES["bert"]),
    "RoBERTa, classes, 2 updates": lambda: labels(2, 8, 24, model=RELATIVES["roberta"]),
    "DistilBERT, values of pairs, 2 updates, bf16": lambda: values(2, 8, 24, model={**RELATIVES["distilbert"], **BF16["model"]}),
    "BERT, tags, 2 updates": lambda: tags(2, 8, 24, model=RELATIVES["bert"]),
    "RoBERTa, tags of all tokens, 2 updates, bf16": lambda: tags(2, 8, 24, True, model={**RELATIVES["roberta"], **BF16["model"]}),
    "DistilBERT, tags, 2 updates": lambda: tags(2, 8, 24, model=RELATIVES["distilbert"]),
    "BERT, vectors of texts, 2 updates": lambda: embeddings(2, 8, 24, model=RELATIVES["bert"]),
    "DistilBERT, vectors of texts by their order, 2 updates, bf16": lambda: embeddings(2, 8, 24, "cosent", model={**RELATIVES["distilbert"], "pooling": '"max"', **BF16["model"]}),
}
RUNS = {
    **QUICK,
    "golden matching": lambda: golden("matching"),
    "golden masked_lm": lambda: golden("masked_lm"),
    "demo, 6 updates of 64": lambda: demo(6, 64),
    "demo, 6 updates, pictures prepared as in training": lambda: demo(6, 16, **TRAINING_PREPARATION),
    "demo, 4 updates, 2 ranks": lambda: demo(4, 8, **TWO_RANKS),
    "ViT, 6 updates": lambda: vit(6, 16),
    "ViT, 6 updates, bf16": lambda: vit(6, 16, **BF16),
    "ViT, 6 updates, tiles": lambda: vit(6, 16, **TILES),
    "ViT, 6 updates, mixup, cutmix and the average": lambda: vit(6, 16, **MIXED_LABELS),
    "DeiT, 2 updates": lambda: short(deit(2, 2)),
    "DeiT, 2 updates, bf16": lambda: short(deit(2, 2, **BF16)),
    "BERT, 4 updates": lambda: bert(4, 8),
    "BERT, 4 updates, LAMB, bf16": lambda: bert(4, 8, **LAMB, **BF16),
    "BERT, 2 updates, tiles": lambda: tiles(bert(2, 8, **BF16)),
    "BERT, classes, 4 updates": lambda: labels(4, 8),
    "BERT, classes, 4 updates, bf16": lambda: labels(4, 8, **BF16),
    "RoBERTa, classes, 2 updates, bf16": lambda: labels(2, 8, 24, model={**RELATIVES["roberta"], **BF16["model"]}),
    "DistilBERT, values of pairs, 2 updates": lambda: values(2, 8, 24, model=RELATIVES["distilbert"]),
    "T5, 6 updates": lambda: t5(6, 16),
    "T5, 2 updates, tiles": lambda: t5(2, 16, **TILES),
    "T5, 6 updates, padded labels, bf16": lambda: t5(6, 16, data=PADDED_LABELS, **BF16),
    "demo, 6 updates of 64, bf16": lambda: demo(6, 64, **BF16),
    "demo, 4 updates, 2 ranks, bf16": lambda: demo(4, 8, **TWO_RANKS, **BF16),
}
# With scalar code the longer ones of RUNS take three minutes; in these it has all its kernels, too.
SCALAR = {
    **QUICK,
    **{name: RUNS[name] for name in ("golden matching", "golden masked_lm", "RoBERTa, classes, 2 updates, bf16", "DistilBERT, values of pairs, 2 updates", "DeiT, 2 updates", "DeiT, 2 updates, bf16")},
    "demo, 2 updates, pictures prepared as in training": lambda: demo(2, 2, **TRAINING_PREPARATION),
    "demo, 2 updates, 2 ranks": lambda: demo(2, 2, **TWO_RANKS),
    "demo, 2 updates, 2 ranks, bf16": lambda: demo(2, 2, **TWO_RANKS, **BF16),
    "ViT, 2 updates": lambda: short(vit(2, 2)),
    "ViT, 2 updates, bf16": lambda: short(vit(2, 2, **BF16)),
    "ViT, 2 updates, tiles": lambda: short(vit(2, 2, **TILES)),
    "ViT, 2 updates, mixup, cutmix and the average": lambda: short(vit(2, 2, **MIXED_LABELS)),
    "BERT, 2 updates": lambda: short(bert(2, 2)),
    "BERT, 2 updates, LAMB, bf16": lambda: short(bert(2, 2, **LAMB, **BF16)),
    "BERT, 1 update, tiles": lambda: short(tiles(bert(1, 2, **BF16))),
    "BERT, classes, 2 updates": lambda: labels(2, 2, 2),
    "BERT, classes, 2 updates, bf16": lambda: labels(2, 2, 2, **BF16),
    "T5, 2 updates": lambda: short(t5(2, 2)),
    "T5, 1 update, tiles": lambda: short(t5(1, 2, **TILES)),
    "T5, 2 updates, padded labels, bf16": lambda: short(t5(2, 2, data=PADDED_LABELS, **BF16)),
}


def runs_on(isa):
    """Names of the runs that an instruction set has kernels of its own for, or all."""
    if isa == "scalar":
        return list(SCALAR)
    if isa == "amx":
        return [name for name in RUNS if "tiles" in name]
    if isa == "avx512_bf16":  # in float32 its kernels are those of avx512
        return [name for name in RUNS if name in QUICK or "tiles" in name or "bf16" in name]
    return list(RUNS)


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if not line.startswith("qemu-")]
    return done.returncode, done.stdout, "\n".join(errors)


def has_recorded_bits(start, isa):
    codes = []
    for sums in ("tiles",) if isa == "amx" else ("pairs", "tiles"):
        code, output, errors = output_of([*start, "verify", "--bits", "--isa", isa, "--bf16-sums", sums, "--threads", "2"])
        print(output + errors, end="", flush=True)
        codes.append(code)
    return not any(codes)


def digests_of(start, name, isa):
    text, changes = {**RUNS, **SCALAR}[name]()
    with tempfile.TemporaryDirectory() as folder:
        changes.setdefault("training", {})["output_dir"] = f'"{folder}/run"'
        changes["machine"] = {**changes.get("machine", {}), "isa": f'"{isa}"', "threads": 2}
        write_relatives(pathlib.Path(folder))
        write_deit(pathlib.Path(folder) / "deit")
        write_values(pathlib.Path(folder) / "values.jsonl")
        write_words(pathlib.Path(folder) / "words.jsonl")
        settings = pathlib.Path(folder) / "settings.toml"
        settings.write_text(edited(text, changes))
        code, _, errors = output_of([*start, "run", settings])
        if code != 0:
            sys.exit(f"{name}, {isa}: exit code {code}: {errors}")
        return {file: digest[:16] for file, digest in digests(pathlib.Path(folder) / "run").items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--emulator", type=shlex.split, default=[], help="command that runs the program")
    parser.add_argument("--isa", action="append", help="instruction set; default: each of this CPU, under an emulator its best")
    parser.add_argument("--quick", action="store_true", help="only the runs that are short enough for an emulator")
    parser.add_argument("--runs", default="*", help="a pattern of names; default: all")
    parser.add_argument("--record", action="store_true", help="write the digests of this CPU's best instruction set")
    arguments = parser.parse_args()

    start = [*arguments.emulator, arguments.program.resolve()]
    isas = ["auto"] if arguments.record or arguments.emulator else [*instruction_sets(), *(["amx"] if has_tiles() else [])]
    recorded = {} if arguments.record and arguments.runs == "*" else json.loads(RECORD.read_text())
    different = 0
    for isa in arguments.isa or isas:
        different += 0 if has_recorded_bits(start, isa) else 1
        names = [*RUNS, *(name for name in SCALAR if name not in RUNS)] if arguments.record else runs_on(isa)
        for name in names:
            if not fnmatch.fnmatch(name, arguments.runs) or (arguments.quick and name not in QUICK):
                continue
            if "ranks" in name and shutil.which("mpirun") is None:
                print(f"{name}, {isa}: skipped, mpirun is not installed")
                continue
            found = digests_of(start, name, isa)
            if arguments.record:
                recorded[name] = found
            files = [file for file in sorted({*found, *recorded[name]}) if found.get(file) != recorded[name].get(file)]
            different += len(files)
            print(f"{name}, {isa}: " + (f"DIFFERENT: {', '.join(files)}" if files else f"{len(found)} digests as recorded"), flush=True)
    if arguments.record:
        RECORD.write_text(json.dumps(recorded, indent=1) + "\n")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
