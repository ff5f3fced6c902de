# SPDX-License-Identifier: Apache-2.0
"""What figures belong to: machine, program, commit, compiler and settings. And bring-ups, which say whether the machine was as fast after a measurement as before."""
import hashlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import bench_entries

ROOT = pathlib.Path(__file__).resolve().parent.parent
GUARDS = "clock,products,memory"  # items of a bring-up around every entry
SPEEDS = ("products", "memory")   # those that decide
MUCH = 0.05                       # of the time of a measurement, taken by others


class Failed(Exception):
    """A command that cannot be run, ended with another exit code than 0, or printed something else than was expected; in one line."""


def output_of(command, allowed=(0,)):
    try:
        done = subprocess.run([str(word) for word in command], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from error
    if done.returncode not in allowed:
        lines = done.stderr.strip().splitlines() or done.stdout.strip().splitlines()
        raise Failed(lines[-1] if lines else f"{command[0]}: ended with exit code {done.returncode} without a word")
    return done.stdout


def json_of(command, allowed=(0,)):
    try:
        return json.loads(output_of(command, allowed))
    except ValueError:
        raise Failed(f"{command[0]} printed no JSON") from None


def make_model(entry):
    folder = ROOT / bench_entries.MODELS / "-".join([entry.models[0], *entry.models[2::2]])
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=make_folder(folder.parent)) as temporary:
            whole = pathlib.Path(temporary) / folder.name
            output_of(["tools/make_published_model", entry.models[0], whole, *entry.models[1:]])
            whole.rename(folder)


def make_folder(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def bring_up(program, folder, number):
    """Figures of clock, products and memory. off: what says that the machine was not itself: figures that contradict those of the bring-up before, as
    `bascule bringup --against` judges them, or that others took part of the time."""
    profile, before = folder / f"{number}.json", folder / f"{number - 1}.json"
    against = ["--against", before] if before.is_file() else []
    found = json_of([program, "bringup", "--quick", "--only", GUARDS, "--json", "--save", profile, *against], allowed=(0, 7))
    figures = {f"{one['item']}: {one['name']}, {one['place']}": float(f"{one['median']:.5g}") for one in found["figures"] if one["place"] == "all cores" or one["item"] == "clock"}
    speeds = [one for one in found["figures"] if one["item"] in SPEEDS and one["place"] == "all cores"]
    off = [f"{one['item']}: {one['name']}: {one['judgement']['verdict']} by {100 * abs(one['judgement']['change']):.0f} %" for one in speeds
           if one.get("judgement", {}).get("verdict", "ok") not in ("ok", "unknown")]
    taken = statistics.median(max(one["taken"].values()) for one in speeds)
    if taken >= MUCH:
        off.insert(0, f"others took {100 * taken:.0f} % of the time of the bring-up")
    return {"number": number, "started": found["started"], "figures": figures, "off": off}


def machine_of(program):
    """The facts by which two machines are told apart, from a bring-up of the clock alone."""
    found = json_of([program, "bringup", "--quick", "--only", "clock", "--json"])
    machine, processor, kernel = found["machine"], found["machine"]["processor"], found["machine"]["kernel"]
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {"processor": processor.get("name"), "family-model-stepping": "-".join(str(processor.get(key)) for key in ("family", "model", "stepping")), "microcode": processor.get("microcode"), "hypervisor": processor.get("hypervisor"),
            "cores": found["cores"], "isa": found["isa"], "memory_gib": round(int(memory.group(1)) / 2**20, 1), "kernel": kernel.get("release"),
            "caches": [cache for cache in machine["caches"] if cache["cores"].split("-")[0] == "0"]}


def said_by(*command):
    """What a tool prints; None where it is not installed or fails."""
    try:
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def commit_of(path):
    """(commit, whether nothing has changed since) of the tree from which ninja has built a program; (None, None) where that cannot be said."""
    tree = said_by("git", "-C", path.parent, "rev-parse", "--show-toplevel")
    is_of_tree = tree is not None and pathlib.Path(tree.strip(), "src/meson.build").is_file() and (path.parent / "build.ninja").is_file()
    if not is_of_tree or "no work to do" not in (said_by("ninja", "-C", path.parent, "-n", path.name) or ""):
        return None, None
    return said_by("git", "-C", path.parent, "rev-parse", "HEAD").strip(), said_by("git", "-C", path.parent, "status", "--porcelain", "--untracked-files=no") == ""


def program_of(path):
    """Of the file itself, and the commit of its tree: None for a copy, where the tree has changed since, and without git."""
    content = path.read_bytes()
    compiler = re.search(rb"GCC: \([^)\0]*\) [\d.]+|clang version [\d.]+", content)
    version = output_of([path, "--version"]).strip().splitlines()
    if not version:
        raise Failed(f"{path} --version printed nothing")
    commit, clean = commit_of(path)
    return {"sha256": hashlib.sha256(content).hexdigest(), "version": version, "compiler": compiler.group(0).decode() if compiler else None, "commit": commit, "clean": clean}


def settings_digest(program, entry):
    """Of all settings with their defaults; that the tree lies elsewhere changes nothing."""
    if not entry.settings:
        return None
    text = output_of([program, "settings", entry.settings, *entry.keys])
    return hashlib.sha256(text.replace(f"{ROOT}{os.sep}", "").encode()).hexdigest()
