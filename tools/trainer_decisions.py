#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records when Hugging Face's Trainer with EarlyStoppingCallback evaluates, saves and stops, given the figures of its evaluations.

    tools/trainer_decisions.py > tests/data/trainer_decisions.json      (PyTorch and Transformers 5.23)

A model of one number is trained for a few updates under 60 random settings; the evaluations return figures drawn beforehand.
tests/record/test_training_control.cpp makes the same decisions from the same figures.
"""
import contextlib
import json
import pathlib
import random
import sys
import tempfile

import torch
import transformers
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments

SEED = 16


class OneNumber(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x, labels=None):
        return {"loss": (self.weight * x).sum()}


class Seen(TrainerCallback):
    def __init__(self):
        self.saved = []

    def on_save(self, args, state, control, **kwargs):
        self.saved.append(state.global_step)


class Told(Trainer):
    """Evaluations return the figures that they are given, in turn."""

    def evaluate(self, *args, **kwargs):
        figure = self.figures[len(self.evaluated)]
        self.evaluated.append(self.state.global_step)
        metrics = {"eval_figure": float("nan") if figure is None else figure}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def draw(random):
    """Settings that Trainer allows, of a run whose evaluation intervals end where the run ends or not."""
    case = {"updates_per_epoch": random.randint(2, 6), "eval_strategy": random.choice(["steps", "steps", "epoch"])}
    case["eval_steps"] = random.randint(1, 4) if case["eval_strategy"] == "steps" else 0
    case["loads_best"] = random.random() < 0.7
    case["save_strategy"] = case["eval_strategy"] if case["loads_best"] else random.choice(["steps", "epoch", "no"])
    case["save_steps"] = 0
    if case["save_strategy"] == "steps":
        case["save_steps"] = (case["eval_steps"] or 1) * random.choice([1, 1, 1, 2]) if case["loads_best"] else random.randint(1, 5)
    case["total_updates"] = random.randint(4, 24)
    case["greater_is_better"] = random.random() < 0.5
    case["patience"] = random.choice([0, 1, 2, 3])
    case["threshold"] = random.choice([0.0, 0.0, 0.25]) if case["patience"] else 0.0
    case["save_total_limit"] = random.choice([0, 1, 2, 3])
    # A few levels, so that ties and improvements below the threshold come up; now and then no number at all.
    case["figures"] = [None if random.random() < 0.05 else random.randint(0, 12) / 8 for _ in range(30)]
    return case


def decide(case):
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=case["total_updates"], per_device_train_batch_size=1, eval_strategy=case["eval_strategy"],
            eval_steps=case["eval_steps"] or None, save_strategy=case["save_strategy"], save_steps=case["save_steps"] or 500,
            load_best_model_at_end=case["loads_best"], metric_for_best_model="figure", greater_is_better=case["greater_is_better"],
            save_total_limit=case["save_total_limit"] or None, report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no")
        seen = Seen()
        callbacks = [seen] + ([EarlyStoppingCallback(case["patience"], case["threshold"])] if case["patience"] else [])
        rows = [{"x": torch.ones(1)} for _ in range(case["updates_per_epoch"])]
        trainer = Told(model=OneNumber(), args=arguments, train_dataset=rows, eval_dataset=rows, callbacks=callbacks)
        trainer.figures, trainer.evaluated = case["figures"], []
        trainer.train()
        state = trainer.state
        kept = sorted(int(path.name.split("-")[1]) for path in pathlib.Path(folder).glob("checkpoint-*"))
        checkpoint = state.best_model_checkpoint
        case["figures"] = case["figures"][:len(trainer.evaluated)]
        return {"evaluated": trainer.evaluated, "saved": seen.saved, "kept": kept, "ended": state.global_step,
                "best_step": state.best_global_step, "best_figure": state.best_metric if abs(state.best_metric) < 1e300 else None,
                "best_checkpoint": int(checkpoint.split("-")[-1]) if checkpoint else None}


def main():
    transformers.logging.set_verbosity_error()
    generator = random.Random(SEED)
    cases = []
    for _ in range(60):
        case = draw(generator)
        with contextlib.redirect_stdout(sys.stderr):  # Trainer prints
            case["expected"] = decide(case)
        cases.append(case)
    lines = ",\n".join(json.dumps(case) for case in cases)
    print(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}')


if __name__ == "__main__":
    main()
