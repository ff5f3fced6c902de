#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads what write_sample wrote with TensorBoard's own reader and compares it with trainer_state.json.

usage: check_tensorboard.py WRITE_SAMPLE    (exit 77, "skipped", where the tensorboard package is absent)
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("skipped: no tensorboard package")
    sys.exit(77)


def check_series(events, tag, expected):
    """expected: [(step, value)], values as rounded in the result files."""
    read = [(scalar.step, scalar.value) for scalar in events.Scalars(tag)]
    assert [step for step, _ in read] == [step for step, _ in expected], (tag, read[:3], expected[:3])
    for (step, value), (_, wanted) in zip(read, expected):
        assert math.isclose(value, wanted, rel_tol=1e-6, abs_tol=1e-4), (tag, step, value, wanted)


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, stdout=subprocess.DEVNULL)
        history = json.loads((pathlib.Path(folder) / "trainer_state.json").read_text())["log_history"]
        events = EventAccumulator(folder + "/runs/sample", size_guidance={"scalars": 0, "tensors": 0})
        events.Reload()
        for tag, key in [("train/loss", "loss"), ("train/grad_norm", "grad_norm"),
                         ("train/learning_rate", "learning_rate"), ("train/epoch", "epoch"),
                         ("eval/loss", "eval_loss"), ("eval/runtime", "eval_runtime"),
                         ("eval/text_to_image_recall_at_5", "eval_text_to_image_recall_at_5")]:
            expected = [(entry["step"], entry[key]) for entry in history
                        if key in entry and (key != "epoch" or "loss" in entry)]
            assert expected, key
            check_series(events, tag, expected)
        text = events.Tensors("args/text_summary")[0].tensor_proto.string_val[0].decode()
        assert text.endswith("| seed | 42 |"), text
        assert events.SummaryMetadata("args/text_summary").plugin_data.plugin_name == "text"
        print("tags:", ", ".join(sorted(events.Tags()["scalars"])))


main()
