#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random resized crops by their definition, in float64 and apart from the program: the truth of tests/firmware_shims/test_random_crop.cpp.

  tools/make_crop_goldens.py        writes tests/data/images/random_crops.json and .safetensors; takes seconds

The JSON has 1,000 crops: seed, epoch and row of the draw, size of the picture, scale and ratio, and the box (left, top, width,
height) with the flip (0 or 1) that must come of them; and the list of the tensors in the other file, which are pixels of
pictures in tests/data/images, float32 [3, side, side]: a random crop, or the centre crop of an evaluation.
"""
import json
import math
import pathlib
import random

import numpy
from PIL import Image, ImageOps
from safetensors.numpy import save_file

IMAGES = pathlib.Path(__file__).resolve().parent.parent / "tests/data/images"
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
SIDE = 16
MASK = 0xFFFFFFFF


def philox4x32(counter, key):
    """Philox4x32-10 (Salmon et al. 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def derived_key(seed, use):
    """The key of one use of the run's seed; `use` is four ASCII letters."""
    words = philox4x32([int.from_bytes(use.encode(), "big"), 0x62617363, 0x756C6521, 0], [seed & MASK, seed >> 32])
    return words[:2]


class Draws:
    def __init__(self, seed, epoch, row, use="crop"):
        self.key, self.tail = derived_key(seed, use), [row & MASK, row >> 32, epoch & MASK]

    def __call__(self, index):
        return philox4x32([index, *self.tail], self.key)


def uniform(word):
    return (word + 0.5) * 2.0 ** -32


def random_crop(draws, width, height, scale, ratio):
    """left, top, width, height, flip."""
    flip = draws(16)[0] & 1
    for index in range(10):
        word = draws(index)
        area = width * height * (scale[0] + (scale[1] - scale[0]) * uniform(word[0]))
        r = math.exp(math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * uniform(word[1]))
        w, h = round(math.sqrt(area * r)), round(math.sqrt(area / r))  # Python's round: half to even
        if 0 < w <= width and 0 < h <= height:
            return word[3] * (width - w + 1) >> 32, word[2] * (height - h + 1) >> 32, w, h, flip
    w, h = width, height
    if width / height < ratio[0]:
        h = max(1, round(width / ratio[0]))
    elif width / height > ratio[1]:
        w = max(1, round(height * ratio[1]))
    return (width - w) // 2, (height - h) // 2, w, h, flip


def filter_weight(x, interpolation):
    x = abs(x)
    if interpolation == "bilinear":
        return max(0.0, 1 - x)
    if x < 1:
        return (1.5 * x - 2.5) * x * x + 1
    return ((-0.5 * x + 2.5) * x - 4) * x + 2 if x < 2 else 0.0


def resize_matrix(size, to, interpolation):
    """Antialiased: the filter is widened where it shrinks, and its weights sum to 1."""
    step = size / to
    widened = max(step, 1.0)
    reach = (1.0 if interpolation == "bilinear" else 2.0) * widened
    matrix = numpy.zeros((to, size))
    for i in range(to):
        centre = step * (i + 0.5)
        for j in range(max(0, int(centre - reach + 0.5)), min(size, int(centre + reach + 0.5))):
            matrix[i, j] = filter_weight((j - centre + 0.5) / widened, interpolation)
        matrix[i] /= matrix[i].sum()
    return matrix


def read_picture(name):
    with Image.open(IMAGES / name) as picture:
        return numpy.asarray(ImageOps.exif_transpose(picture).convert("RGB"), dtype=numpy.float64)


def resized(picture, height, width, interpolation):
    """(rows, columns, 3) to (3, height, width)."""
    rows = numpy.einsum("ij,jkc->ikc", resize_matrix(picture.shape[0], height, interpolation), picture)
    return numpy.einsum("ij,kjc->cki", resize_matrix(picture.shape[1], width, interpolation), rows)


def normalised(planes):
    return numpy.ascontiguousarray((planes / 255 - numpy.reshape(MEAN, (3, 1, 1))) / numpy.reshape(STD, (3, 1, 1)), dtype=numpy.float32)


def crop_pixels(name, draws, scale, ratio, interpolation, side=SIDE):
    picture = read_picture(name)
    left, top, width, height, flip = random_crop(draws, picture.shape[1], picture.shape[0], scale, ratio)
    planes = resized(picture[top:top + height, left:left + width], side, side, interpolation)
    return normalised(planes[:, :, ::-1] if flip else planes)


def centre_pixels(name, shortest, interpolation, side=SIDE):
    picture = read_picture(name)
    height, width = picture.shape[:2]
    shorter = min(height, width)
    height, width = (shortest if n == shorter else int(shortest * n / shorter) for n in (height, width))
    planes = resized(picture, height, width, interpolation)
    top, left = round((height - side) / 2), round((width - side) / 2)
    return normalised(planes[:, top:top + side, left:left + side])


def main():
    dice = random.Random(1)
    usual = ((0.08, 1.0), (3 / 4, 4 / 3))
    crops = []
    for i in range(1000):
        size = [dice.randint(1, 700), dice.randint(1, 700)] if i % 10 else [dice.randint(1, 9), dice.randint(100, 900)][:: dice.choice((1, -1))]
        scale, ratio = dice.choice([usual, usual, ((0.5, 1.0), usual[1]), ((0.9, 1.0), (1.0, 1.0)), ((0.3, 0.3), (0.2, 5.0))])
        seed, epoch = dice.choice([0, 42, 2 ** 63 - 1]), dice.choice([0, 1, 399])
        row = dice.choice([i, 2 ** 33 + i])
        box = random_crop(Draws(seed, epoch, row), *size, scale, ratio)
        crops.append([seed, epoch, row, *size, *scale, *ratio, *box])
    tensors, listed = {}, []
    names = ["jpeg/photo_427x640.jpg", "jpeg/size_287x289.jpg", "jpeg/base_420.jpg", "jpeg/grey.jpg", "jpeg/size_7x5_444.jpg", "jpeg/cmyk_adobe.jpg",
             "jpeg/size_1000x66.jpg", "png/gray_alpha_8.png", *(f"jpeg/exif_o{n}.jpg" for n in range(2, 9))]
    for row, name in enumerate(names):
        for epoch in (0, 1):
            interpolation = ("bicubic", "bilinear")[(row + epoch) % 2]
            tensors[f"{len(listed)}"] = crop_pixels(name, Draws(42, epoch, row), *usual, interpolation)
            listed.append({"file": name, "interpolation": interpolation, "epoch": epoch, "row": row})
    for name in ("jpeg/photo_427x640.jpg", "jpeg/exif_o6.jpg"):
        for interpolation, shortest in (("bilinear", SIDE), ("bilinear", 20), ("bicubic", 18)):
            tensors[f"{len(listed)}"] = centre_pixels(name, shortest, interpolation)
            listed.append({"file": name, "interpolation": interpolation, "shortest": shortest})
    save_file(tensors, IMAGES / "random_crops.safetensors")
    lines = lambda items: ",\n".join(json.dumps(item, separators=(",", ":")) for item in items)
    text = f'{{"made_by": "tools/make_crop_goldens.py",\n"pictures": [\n{lines(listed)}],\n"crops": [\n{lines(crops)}]}}\n'
    (IMAGES / "random_crops.json").write_text(text)
    print(len(crops), "crops,", len(tensors), "tensors,", sum(bool(c[-1]) for c in crops), "flips")


if __name__ == "__main__":
    main()
