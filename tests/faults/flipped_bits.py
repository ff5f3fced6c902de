# SPDX-License-Identifier: Apache-2.0
"""Single bits changed in files of a run, and the checksums of a checkpoint made to agree with them."""
import ctypes
import json
import pathlib
import re
import struct

XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64
XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def xxh3(data):
    return f"{XXHASH.XXH3_64bits(data, len(data)):016x}"


def flip(path, byte, bit):
    """Of a file, which gets a new inode: a hard link to it stays as it is."""
    path = pathlib.Path(path)
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.unlink()
    path.write_bytes(data)


def flip_behind(path, start, draw):
    """A random bit from byte `start` on, below zero from the end."""
    size = pathlib.Path(path).stat().st_size
    start = size + start if start < 0 else start
    flip(path, draw.randrange(start, size), draw.randrange(8))


def tensors_of(path):
    """[(name, first byte, end)] of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    return [(name, start + entry["data_offsets"][0], start + entry["data_offsets"][1]) for name, entry in sorted(header.items()) if name != "__metadata__"]


def flip_in_checkpoint(folder, file, byte, bit):
    """A bit of a checkpoint's file, so that the checkpoint stays sound."""
    folder = pathlib.Path(folder)
    before = xxh3((folder / file).read_bytes())
    flip(folder / file, byte, bit)
    state = (folder / "bascule_state.json").read_bytes()
    assert state.count(before.encode()) == 1
    state = state.replace(before.encode(), xxh3((folder / file).read_bytes()).encode())
    (folder / "bascule_state.json").write_bytes(signed(state))


def signed(state):
    """The text of a checkpoint's state with the checksum of what it is now."""
    end = re.search(rb', "xxh3": "([0-9a-f]{16})"\}\n$', state)
    return state[:end.start(1)] + xxh3(state[:end.start()]).encode() + state[end.end(1):]
