# SPDX-License-Identifier: Apache-2.0
"""What the tests of whole runs share: a small run's settings, starting the program, comparing what it left."""
import functools
import hashlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ.get("BASCULE_BUILD_DIR", ROOT / "build")).resolve() / "bascule"
EMOJI = ROOT / "tests" / "data" / "emoji-captions"
TINY_MODEL, DEMO_MODEL = EMOJI / "tiny_model", EMOJI / "model"  # checkpoints of 7 MB and of 29 MB; an update of the tiny one takes a fifth of the time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background job, and then by the program too


def settings(folder, **changes):
    """TOML of a run of a moment; changes by "table.key" with "." written "__": training__max_steps=3."""
    values = {
        "model__model_name_or_path": f'"{TINY_MODEL}"',
        "model__tokenizer_name": f'"{EMOJI}/tokenizer"',
        "model__from_scratch": "true",
        "data__train_file": f'"{EMOJI}/train.jsonl"',
        "data__max_seq_length": "32",
        "data__preprocessing": '"processor"',
        "media_engine__memory_mib": "48",
        "training__output_dir": f'"{folder}/run"',
        "training__max_steps": "12",
        "training__per_device_train_batch_size": "8",
        "training__learning_rate": "1e-3",
        "training__save_steps": "3",
        "training__logging_steps": "2",
    }
    values.update(changes)
    tables = {}
    for key, value in values.items():
        table, name = key.split("__")
        if value is not None:
            tables.setdefault(table, []).append(f"{name} = {value}")
    text = "".join(f"[{table}]\n" + "\n".join(lines) + "\n" for table, lines in tables.items())
    path = pathlib.Path(folder) / "run.toml"
    path.write_text(text)
    return path


class FolderTest(unittest.TestCase):
    """Gives each test a temporary folder of its own."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory())).resolve()


class SharedFolderTest(unittest.TestCase):
    """Gives all tests of a class one temporary folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory())).resolve()


def run(*arguments, **options):
    return subprocess.run([str(PROGRAM), *map(str, arguments)], capture_output=True, text=True, timeout=patient(600), **options)


def run_ends(code, *arguments, **options):
    """Runs the program and fails unless it ends with this exit code."""
    done = run(*arguments, **options)
    if done.returncode != code:
        raise AssertionError(f"{' '.join(map(str, arguments))}: exit code {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def run_ok(*arguments, **options):
    return run_ends(0, *arguments, **options)


def run_until(pattern, number, *arguments):
    """A program that gets this signal once a line of what it says matches; its exit code and all that it has said."""
    lines = []
    with subprocess.Popen([str(PROGRAM), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            lines.append(line)
            if pattern and re.search(pattern, line):
                process.send_signal(number)
                pattern = None
    return process.returncode, "".join(lines)


def has_onednn():
    return "oneDNN" in run("--version").stdout


@functools.lru_cache(maxsize=None)
def is_sanitized():
    """Whether the program was compiled with a sanitizer: it has the heap for itself, memory beside what is planned, and takes several times as long."""
    options = PROGRAM.parent / "meson-info" / "intro-buildoptions.json"
    return options.is_file() and any(option["name"] == "b_sanitize" and option["value"] not in ("none", []) for option in json.loads(options.read_text()))


def patient(seconds):
    """A limit of time for what takes much less: ten times as long with a sanitizer."""
    return 10 * seconds if is_sanitized() else seconds


def instruction_sets():
    """Those that this machine runs and that have all kernels, as machine.isa names them."""
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    needs = {"scalar": "", "avx2": "avx2", "avx512": "avx512bw", "avx512_bf16": "avx512_bf16"}
    return [isa for isa, flag in needs.items() if not flag or flag in flags]


def has_tiles():
    """Whether this CPU has them (AMX)."""
    return "amx_bf16" in pathlib.Path("/proc/cpuinfo").read_text().split()


def has_mpi():
    return "MPI: none" not in run("--version").stdout


def wait_for(condition, seconds=60):
    """Until condition() holds."""
    deadline = time.monotonic() + patient(seconds)
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("waited too long")
        time.sleep(0.01)


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
