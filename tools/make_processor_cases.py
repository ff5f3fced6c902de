#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/data/images/processors.json, square_processors.json and cropped_processors.json: processor files of BridgeTower, ViT and DeiT,
by hand and at random, and what Transformers does with them.

  tools/make_processor_cases.py [FOLDER]

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


SQUARE = {"do_normalize": True, "do_rescale": True, "do_resize": True, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
          "image_processor_type": "ViTImageProcessor", "resample": 2, "rescale_factor": 0.00392156862745098}


def square(side, **changes):
    return {**SQUARE, "size": {"height": side, "width": side}, **changes}


def squares_by_hand():
    flat = "preprocessor_config.json"
    yield flat, square(224), 224
    yield flat, {k: v for k, v in square(224).items() if k not in ("size", "resample", "do_rescale", "rescale_factor", "image_processor_type")}, 224
    yield flat, {k: v for k, v in square(64).items() if k != "size"}, 64
    yield flat, square(64, image_processor_type="ViTImageProcessorFast"), 64
    yield flat, square(64, image_processor_type="BridgeTowerImageProcessor"), 64
    yield "processor_config.json", {"image_processor": square(64)}, 64
    for size in (64, 63, {"height": 64, "width": 63}, {"shortest_edge": 64}, {"height": 64}, None, "64"):
        yield flat, square(64, size=size), 64
    for resample in (0, 1, 2, 3, 4, 5, None, "2"):
        yield flat, square(64, resample=resample), 64
    for key in ("do_resize", "do_rescale", "do_normalize", "do_center_crop", "do_pad"):
        for value in (True, False, None):
            yield flat, square(64, **{key: value}), 64
    for factor in (1 / 127.5, 1, 1 / 256, 0, None):
        yield flat, square(64, rescale_factor=factor), 64
    for picture in range(10):  # each picture, shrunk and stretched
        yield flat, square((150, 17)[picture % 2], resample=(2, 2, 3, 3)[picture % 4]), (150, 17)[picture % 2]


def squares_at_random(rng, count):
    choices = {"do_rescale": [True, True, False], "rescale_factor": [1 / 255, 1 / 255, 1 / 127.5, 0.01, 1], "resample": [2, 2, 2, 3, 3, 1], "do_center_crop": [False, None],
               "image_mean": [[0.5, 0.5, 0.5], [0.485, 0.456, 0.406], 0.45], "image_std": [[0.5, 0.5, 0.5], [0.229, 0.224, 0.225], 0.3]}
    for _ in range(count):
        side = rng.choice((16, 31, 32, 96, 224, 300))
        yield "preprocessor_config.json", square(side, **{key: rng.choice(choices[key]) for key in rng.sample(sorted(choices), rng.randint(1, 4))}), side


def cropped(side, edge=0, **changes):
    """As published files of DeiT: both sides to `edge`, of which `side` in the centre."""
    edge = edge or side * 8 // 7
    return {**SQUARE, "image_processor_type": "DeiTImageProcessor", "resample": 3, "do_center_crop": True, "size": {"height": edge, "width": edge},
            "crop_size": {"height": side, "width": side}, **changes}


def crops_by_hand():
    flat = "preprocessor_config.json"
    older = {k: v for k, v in cropped(224, size=256, crop_size=224).items() if k not in ("image_processor_type", "do_rescale", "rescale_factor")}
    yield flat, {**older, "feature_extractor_type": "DeiTFeatureExtractor"}, 224
    yield flat, {**older, "feature_extractor_type": "ViTFeatureExtractor"}, 224
    for edge in (64, 65, 66, 67, 100, 63):
        for _ in range(2):  # another picture each
            yield flat, cropped(64, edge), 64
    for key in ("do_center_crop", "size", "resample"):
        yield flat, {k: v for k, v in cropped(64).items() if k != key}, 64
    for value in (False, None, "yes"):
        yield flat, cropped(64, 64, do_center_crop=value), 64
    yield flat, cropped(64, crop_size={"height": 64, "width": 63}), 64
    yield flat, cropped(64, crop_size={"height": 60, "width": 60}), 64
    yield flat, cropped(64, size={"height": 73, "width": 74}), 64
    yield flat, cropped(64, resample=2), 64


def pixels_of(folder, picture, side, model_type):
    """Bytes, or None."""
    from transformers import AutoImageProcessor
    from transformers.image_utils import load_image
    try:
        processor = AutoImageProcessor.from_pretrained(folder)
        image = load_image(str(ROOT / picture)).convert("RGB")
        all_forced = ({}, {"do_normalize": True, "do_center_crop": True}) if model_type == "bridgetower" else ({}, {"do_normalize": True})
        pixels = [processor(image, return_tensors="pt", **forced)["pixel_values"] for forced in all_forced]
    except Exception:
        return None
    if any(tuple(p.shape) != (1, 3, side, side) for p in pixels) or not pixels[0].equal(pixels[1]) or not pixels[0].isfinite().all():
        return None
    return pixels[0].float().contiguous().numpy().tobytes()


def write_cases(output, model_type, cases, usual_of, needed=("crop_size", "size")):
    import torchvision
    import transformers
    lines = []
    for number, (name, config, side) in enumerate(cases):
        picture = PICTURES[number % len(PICTURES)]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_text(json.dumps(config))
            (pathlib.Path(folder) / "config.json").write_text(json.dumps({"model_type": model_type}))
            pixels = pixels_of(folder, picture, side, model_type)
        flat = config.get("image_processor", config)
        usual = usual_of(side)
        named = sorted(set(key for key in {**flat, **usual} if flat.get(key, usual.get(key)) != usual.get(key) or (key in needed and key not in flat)))
        lines.append("  " + json.dumps({"file": name, "config": config, "side": side, "picture": picture.removeprefix("tests/data/"), "named": named,
                                        "sha256": pixels and hashlib.sha256(pixels).hexdigest()}))
    made_with = {"torchvision": torchvision.__version__, "transformers": transformers.__version__}
    output.write_text(f'{{"made_with": {json.dumps(made_with)},\n "cases": [\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{output.name}: {len(lines)} cases, {sum('null}' not in line for line in lines)} with pixels")


def main():
    import transformers
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "tests/data/images")
    write_cases(folder / "processors.json", "bridgetower", [*by_hand(), *at_random(random.Random(16), 60)], published)
    write_cases(folder / "square_processors.json", "vit", [*squares_by_hand(), *squares_at_random(random.Random(18), 40)], square)
    write_cases(folder / "cropped_processors.json", "deit", [*crops_by_hand()], cropped, ("size", "do_center_crop", "resample"))


if __name__ == "__main__":
    main()
