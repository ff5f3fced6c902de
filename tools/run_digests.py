# SPDX-License-Identifier: Apache-2.0
"""Digests of what a run computed, for tools that compare runs."""
import hashlib
import json

# Parts of the keys of result files that say how long something took or how much was in use.
MEASURED = ("runtime", "seconds", "per_second", "memory", "resident", "library_allocations", "loader")


def tensors_digest(path):
    """Of the tensors of a safetensors file; its notes say where pictures lie."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + data[8 + length:]).hexdigest()


def predictions(path):
    """The lines of predictions.jsonl, without what is not computed: where the file of a text corpus lies, and names of classes."""
    lines = [json.loads(line) for line in path.read_text().split("\n") if line]
    for line in lines:
        line.pop("begins", None)
        line.pop("label_name", None)
        predicted = line.get("predicted")
        for one in predicted if isinstance(predicted, list) else ():
            if isinstance(one, dict):  # a class with its score; else a word's tag
                one.pop("class_name", None)
    return lines


def picture_digest(path):
    """Of a PNG file without its text chunks, which hold a digest of the settings and so of paths."""
    data = path.read_bytes()
    return hashlib.sha256(data[:33] + data[data.index(b"IDAT"):]).hexdigest()


def contents(folder):
    """What the files of a finished run hold, by their names: a digest as text, or a document without what was measured."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            found[name] = tensors_digest(path)
        elif path.name == "predictions.jsonl":
            found[name] = predictions(path)
        elif path.suffix == ".png":
            found[name] = picture_digest(path)
        elif path.name == "images.jsonl":
            # The check of a line is over its seconds, too.
            found[name] = [{key: value for key, value in json.loads(line).items() if key not in ("seconds", "check")} for line in path.read_text().splitlines()]
        elif path.name == "all_results.json":
            found[name] = {key: value for key, value in json.loads(path.read_text()).items() if not any(part in key for part in MEASURED)}
    return found


def digests(folder):
    """Digest by file of a finished run."""
    return {name: value if isinstance(value, str) else hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest() for name, value in contents(folder).items()}
