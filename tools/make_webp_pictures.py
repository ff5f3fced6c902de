#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the WebP files of tests/data/images/webp, and what Pillow and Transformers say of them.

  tools/make_webp_pictures.py [FOLDER]

Needs Python with Pillow (with WebP), torch, torchvision and transformers. Pillow encodes a generated pattern; chunks around the
pixels, damage and sizes are set here. `expected.json` is as that of `make_png_pictures.py`.
"""
import io
import json
import pathlib
import struct
import sys
import warnings

from make_png_pictures import exif, facts_of, sample, xmp

WIDTH, HEIGHT = 37, 23  # no multiple of a macroblock
HAS_ALPHA, HAS_EXIF, HAS_XMP = 0x10, 0x08, 0x04


def pattern(mode, width=WIDTH, height=HEIGHT):
    from PIL import Image
    channels = len(mode)
    return Image.frombytes(mode, (width, height), bytes(sample(x, y, c, 8) for y in range(height) for x in range(width) for c in range(channels)))


def encoded(mode="RGB", width=WIDTH, height=HEIGHT, **options):
    out = io.BytesIO()
    pattern(mode, width, height).save(out, "WEBP", **options)
    return out.getvalue()


def chunk(name, body):
    return name + struct.pack("<I", len(body)) + body + bytes(len(body) % 2)


def riff(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def chunks_of(data):
    at, found = 12, []
    while at + 8 <= len(data):
        length = struct.unpack("<I", data[at + 4:at + 8])[0]
        found.append((data[at:at + 4], data[at + 8:at + 8 + length]))
        at += 8 + length + length % 2
    return found


def extended(data, flags, before=b"", after=b"", width=WIDTH, height=HEIGHT):
    """The pixels of a file, with a header that announces `flags`, and chunks around them."""
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    pixels = [chunk(name, body) for name, body in chunks_of(data) if name in (b"ALPH", b"VP8 ", b"VP8L")]
    return riff(chunk(b"VP8X", bytes([flags, 0, 0, 0]) + size), before, *pixels, after)


def good_pictures():
    for quality in (1, 40, 90):
        yield f"lossy_{quality}", encoded(quality=quality)
    yield "lossy_method_0", encoded(quality=60, method=0)
    yield "lossy_method_6", encoded(quality=60, method=6)
    for quality in (30, 100):
        yield f"lossy_alpha_{quality}", encoded("RGBA", quality=70, alpha_quality=quality)
    yield "lossless", encoded(lossless=True)
    yield "lossless_method_6", encoded(lossless=True, quality=100, method=6)
    yield "lossless_alpha", encoded("RGBA", lossless=True)
    yield "lossless_alpha_exact", encoded("RGBA", lossless=True, exact=True)
    for mode, width, height in (("RGB", 1, 1), ("RGB", 5, 2), ("RGB", 16, 16), ("RGBA", 3, 5), ("RGB", 70, 40)):
        yield f"size_{mode.lower()}_{width}x{height}", encoded(mode, width, height, quality=50)
        yield f"size_{mode.lower()}_{width}x{height}_lossless", encoded(mode, width, height, lossless=True)
    plain, alpha = encoded(quality=5), encoded("RGBA", quality=5, alpha_quality=10)
    for orientation in range(1, 9):
        yield f"exif_{orientation}", extended(plain, HAS_EXIF, after=chunk(b"EXIF", exif(orientation)))
    yield "exif_named_6", extended(plain, HAS_EXIF, after=chunk(b"EXIF", b"Exif\0\0" + exif(6)))
    yield "exif_before_6", extended(plain, HAS_EXIF, before=chunk(b"EXIF", exif(6)))
    yield "exif_two_6_3", extended(plain, HAS_EXIF, after=chunk(b"EXIF", exif(6)) + chunk(b"EXIF", exif(3)))
    yield "exif_unannounced_6", extended(plain, 0, after=chunk(b"EXIF", exif(6)))
    yield "exif_6_alpha", extended(alpha, HAS_EXIF | HAS_ALPHA, after=chunk(b"EXIF", exif(6)))
    yield "xmp_5", extended(plain, HAS_XMP, after=chunk(b"XMP ", xmp(5)))
    yield "exif_3_xmp_6", extended(plain, HAS_EXIF | HAS_XMP, after=chunk(b"EXIF", exif(3)) + chunk(b"XMP ", xmp(6)))
    yield "odd_chunks", extended(plain, 0, after=chunk(b"abcd", b"xyz"))
    yield "alpha_unannounced", extended(alpha, 0)
    yield "junk_behind", plain + b"junk"


def with_bytes_changed(data, place, count):
    return data[:place] + bytes(255 - v for v in data[place:place + count]) + data[place + count:]


def bad_pictures():
    lossy, lossless, alpha = encoded(quality=50), encoded(lossless=True), encoded("RGBA", quality=50)
    yield "bad_only_signature", lossy[:12]
    yield "bad_cut_in_header", lossy[:22]
    yield "bad_cut_in_pixels", lossy[:len(lossy) // 2]
    yield "bad_cut_in_end", lossy[:-1]
    yield "bad_cut_lossless", lossless[:len(lossless) // 2]
    yield "bad_few_pixels", riff(chunk(b"VP8 ", chunks_of(lossy)[0][1][:-60]))
    yield "bad_few_pixels_lossless", riff(chunk(b"VP8L", chunks_of(lossless)[0][1][:-60]))
    yield "bad_start_code", with_bytes_changed(lossy, 23, 3)
    yield "bad_lossless_mark", with_bytes_changed(lossless, 20, 1)
    yield "bad_lossless_codes", with_bytes_changed(lossless, 30, 24)
    yield "bad_alpha", extended(alpha, HAS_ALPHA).replace(b"ALPH", b"alph") if b"ALPH" not in alpha else with_bytes_changed(alpha, alpha.index(b"ALPH") + 9, 20)
    yield "bad_canvas", extended(lossy, 0, width=WIDTH + 1)
    yield "bad_exif", extended(lossy, HAS_EXIF, after=chunk(b"EXIF", b"garbage 12345"))
    yield "bad_kind", lossy.replace(b"VP8 ", b"VP9 ")
    yield "bad_bomb", riff(chunk(b"VP8L", b"\x2f\xff\xff\xff\x0f" + bytes(40)))
    yield "bad_elongated_80x4", encoded(width=80, height=4, quality=50)


def animated():
    from PIL import Image
    out = io.BytesIO()
    pattern("RGB").save(out, "WEBP", save_all=True, append_images=[Image.new("RGB", (WIDTH, HEIGHT))], duration=100, quality=10)
    return out.getvalue()


def main():
    import PIL
    import torchvision
    import transformers
    from PIL import features
    from transformers import BridgeTowerImageProcessor
    warnings.simplefilter("ignore")
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "tests/data/images/webp")
    folder.mkdir(parents=True, exist_ok=True)
    processor = BridgeTowerImageProcessor(size={"shortest_edge": 64}, crop_size={"shortest_edge": 64}, do_rescale=False, do_normalize=False)
    files = {}
    for name, data in [*good_pictures(), *bad_pictures(), ("bad_animated", animated())]:
        path = folder / f"{name}.webp"
        path.write_bytes(data)
        files[path.name] = facts_of(path, processor)
        if (files[path.name]["verdict"] == "accept") != (files[path.name]["pillow"] == "takes it"):
            print(f"{path.name}: Pillow: {files[path.name]['pillow']}")
    made_with = {"pillow": PIL.__version__, "libwebp": features.version("webp"), "torchvision": torchvision.__version__,
                 "transformers": transformers.__version__}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in sorted(files.items()))
    (folder / "expected.json").write_text(f'{{"made_with": {json.dumps(made_with)},\n "files": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
