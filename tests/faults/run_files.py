# SPDX-License-Identifier: Apache-2.0
"""Reads what a run leaves: tensors of safetensors files, scalars of TensorBoard events."""
import array
import json
import pathlib
import struct


def tensors(path):
    """All float32 and bfloat16 tensors of a safetensors file, as arrays of floats by name."""
    data = pathlib.Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        begin, end = (start + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "F32":
            found[name] = array.array("f", data[begin:end])
        elif entry["dtype"] == "BF16":
            halves = array.array("H", data[begin:end])
            found[name] = array.array("f", array.array("I", [half << 16 for half in halves]).tobytes())
    return found


def rewrite(source, target, rename, copies, factors=None):
    """The same tensors under other names, and some of them a second time, multiplied by a factor where they have one."""
    data = source.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:start]), data[start:]
    metadata = header.pop("__metadata__", {})
    for name, original in copies.items():
        begin, end = header[original]["data_offsets"]
        header[name] = {**header[original], "data_offsets": [len(body), len(body) + end - begin]}
        values = array.array("f", body[begin:end]) if factors and name in factors else None
        body += body[begin:end] if values is None else array.array("f", [value * factors[name] for value in values]).tobytes()
    text = json.dumps({"__metadata__": metadata, **{rename(name): entry for name, entry in header.items()}}).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(struct.pack("<Q", len(text)) + text + body)


def weights(folder):
    """The tensors of a Hugging Face folder, in shards or not."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("model*.safetensors")):
        found.update(tensors(path))
    return found


def fields(message):
    """(field, value) of a protobuf message; values are numbers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 2: None, 5: 4}[key & 7]
        if size is None:
            size = varint()
        value = message[at:at + size]
        at += size
        yield key >> 3, struct.unpack("<f" if size == 4 else "<d", value)[0] if key & 7 != 2 else value


def scalars(run_folder, tag):
    """{step: value} of one TensorBoard tag of a run."""
    found = {}
    # Names have the second and the process: of two in one second the later may come first.
    for path in sorted(pathlib.Path(run_folder).rglob("events.out.tfevents.*"), key=lambda one: one.stat().st_mtime_ns):
        data, at = path.read_bytes(), 0
        while at < len(data):
            size = struct.unpack("<Q", data[at:at + 8])[0]
            event = dict(fields(data[at + 12:at + 12 + size]))
            at += 16 + size
            for field, value in fields(event.get(5, b"")):
                entry = dict(fields(value)) if field == 1 else {}
                if entry.get(1, b"").decode() == tag and 2 in entry:
                    found[event.get(2, 0)] = entry[2]
    return found
