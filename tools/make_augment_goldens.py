#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RandAugment, colour jitter and random erasing by torchvision's tensor functions: the truth of tests/loader/test_augmenting.cpp.

  tools/make_augment_goldens.py        writes tests/data/images/augmented.json; takes seconds

Needs torch and torchvision. Pictures are bytes of a formula that the test has too (`pattern`). The JSON has:
  magnitudes  torchvision's magnitude of an operation, by bins, bin and side
  operations  one operation on one picture: name, magnitude (a factor, or a shift of the hue), pattern, side, digest of the bytes
  pictures    all changes to one picture, drawn from Philox by the definitions in src/loader: settings, seed, epoch, row, and the
              digest of the normalised float32 values
Digests are the first 16 digits of SHA-256. torchvision places moved pixels in float32: cases in which a pixel's place lies within
1e-4 of the middle between two are left out, as the nearest pixel is then not defined.
"""
import hashlib
import json
import math
import random

import numpy
import torch
from torchvision.transforms import RandAugment, functional
from torchvision.transforms.autoaugment import _apply_op

from make_crop_goldens import IMAGES, MEAN, STD, Draws, uniform

SIDES = (2, 5, 24, 31)
PATTERNS = 4
NEAR = 1e-4
MOVES = ("ShearX", "ShearY", "Rotate")
COLOURS = {"brightness": functional.adjust_brightness, "contrast": functional.adjust_contrast,
           "saturation": functional.adjust_saturation, "hue": functional.adjust_hue}


def pattern(number, side):
    """0: slopes and edges; 1: dark; 2: three flat channels; 3: noise."""
    c, y, x = numpy.meshgrid(numpy.arange(3), numpy.arange(side), numpy.arange(side), indexing="ij")
    wave = (x * (7 + 3 * c) + y * (11 - 2 * c) + x * y // 5 + 60 * ((x // 6 + y // 5) % 2)) % 256
    noise = (x * x * 31 + y * 17 * (c + 1) + x * y * 101 + c * 77) * 2654435761 % 2 ** 32 >> 24
    return torch.from_numpy([wave, wave // 4 + 20, 40 + 80 * c, noise][number].astype(numpy.uint8))


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().tobytes()).hexdigest()[:16]


def is_near_a_middle(name, magnitude, side):
    if name not in MOVES:
        return False
    y, x = numpy.meshgrid(numpy.arange(side, dtype=float), numpy.arange(side, dtype=float), indexing="ij")
    if name == "ShearX":
        places = [x + magnitude * (y + 0.5)]
    elif name == "ShearY":
        places = [y + magnitude * (x + 0.5)]
    else:
        angle, centre = math.radians(magnitude), (side - 1) / 2
        across, down = x - centre, y - centre
        places = [math.cos(angle) * across - math.sin(angle) * down + centre, math.sin(angle) * across + math.cos(angle) * down + centre]
    return any((numpy.abs(numpy.abs(place - numpy.floor(place)) - 0.5) < NEAR).any() for place in places)


def apply(name, magnitude, picture):
    if name in COLOURS:
        return COLOURS[name](picture, magnitude)
    return _apply_op(picture, name, magnitude, functional.InterpolationMode.NEAREST, None)


def space(bins, side):
    return RandAugment()._augmentation_space(bins, (side, side))


def magnitudes():
    for bins, side in ((31, 224), (31, 24), (10, 31), (2, 5)):
        for number, (name, (table, _)) in enumerate(space(bins, side).items()):
            if table.ndim > 0:
                yield from ([number, bins, bin, side, float(table[bin].item())] for bin in sorted({0, 1, bins // 2, 9 % bins, bins - 1}))


def operations(dice):
    for number in range(PATTERNS):
        for side in SIDES:
            for name, (table, signed) in space(31, side).items():
                if table.ndim == 0:
                    yield [name, 0.0, number, side]
                    continue
                for bin in (9, dice.randrange(31)):
                    yield [name, float(table[bin].item()) * (dice.choice((1, -1)) if signed else 1), number, side]
            for name in COLOURS:
                for _ in range(2):
                    yield [name, round(dice.uniform(-0.5, 0.5) if name == "hue" else dice.uniform(0.0, 2.5), 3), number, side]
    yield ["contrast", 1.7, 3, 224]
    yield ["hue", 0.5, 3, 24]
    yield ["hue", -0.5, 0, 24]
    yield ["brightness", 0.0, 3, 5]


def rand_augment(picture, num_ops, magnitude, bins, draws):
    """None: a place is near a middle."""
    side = picture.shape[-1]
    table = list(space(bins, side).items())
    for i in range(num_ops):
        words = draws(i)
        name, (magnitudes_, signed) = table[words[0] * 14 >> 32]
        strength = float(magnitudes_[magnitude].item()) if magnitudes_.ndim > 0 else 0.0
        strength = -strength if signed and words[1] & 1 else strength
        if is_near_a_middle(name, strength, side):
            return None
        picture = apply(name, strength, picture)
    return picture


def color_jitter(picture, most, draws):
    left, order, words = list(COLOURS), [], draws(0)
    for made in range(4):
        order.append(left.pop(words[made] * (4 - made) >> 32 if made < 3 else 0))
    factors = {}
    for name, x, word in zip(COLOURS, most, draws(1)):
        least = max(0.0, 1 - x)
        factors[name] = x * (2 * uniform(word) - 1) if name == "hue" else least + (1 + x - least) * uniform(word)
    for name in order:
        if most[list(COLOURS).index(name)] > 0:
            picture = COLOURS[name](picture, factors[name])
    return picture


def random_erasing(picture, probability, scale, ratio, draws):
    side = picture.shape[-1]
    if uniform(draws(0)[0]) >= probability:
        return picture
    for index in range(1, 11):
        words = draws(index)
        area = side * side * (scale[0] + (scale[1] - scale[0]) * uniform(words[0]))
        r = math.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * uniform(words[1]))
        height, width = round(math.sqrt(area * r)), round(math.sqrt(area / r))
        if height < side and width < side:
            return functional.erase(picture, words[2] * (side - height + 1) >> 32, words[3] * (side - width + 1) >> 32, height, width, torch.tensor(0.0))
    return picture


def pictures(dice):
    made = 0
    while made < 60:
        number, side = dice.randrange(PATTERNS), dice.choice(SIDES)
        num_ops, magnitude, bins = dice.choice(((0, 9, 31), (2, 9, 31), (1, 9, 10), (5, 14, 31)))
        jitter = dice.choice(((0, 0, 0, 0), (0.4, 0.4, 0.4, 0.1), (0, 1.5, 0, 0.5), (0.8, 0, 0.2, 0)))
        probability = dice.choice((0.0, 0.5, 1.0))
        scale, ratio = dice.choice((((0.02, 0.33), (0.3, 3.3)), ((0.5, 1.0), (0.5, 1.0)), ((0.9, 1.0), (0.01, 100.0))))
        if num_ops == 0 and not any(jitter):
            continue
        seed, epoch, row = dice.choice((0, 42, 2 ** 63 - 1)), dice.choice((0, 1, 399)), dice.choice((made, 2 ** 33 + made))
        picture = rand_augment(pattern(number, side), num_ops, magnitude, bins, Draws(seed, epoch, row, "rand"))
        if picture is None:
            continue
        if any(jitter):
            picture = color_jitter(picture, jitter, Draws(seed, epoch, row, "jitt"))
        values = functional.normalize(functional.convert_image_dtype(picture, torch.float32), MEAN, STD)
        values = random_erasing(values, probability, scale, ratio, Draws(seed, epoch, row, "eras"))
        yield [number, side, seed, epoch, row, num_ops, magnitude, bins, *jitter, probability, *scale, *ratio, digest(values)]
        made += 1


def main():
    dice = random.Random(3)
    found = {"magnitudes": list(magnitudes()),
             "operations": [[*case, digest(apply(case[0], case[1], pattern(*case[2:])))] for case in operations(dice) if not is_near_a_middle(case[0], case[1], case[3])],
             "pictures": list(pictures(dice))}
    parts = ",\n".join(f'"{key}": [\n' + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "]" for key, cases in found.items())
    (IMAGES / "augmented.json").write_text(f'{{"made_by": "tools/make_augment_goldens.py",\n{parts}}}\n')
    print(", ".join(f"{len(cases)} {key}" for key, cases in found.items()))


if __name__ == "__main__":
    main()
