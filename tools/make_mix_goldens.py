#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mixup and cutmix by their definition, in float64 and apart from the program: the truth of tests/loader/test_mixing.cpp.

  tools/make_mix_goldens.py        writes tests/data/images/mixes.json

1,000 pairs: seed, epoch and number of the pair, the pictures' side, the two alphas; and what must come of them: whether the pair
is cut, the share of the own label, and the box (x from and to, y from and to).
"""
import json
import math
import random

from make_crop_goldens import IMAGES, Draws, uniform


def share_from_beta(draws, alpha):
    """Joehnk's method; the number of draws is not bounded."""
    index = 0
    while True:
        index += 1
        words = draws(index)
        if alpha == 1:
            return uniform(words[0])
        x, y = (uniform(word) ** (1 / alpha) for word in words[:2])
        if x + y <= 1:
            return x / (x + y)


def mix(draws, side, mixup_alpha, cutmix_alpha):
    """cut, share, x from, x to, y from, y to."""
    words = draws(0)
    cut = words[0] & 1 == 1 if mixup_alpha and cutmix_alpha else cutmix_alpha > 0
    share = share_from_beta(draws, cutmix_alpha if cut else mixup_alpha)
    if not cut:
        return 0, share, 0, 0, 0, 0
    half = int(side * math.sqrt(1 - share)) // 2
    x, y = words[1] * side >> 32, words[2] * side >> 32
    box = max(0, x - half), min(side, x + half), max(0, y - half), min(side, y + half)
    return 1, 1 - (box[1] - box[0]) * (box[3] - box[2]) / side ** 2, *box


def main():
    dice = random.Random(2)
    pairs = []
    for i in range(1000):
        alphas = dice.choice([(0.8, 1.0), (0.8, 0.0), (0.0, 1.0), (0.1, 0.1), (4.0, 0.3), (1.0, 2.5)])
        seed, epoch, pair, side = dice.choice([0, 42, 2 ** 63 - 1]), dice.choice([0, 1, 399]), dice.choice([i, 2 ** 33 + i]), dice.choice([1, 2, 64, 224, 225])
        pairs.append([seed, epoch, pair, side, *alphas, *mix(Draws(seed, epoch, pair, "\0mix"), side, *alphas)])
    lines = ",\n".join(json.dumps(pair, separators=(",", ":")) for pair in pairs)
    (IMAGES / "mixes.json").write_text(f'{{"made_by": "tools/make_mix_goldens.py",\n"pairs": [\n{lines}]}}\n')
    print(len(pairs), "pairs,", sum(pair[6] for pair in pairs), "of them cut")


if __name__ == "__main__":
    main()
