# SPDX-License-Identifier: Apache-2.0
"""What the tests of several ranks share: settings, parameters, the processes of a run.

BASCULE_KILLS sets how often each failure is tried (1); BASCULE_TEST_SEED repeats the instants.
"""
import atexit
import functools
import json
import os
import pathlib
import re
import struct
import tempfile

from bascule_run import EMOJI, PROGRAM, settings

KILLS = int(os.environ.get("BASCULE_KILLS", "1"))
SEED = int(os.environ.get("BASCULE_TEST_SEED", "20261121"))
VALIDATION = f'"{EMOJI}/validation.jsonl"'


# Each rank touches the memory of its media engine, which takes a good part of a run of a moment.
SMALL_ENGINE = {"media_engine__memory_mib": "16"}


def ranks_settings(folder, ranks, **changes):
    return settings(folder, **{**SMALL_ENGINE, "distributed__world_size": str(ranks), **changes})


STRATEGIES = {
    "fast_ddp": {"distributed__distribution_strategy": '"fast_ddp"'},
    **{f"ddp{mib}": {"distributed__distribution_strategy": '"ddp"', "distributed__bucket_mib": str(mib)} for mib in (1, 4, 25)},
    **{f"stage{stage}": {"distributed__distribution_strategy": '"sharded"', "distributed__sharded_stage": str(stage), "distributed__bucket_mib": "1"}
       for stage in (1, 2, 3)},
}


def some_rows(folder, count):
    """A training file of the first rows, as a value of the settings."""
    rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:count]]
    text = "".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) + "\n" for row in rows)
    pathlib.Path(folder, "rows.jsonl").write_text(text)
    return f'"{folder}/rows.jsonl"'


def parameters(folder):
    """All float32 values of a finished run's model.safetensors, by tensor."""
    data = (pathlib.Path(folder) / "run" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "F32":
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors


def largest_relative_error(one, other):
    """Over the matrices and tables. Some biases have no gradient in exact arithmetic, and AdamW makes steps of its noise."""
    worst = 0.0
    for name, values in one.items():
        if name.endswith("weight") and len(values) >= 4096:
            difference = sum((a - b) ** 2 for a, b in zip(values, other[name]))
            worst = max(worst, (difference / sum(a * a for a in values)) ** 0.5)
    return worst


def processes_of(word):
    """Pids whose command line holds `word`, zombies left out."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word in (entry / "cmdline").read_bytes().decode(errors="replace"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def ranks_and_launcher(toml):
    """(rank pids in order of birth, mpirun's pid, pid of `bascule run`)"""
    pids = sorted(processes_of(str(toml)))
    names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
    launcher = [pid for pid, name in names.items() if "mpirun" in name or "orterun" in name]
    own = [pid for pid, name in names.items() if name == "bascule"]
    return own[1:], launcher[0] if launcher else None, own[0]


def pid_of_rank(toml, rank):
    return next(pid for pid in processes_of(str(toml)) if f"OMPI_COMM_WORLD_RANK={rank}".encode() in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))


@functools.lru_cache(maxsize=None)
def preloaded(name):
    """A library of tests/faults as LD_PRELOAD names it. A space or a colon would end its path there: then by a link, in a folder that two simulated machines share."""
    library = PROGRAM.parent / "tests" / f"lib{name}.so"
    if not re.search(r"[\s:]", str(library)):
        return str(library)
    folder = tempfile.TemporaryDirectory(dir="/var/tmp")
    atexit.register(folder.cleanup)
    link = pathlib.Path(folder.name) / library.name
    link.symlink_to(library)
    return str(link)
