# SPDX-License-Identifier: Apache-2.0
"""Made-up JSONs of tools/bench for its tests: entries with a rate, memory and kinds of operations, and noise of a known size."""
import math
import random

KINDS = {"linear_backward": 60.0, "linear": 32.0, "attention_backward": 20.0, "attention": 12.0, "layer_norm_backward": 9.0, "layer_norm": 7.0, "activation": 6.0, "gather_rows": 0.5}
MACHINE = {"processor": "A processor", "family-model-stepping": "6-1-1", "microcode": "0x1", "hypervisor": None, "cores": 2, "isa": "avx512", "memory_gib": 16.0, "kernel": "6.1", "caches": []}
PROGRAM = {"sha256": "ab" * 32, "version": ["bascule 0.1.0", "media engine: host"], "compiler": "GCC: (Debian) 12.2.0", "commit": "c0ffee" * 6, "clean": True}


def entry(name, repeats, draw, slower, noise):
    """slower: {kind: factor}. noise: standard deviations of a run's level and of every kind. One value in thirty is an outlier."""
    runs = []
    for _ in range(repeats):
        level = draw.gauss(0, noise[0]) + (0.1 if draw.random() < 0.033 else 0)
        runs.append({kind: milliseconds * slower.get(kind, 1.0) * math.exp(level + draw.gauss(0, noise[1]) + (0.06 if draw.random() < 0.033 else 0)) for kind, milliseconds in KINDS.items()})
    figures = [{"name": "samples/s", "unit": "samples/s", "better": "more", "values": [1000 / sum(run.values()) for run in runs]},
               {"name": "of the ceiling", "unit": "%", "better": "", "values": [80 * sum(KINDS.values()) / sum(run.values()) for run in runs]},
               {"name": "memory planned", "unit": "MiB", "better": "less", "values": [300.0] * repeats},
               {"name": "memory resident", "unit": "MiB", "better": "less", "values": [280 + draw.random() for _ in range(repeats)]},
               *({"name": kind, "unit": "ms", "better": "less", "kind": True, "of": "", "values": [run[kind] for run in runs]} for kind in KINDS)]
    return {"name": name, "group": "demos", "subject": f"subject of {name}", "kind": "steps", "command": f"build/bascule bench config/{name}.toml --json", "settings": f"config/{name}.toml",
            "settings_digest": "d1" * 32, "keys": ["model.precision=bf16"], "state": "measured", "planned_bytes": 1, "attempts": [{"bringups": ["0", "1"], "off": []}], "disturbed": [],
            "bringups": ["0", "1"], "facts": {"precision": "float32"}, "figures": figures, "step_seconds": []}


def document(seed, repeats=5, entries=12, slower=None, side="new", pair="2026", noise=(0.03, 0.012), speed=1.0):
    """slower: {entry: {kind: factor}}. speed: of the machine, as its bring-ups say."""
    draw = random.Random(f"{seed} {side}")
    figures = {"products: float32 768 x 768, all cores": 200.0 * speed, "memory: copy, all cores": 20.0 * speed}
    names = [f"entry-{number}" for number in range(entries)]
    return {"format": "bascule bench 1", "machine": dict(MACHINE), "program": PROGRAM, "repeats": repeats, "set": names, "side": side, "started": "2026-11-26 08:00:00", "complete": True, "pair": pair,
            "bringups": [{"number": number, "started": str(number), "figures": figures, "off": []} for number in range(2)],
            "entries": [entry(name, repeats, draw, (slower or {}).get(name, {}), noise) for name in names]}
