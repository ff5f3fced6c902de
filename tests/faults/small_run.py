# SPDX-License-Identifier: Apache-2.0
"""A run of a moment: models of tests/data/goldens on the rows of tests/data/run_goldens, and what identifies its outcome."""
import hashlib
import json
import os
import pathlib
import shutil

from bascule_run import ROOT, digest, run, settings
from run_files import tensors

DATA = ROOT / "tests" / "data"
ROWS = [json.loads(line) for line in (DATA / "run_goldens" / "rows.jsonl").read_text().splitlines()]
TOKENIZER = DATA / "run_goldens" / "tokenizer"
METRICS = ("loss", "recall_at_1", "recall_at_5", "recall_at_10", "accuracy", "auc", "perplexity", "rougeLsum", "gen_len")


def write_rows(path, rows):
    """A manifest of rows of ROWS' form, usable from everywhere. Returns the path as a value of the settings."""
    rows = [{**row, "image": os.path.normpath(DATA / "run_goldens" / row["image"])} for row in rows]
    pathlib.Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f'"{path}"'


def copy_model(name, folder, **text_config):
    """A copy of a model of tests/data/goldens with changes of its text configuration."""
    folder.mkdir()
    for file in (DATA / "goldens" / name).glob("model*"):
        shutil.copy(file, folder)
    config = json.loads((DATA / "goldens" / name / "config.json").read_text())
    config["text_config"].update(text_config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def small_settings(folder, model="itc_add", **changes):
    values = {"model__model_name_or_path": f'"{DATA}/goldens/{model}"', "model__tokenizer_name": f'"{TOKENIZER}"', "model__from_scratch": None, "model__dropout": '"off"',
              "data__train_file": f'"{DATA}/run_goldens/rows.jsonl"', "data__max_seq_length": "16", "data__preprocessing": '"training"', "training__max_steps": "3",
              "training__per_device_train_batch_size": "4", "training__logging_steps": "1", "training__save_steps": "0"}
    return settings(folder, **{**values, **changes})


def outcome(folder, model="itc_add", start=run, **changes):
    """What a run leaves: exit code, standard error, the parameters' bits, and what evaluation and prediction found. start: as bascule_run.run."""
    folder = pathlib.Path(folder)
    done = start("run", small_settings(folder, model, **changes))
    weights = next(iter(sorted(folder.glob("run*/model.safetensors"))), None)
    found = {}
    for path in sorted(folder.glob("run*/*_results.json")):
        results = json.loads(path.read_text())
        found.update({f"{path.name}: {key}": value for key, value in results.items() if path.name not in ("all_results.json", "train_results.json") and key.endswith(METRICS)})
    for path in folder.glob("run*/embeddings.safetensors"):
        found.update({name: hashlib.sha256(values.tobytes()).hexdigest() for name, values in tensors(path).items()})
    for path in folder.glob("run*/generated_predictions.txt"):
        found["texts"] = digest(path)
    return {"exit": done.returncode, "stderr": done.stderr, "parameters": digest(weights) if weights else None, "evaluation": found}
