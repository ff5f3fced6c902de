# SPDX-License-Identifier: Apache-2.0
"""Digests of what a run computed, for tools that compare runs."""
import hashlib
import json

# Parts of the keys of result files that say how long something took or how much was in use.
MEASURED = ("runtime", "per_second", "memory", "loader")


def tensors_digest(path):
    """Of the tensors of a safetensors file; its notes say where pictures lie."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return hashlib.sha256(json.dumps(header, sort_keys=True).encode() + data[8 + length:]).hexdigest()


def predictions_digest(path):
    """Of the lines of predictions.jsonl, without what is not computed: where the file of a text corpus lies, and names of classes."""
    lines = [json.loads(line) for line in path.read_text().split("\n") if line]
    for line in lines:
        line.pop("begins", None)
        line.pop("label_name", None)
        predicted = line.get("predicted")
        for one in predicted if isinstance(predicted, list) else ():
            if isinstance(one, dict):  # a class with its score; else a word's tag
                one.pop("class_name", None)
    return hashlib.sha256(json.dumps(lines, sort_keys=True).encode()).hexdigest()


def digests(folder):
    """Digest by file of a finished run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".safetensors":
            found[name] = tensors_digest(path)
        elif path.name == "predictions.jsonl":
            found[name] = predictions_digest(path)
        elif path.name == "all_results.json":
            values = json.loads(path.read_text())
            for key in [key for key in values if any(part in key for part in MEASURED)]:
                del values[key]
            found[name] = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return found
