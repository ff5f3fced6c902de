# SPDX-License-Identifier: Apache-2.0
"""For tools that run the program on a settings file with some keys changed."""
import re
import subprocess
import sys
import tempfile


# For "training" of a run that is measured: no evaluation, and one checkpoint at the end.
NO_EVALUATION = {"save_steps": 0, "eval_strategy": None, "save_strategy": None, "load_best_model_at_end": None, "metric_for_best_model": None}


def edited(text, changes):
    """The text of a settings file with some keys set: {"training": {"max_steps": 24}}; None removes a key."""
    for table, keys in changes.items():
        for key in keys:
            text = re.sub(rf"(?m)^\s*{key}\s*=.*\n?", "", text)
        lines = "".join(f"{key} = {value}\n" for key, value in keys.items() if value is not None)
        text = text.replace(f"[{table}]", f"[{table}]\n{lines}", 1) if f"[{table}]" in text else f"{text}\n[{table}]\n{lines}"
    return text


def run_edited(program, settings, command, changes, *options, machines=None):
    """Standard output of a command on the edited settings, which lie beside the original for the time: its paths are relative to it.
    machines: a TwoNodes, on whose first it runs."""
    with tempfile.NamedTemporaryFile("w", dir=settings.resolve().parent, prefix=".edited_", suffix=".toml") as file:
        file.write(edited(settings.read_text(), changes))
        file.flush()
        words = [str(program.resolve()), command, file.name, *options]
        done = subprocess.run(machines.command(0, words) if machines else words, env=machines.environment() if machines else None, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{sys.argv[0]}: {done.stderr}")
    return done.stdout
