# SPDX-License-Identifier: Apache-2.0
"""Reads a JSON of tools/bench, and refuses one that is none or that is damaged before anything is computed from it."""
import json
import math

FORMAT = "bascule bench 1"
NUMBER = (int, float)
TEXT_OR_NONE = (str, type(None))
HEAD = {"machine": dict, "program": dict, "repeats": int, "side": str, "started": str, "complete": bool, "pair": TEXT_OR_NONE, "bringups": list, "entries": list}
MACHINE = {"processor": TEXT_OR_NONE, "family-model-stepping": str, "cores": int, "isa": str, "memory_gib": NUMBER, "kernel": TEXT_OR_NONE, "hypervisor": TEXT_OR_NONE}
PROGRAM = {"sha256": str, "version": list, "compiler": TEXT_OR_NONE, "commit": TEXT_OR_NONE, "clean": (bool, type(None))}
BRINGUP = {"started": str, "figures": dict}
ENTRY = {"name": str, "subject": str, "kind": str, "command": str, "state": str, "figures": list}
MEASURED = {"disturbed": list, "bringups": list}
FIGURE = {"name": str, "unit": str, "better": str, "values": list}


def read(path):
    """The document of a file. Raises ValueError: one line that names the file and what is wrong."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"{path}: not a JSON of tools/bench")
    wrong = next(faults(document), None)
    if wrong:
        raise ValueError(f"{path}: damaged: {wrong}")
    return document


def faults(document):
    yield from wrong_members(document, HEAD, "")
    yield from wrong_members(document["machine"], MACHINE, "machine: ")
    yield from wrong_members(document["program"], PROGRAM, "program: ")
    if not document["program"]["version"]:
        yield "program: version is empty"
    for number, bringup in enumerate(document["bringups"]):
        yield from wrong_members(bringup, BRINGUP, f"bring-up {number}: ")
        if not all(is_number(value) and value > 0 for value in bringup["figures"].values()):
            yield f"bring-up {number}: a figure is no number above 0"
    seen = set()
    for number, entry in enumerate(document["entries"]):
        yield from wrong_members(entry, ENTRY, f"entry {number}: ")
        if entry["name"] in seen:
            yield f"{entry['name']}: twice"
        seen.add(entry["name"])
        if entry["state"] == "measured":
            yield from wrong_figures(entry)


def wrong_figures(entry):
    place = f"{entry['name']}: "
    yield from wrong_members(entry, MEASURED, place)
    if not entry["figures"]:
        yield f"{place}no figures"
    for number, figure in enumerate(entry["figures"]):
        yield from wrong_members(figure, {**FIGURE, **({"of": str} if isinstance(figure, dict) and figure.get("kind") else {})}, f"{place}figure {number}: ")
        if not figure["values"] or not all(map(is_number, figure["values"])):
            yield f"{place}{figure['name']}: values are no numbers"
        if len(figure["values"]) != len(entry["figures"][0]["values"]):
            yield f"{place}{figure['name']}: {len(figure['values'])} values, {len(entry['figures'][0]['values'])} of the first figure"


def wrong_members(value, kinds, place):
    if not isinstance(value, dict):
        yield f"{place}no object"
        return
    for name, kind in kinds.items():
        if name not in value:
            yield f"{place}{name} is missing"
        elif not isinstance(value[name], kind):
            yield f"{place}{name} is of another type"


def is_number(value):
    return isinstance(value, NUMBER) and not isinstance(value, bool) and math.isfinite(value)
