# SPDX-License-Identifier: Apache-2.0
"""Runs tools/settings_from_command_line.py, for the tests of it."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/settings_from_command_line.py"


def convert(text):
    """A command line on standard input -> (exit code, settings as {"table.key": text}, lines of standard error)."""
    done = subprocess.run([sys.executable, TOOL], input=text, capture_output=True, text=True, check=False)
    settings, table = {}, ""
    for line in done.stdout.splitlines():
        if line.startswith("["):
            table = line.strip("[]")
        elif " = " in line and not line.startswith("#"):
            key, _, value = line.partition(" = ")
            settings[f"{table}.{key}"] = value.partition("  # ")[0]
    return done.returncode, settings, done.stderr.splitlines()


def published(name):
    return (ROOT / "tests/tools/command_lines" / name).read_text()
