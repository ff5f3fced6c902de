#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the PNG files of tests/data/images/png, and what Pillow and Transformers say of them.

  tools/make_png_pictures.py [FOLDER]

The encoder is written here, from the PNG specification, so that every combination of colour type, depth, interlace and
chunk can be had, broken ones too. Needs Python with Pillow, torch, torchvision and transformers. `expected.json` says of each file:
`verdict` (accept, refuse), and for accepted ones `orientation` and `size` as stored, `rgb_sha256` of the upright RGB bytes that
load_image gives, and `processor_sha256` of the 64 x 64 x 3 bytes of BridgeTower's image processor. `pillow` says whether Pillow takes
the file: a few damaged ones that it takes are refused here.
"""
import hashlib
import json
import pathlib
import struct
import sys
import warnings
import zlib

WIDTH, HEIGHT = 23, 17
GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
SAMPLES = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(name, body):
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def sample(x, y, channel, bits):
    """A pattern with slopes and edges; of 16 bits, some columns stay below 256."""
    wave = (x * (7 + 3 * channel) + y * (11 - 2 * channel) + (x * y) // 5 + 60 * ((x // 6 + y // 5) % 2)) % 256
    if bits == 16:
        return wave if x % 5 == 0 else wave * 257 ^ (x * 31 & 0xFF)
    return wave >> (8 - bits)


def packed_row(values, bits):
    if bits == 16:
        return b"".join(struct.pack(">H", v) for v in values)
    out, held, count = bytearray(), 0, 0
    for value in values:
        held, count = held << bits | value, count + bits
        if count == 8:
            out.append(held)
            held, count = 0, 0
    if count:
        out.append(held << (8 - count))
    return bytes(out)


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def filtered(row, above, step, kind):
    out = bytearray([kind])
    for i, value in enumerate(row):
        left = row[i - step] if i >= step else 0
        up = above[i]
        corner = above[i - step] if i >= step else 0
        out.append((value - (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) & 0xFF)
    return bytes(out)


def pixel_data(width, height, bits, color, interlaced, most=None):
    """Filtered rows of all passes; the filters take turns. `most`: samples of a palette stay below it."""
    data = b""
    step = max(1, SAMPLES[color] * bits // 8)
    for x0, y0, dx, dy in ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns, rows = range(x0, width, dx), range(y0, height, dy)
        if not columns:
            continue
        above = None
        for number, y in enumerate(rows):
            values = [sample(x, y, c, bits) for x in columns for c in range(SAMPLES[color])]
            if most:
                values = [v % most for v in values]
            row = packed_row(values, bits)
            data += filtered(row, above or bytes(len(row)), step, number % 5)
            above = row
    return data


def header(width, height, bits, color, interlaced=False, method=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, method, int(interlaced)))


def palette(count):
    return chunk(b"PLTE", bytes(v for i in range(count) for v in (i * 37 % 256, 255 - i * 11 % 256, i * 97 % 256)))


def picture(bits=8, color=RGB, interlaced=False, before=b"", after=b"", width=WIDTH, height=HEIGHT, colors=None, most=None, idat=None):
    """A whole file. `before` and `after`: chunks around the pixels. `idat`: makes the pixels' chunks from their bytes."""
    if color == PALETTE:
        before = palette(colors or min(256, 1 << bits)) + before
    data = pixel_data(width, height, bits, color, interlaced, most)
    body = (idat or (lambda d: chunk(b"IDAT", zlib.compress(d, 9))))(data)
    return SIGNATURE + header(width, height, bits, color, interlaced) + before + body + after + chunk(b"IEND", b"")


def exif(orientation, order=">", kind=3):
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *((orientation, 0) if kind == 3 else (orientation,)))
    return (b"MM\0*" if order == ">" else b"II*\0") + struct.pack(order + "IHHHI", 8, 1, 0x0112, kind, 1) + value + bytes(4)


def xmp(orientation):
    return b'<x:xmpmeta><rdf:Description tiff:Orientation="%d"/></x:xmpmeta>' % orientation


def international_text(key, text, compress):
    return chunk(b"iTXt", key + bytes([0, compress, 0]) + b"\0\0" + (zlib.compress(text) if compress else text))


def raw_profile(body):
    text = body.hex()
    lines = "\n".join(text[i:i + 72] for i in range(0, len(text), 72))
    return ("\nexif\n%8d\n%s\n" % (len(body), lines)).encode()


def good_pictures():
    kinds = {"gray": (GRAY, (1, 2, 4, 8, 16)), "rgb": (RGB, (8, 16)), "palette": (PALETTE, (1, 2, 4, 8)),
             "gray_alpha": (GRAY_ALPHA, (8, 16)), "rgba": (RGBA, (8, 16))}
    for name, (color, depths) in kinds.items():
        for bits in depths:
            yield f"{name}_{bits}", picture(bits, color)
            yield f"{name}_{bits}_adam7", picture(bits, color, interlaced=True)
    for orientation in range(1, 9):
        yield f"exif_{orientation}", picture(before=chunk(b"eXIf", exif(orientation)))
    yield "exif_little_endian_6", picture(before=chunk(b"eXIf", exif(6, "<")))
    yield "exif_long_8", picture(before=chunk(b"eXIf", exif(8, ">", 4)))
    yield "exif_named_6", picture(before=chunk(b"eXIf", b"Exif\0\0" + exif(6)))
    yield "exif_9", picture(before=chunk(b"eXIf", exif(9)))
    yield "exif_behind_6", picture(after=chunk(b"eXIf", exif(6)))
    yield "exif_two_6_3", picture(before=chunk(b"eXIf", exif(6)), after=chunk(b"eXIf", exif(3)))
    yield "exif_6_interlaced_gray", picture(8, GRAY, True, before=chunk(b"eXIf", exif(6)))
    yield "xmp_5", picture(before=international_text(b"XML:com.adobe.xmp", xmp(5), 0))
    yield "xmp_packed_behind_7", picture(after=international_text(b"XML:com.adobe.xmp", xmp(7), 1))
    yield "exif_3_xmp_6", picture(before=chunk(b"eXIf", exif(3)) + international_text(b"XML:com.adobe.xmp", xmp(6), 0))
    yield "raw_profile_6", picture(before=chunk(b"tEXt", b"Raw profile type exif\0" + raw_profile(b"Exif\0\0" + exif(6))))
    yield "raw_profile_packed_8", picture(before=chunk(b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(raw_profile(b"Exif\0\0" + exif(8)))))
    yield "raw_profile_app1", picture(before=chunk(b"zTXt", b"Raw profile type APP1\0\0" + zlib.compress(raw_profile(b"Exif\0\0" + exif(8)))))
    yield "palette_short", picture(8, PALETTE, colors=5, most=9)
    yield "palette_transparent", picture(8, PALETTE, colors=40, most=40, before=chunk(b"tRNS", bytes(range(0, 40))))
    yield "gray_transparent", picture(4, GRAY, before=chunk(b"tRNS", b"\0\3"))
    yield "rgb_transparent", picture(8, RGB, before=chunk(b"tRNS", b"\0\1\0\2\0\3"))
    yield "rgb_16_transparent", picture(16, RGB, before=chunk(b"tRNS", b"\1\1\2\2\3\3"))
    yield "rgb_with_palette", picture(8, RGB, before=palette(7))
    yield "gamma", picture(8, RGB, before=chunk(b"gAMA", struct.pack(">I", 20000)) + chunk(b"sRGB", b"\0"))
    yield "significant_bits", picture(16, GRAY, before=chunk(b"sBIT", b"\x0c") + chunk(b"bKGD", b"\0\7"))
    yield "odd_chunks", picture(before=chunk(b"iCCP", b"x\0\0junk") + chunk(b"prVt", b"private"), after=chunk(b"tIME", b"\0"))
    yield "first_of_several", picture(before=chunk(b"acTL", struct.pack(">II", 1, 0)) +
                                      chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, WIDTH, HEIGHT, 0, 0, 1, 10, 0, 0)))
    yield "pixels_in_pieces", picture(idat=lambda d: b"".join(chunk(b"IDAT", zlib.compress(d)[i:i + 50]) for i in range(0, 1500, 50)))
    yield "pixels_stored", picture(8, GRAY, idat=lambda d: chunk(b"IDAT", zlib.compress(d, 0)))
    yield "pixels_and_more", picture(idat=lambda d: chunk(b"IDAT", zlib.compress(d) + b"more"))
    yield "rows_and_more", picture(idat=lambda d: chunk(b"IDAT", zlib.compress(d + bytes(70))))
    yield "junk_behind", picture() + b"junk"
    yield "size_1x1", picture(width=1, height=1)
    yield "size_1x2_adam7", picture(width=1, height=2, interlaced=True)
    yield "size_5x3_adam7", picture(1, GRAY, True, width=5, height=3)
    yield "size_9x8_adam7", picture(2, PALETTE, True, width=9, height=8)
    yield "size_150x100", picture(4, PALETTE, width=150, height=100)
    yield "size_100x150_adam7", picture(2, GRAY, True, width=100, height=150)


def with_byte_changed(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1:]


def bad_pictures():
    whole = picture()
    pixels = whole.index(b"IDAT")
    length = struct.unpack(">I", whole[pixels - 4:pixels])[0]
    gamma = picture(before=chunk(b"gAMA", struct.pack(">I", 20000)))
    yield "bad_only_signature", SIGNATURE
    yield "bad_cut_in_header", whole[:20]
    yield "bad_cut_in_pixels", whole[:pixels + 40]
    yield "bad_cut_before_end", whole[:-12]
    yield "bad_cut_in_end", whole[:-1]
    yield "bad_checksum_of_gamma", with_byte_changed(gamma, gamma.index(b"gAMA") + 8)
    yield "bad_checksum_of_header", with_byte_changed(whole, 8 + 8 + 13)
    yield "bad_checksum_of_pixels", with_byte_changed(whole, pixels + 4 + length)
    yield "bad_sum_of_rows", picture(idat=lambda d: chunk(b"IDAT", with_byte_changed(zlib.compress(d), -1 % len(zlib.compress(d)))))
    yield "bad_few_rows", picture(idat=lambda d: chunk(b"IDAT", zlib.compress(d[:-30])))
    yield "bad_filter", picture(idat=lambda d: chunk(b"IDAT", zlib.compress(b"\7" + d[1:])))
    yield "bad_zlib", picture(idat=lambda d: chunk(b"IDAT", b"\0\0" + zlib.compress(d)[2:]))
    yield "bad_pixels_apart", picture(idat=lambda d: chunk(b"IDAT", zlib.compress(d)[:60]) + chunk(b"tEXt", b"a\0b") + chunk(b"IDAT", zlib.compress(d)[60:]))
    yield "bad_no_pixels", picture(idat=lambda d: b"")
    yield "bad_no_palette", picture(8, PALETTE).replace(palette(256), b"")
    yield "bad_critical_chunk", picture(before=chunk(b"ABCD", b"x"))
    yield "bad_width_0", SIGNATURE + header(0, 5, 8, GRAY) + whole[pixels - 4:]
    yield "bad_depth_3", SIGNATURE + header(WIDTH, HEIGHT, 3, GRAY) + whole[pixels - 4:]
    yield "bad_filter_method", SIGNATURE + header(WIDTH, HEIGHT, 8, RGB, method=1) + whole[pixels - 4:]
    yield "bad_exif", picture(before=chunk(b"eXIf", b"garbage 12345"))
    yield "bad_bomb_65500", SIGNATURE + header(65500, 65500, 8, RGB) + whole[pixels - 4:]
    yield "bad_elongated_40x2", picture(width=40, height=2)


def facts_of(path, processor):
    from transformers.image_utils import load_image
    data = path.read_bytes()
    facts = {"verdict": "refuse" if path.name.startswith("bad_") else "accept"}
    try:
        from PIL import Image
        with Image.open(path) as stored:
            stored.load()
            facts["size"] = list(stored.size)
            orientation = stored.getexif().get(0x0112, 1)
            facts["orientation"] = orientation if 1 <= orientation <= 8 else 1
        upright = load_image(str(path)).convert("RGB")
        pixels = processor(upright, return_tensors="pt")["pixel_values"][0].permute(1, 2, 0).contiguous().numpy()
        facts["rgb_sha256"] = hashlib.sha256(upright.tobytes()).hexdigest()
        facts["processor_sha256"] = hashlib.sha256(pixels.tobytes()).hexdigest()
        facts["pillow"] = "takes it"
    except Exception as error:
        facts["pillow"] = type(error).__name__
    if facts["verdict"] == "refuse":
        facts = {"verdict": "refuse", "pillow": facts["pillow"]}
    facts["bytes"] = len(data)
    return facts


def main():
    import PIL
    import torchvision
    import transformers
    from transformers import BridgeTowerImageProcessor
    warnings.simplefilter("ignore")
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent / "tests/data/images/png")
    folder.mkdir(parents=True, exist_ok=True)
    processor = BridgeTowerImageProcessor(size={"shortest_edge": 64}, crop_size={"shortest_edge": 64}, do_rescale=False, do_normalize=False)
    files = {}
    for name, data in [*good_pictures(), *bad_pictures()]:
        path = folder / f"{name}.png"
        path.write_bytes(data)
        files[path.name] = facts_of(path, processor)
        if (files[path.name]["verdict"] == "accept") != (files[path.name]["pillow"] == "takes it"):
            print(f"{path.name}: Pillow: {files[path.name]['pillow']}")
    made_with = {"pillow": PIL.__version__, "torchvision": torchvision.__version__, "transformers": transformers.__version__}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in sorted(files.items()))
    (folder / "expected.json").write_text(f'{{"made_with": {json.dumps(made_with)},\n "files": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main()
