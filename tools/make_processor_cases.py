#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/images/processors.json: processor files, by hand and at random, and what Transformers does with them.

  tools/make_processor_cases.py [FILE]

A case is a file's name and contents, the model's image_size, a picture, and the SHA-256 of Transformers' float32 pixels (3 x side x side);
null where Transformers fails, gives another shape, or where BridgeTowerProcessor and its image processor alone disagree. `named`:
keys of which a refusal may name one. Needs Python with torch, torchvision and transformers.
"""
import hashlib
import json
import pathlib
import random
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ["tests/data/images/jpeg/base_420.jpg", "tests/data/images/jpeg/size_17x31_420.jpg", "tests/data/images/jpeg/exif_o6_grey.jpg",
            "tests/data/images/png/size_150x100.png", "tests/data/images/png/exif_8.png"]
PUBLISHED = {"do_center_crop": True, "do_normalize": True, "do_pad": True, "do_rescale": True, "do_resize": True,
             "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
             "image_processor_type": "BridgeTowerImageProcessor", "resample": 3, "rescale_factor": 0.00392156862745098, "size_divisor": 32}


def edge(side):
    return {"shortest_edge": side}


def published(side, **changes):
    return {**PUBLISHED, "size": edge(side), "crop_size": edge(side), **changes}


def by_hand():
    """(file name, contents, image_size)"""
    flat = "preprocessor_config.json"
    yield flat, published(288), 288
    yield flat, {k: v for k, v in published(288).items() if k not in ("crop_size", "size")}, 288
    yield flat, {k: v for k, v in published(64).items() if k != "crop_size"}, 64
    yield flat, {"image_processor_type": "BridgeTowerImageProcessorFast", **{k: v for k, v in published(64).items() if k != "image_processor_type"},
                 "data_format": "channels_first", "device": None, "disable_grouping": None, "do_convert_rgb": None, "return_tensors": None}, 64
    yield "processor_config.json", {"image_processor": published(64), "processor_class": "BridgeTowerProcessor"}, 64
    yield flat, published(64, size=64), 64
    yield flat, published(64, crop_size=64), 64
    yield flat, published(64, crop_size={"height": 64, "width": 64}), 64
    yield flat, published(64, size={"height": 64, "width": 64}), 64
    yield flat, published(64, image_processor_type="CLIPImageProcessor"), 64
    for resample in (0, 1, 2, 4, 5, None, "3"):
        yield flat, published(64, resample=resample), 64
    for key in ("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_pad"):
        yield flat, published(64, **{key: False}), 64
        yield flat, published(64, **{key: None}), 64
    for factor in (1 / 127.5, 1, 0.5, 1 / 256, 0, -0.5, None):
        yield flat, published(64, rescale_factor=factor), 64
    for divisor in (1, 2, 16, 33, 64, 65, 0, None, 1.5):
        yield flat, published(64, size_divisor=divisor), 64
    for mean, std in ((0.5, 0.5), ([0.5], [0.25]), ([0, 0, 0], [1, 1, 1]), ([0.1, 0.2], [1, 1]), ([0.5] * 3, [0.5, 0, 0.5]), (None, None)):
        yield flat, published(64, image_mean=mean, image_std=std), 64


def at_random(rng, count):
    choices = {
        "size": [edge(n) for n in (32, 40, 64, 65, 77, 100, 128)] + [70, {"shortest_edge": 64, "longest_edge": 80}],
        "size_divisor": [1, 2, 8, 16, 31, 32], "do_resize": [True, True, True, False], "do_rescale": [True, True, False], "do_pad": [True, False],
        "rescale_factor": [1 / 255, 1 / 255, 1 / 127.5, 0.01, 1], "resample": [3, 3, 3, 3, 3, 3, 2], "do_normalize": [True] * 7 + [False],
        "do_center_crop": [True] * 7 + [False], "image_mean": [[0.5, 0.5, 0.5], [0.485, 0.456, 0.406], 0.45], "image_std": [[0.5, 0.5, 0.5], [0.229, 0.224, 0.225], 0.3],
    }
    for _ in range(count):
        side = rng.choice((32, 33, 64, 96))
        config = published(side)
        for key in rng.sample(sorted(choices), rng.randint(1, 6)):
            config[key] = rng.choice(choices[key])
        for key in rng.sample(sorted(config), rng.randint(0, 2)):
            if key not in ("crop_size", "size"):
                del config[key]
        yield "preprocessor_config.json", config, side


def pixels_of(folder, picture, side):
    """Bytes, or None."""
    from transformers import AutoImageProcessor
    from transformers.image_utils import load_image
    try:
        processor = AutoImageProcessor.from_pretrained(folder)
        image = load_image(str(ROOT / picture)).convert("RGB")
        pixels = [processor(image, return_tensors="pt", **forced)["pixel_values"] for forced in ({}, {"do_normalize": True, "do_center_crop": True})]
    except Exception:
        return None
    if any(tuple(p.shape) != (1, 3, side, side) for p in pixels) or not pixels[0].equal(pixels[1]) or not pixels[0].isfinite().all():
        return None
    return pixels[0].float().contiguous().numpy().tobytes()


def main():
    import torchvision
    import transformers
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/data/images/processors.json")
    lines = []
    cases = [*by_hand(), *at_random(random.Random(16), 60)]
    for number, (name, config, side) in enumerate(cases):
        picture = PICTURES[number % len(PICTURES)]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_text(json.dumps(config))
            (pathlib.Path(folder) / "config.json").write_text('{"model_type": "bridgetower"}')
            pixels = pixels_of(folder, picture, side)
        flat = config.get("image_processor", config)
        usual = published(side)
        named = sorted(set(key for key in {**flat, **usual} if flat.get(key, usual.get(key)) != usual.get(key) or (key in ("crop_size", "size") and key not in flat)))
        lines.append("  " + json.dumps({"file": name, "config": config, "side": side, "picture": picture.removeprefix("tests/data/"), "named": named,
                                        "sha256": pixels and hashlib.sha256(pixels).hexdigest()}))
    made_with = {"torchvision": torchvision.__version__, "transformers": transformers.__version__}
    output.write_text(f'{{"made_with": {json.dumps(made_with)},\n "cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{len(lines)} cases, {sum('null}' not in line for line in lines)} with pixels")


if __name__ == "__main__":
    main()
