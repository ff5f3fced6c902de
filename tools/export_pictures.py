# SPDX-License-Identifier: Apache-2.0
"""Pictures with captions or classes, as export_dataset.py writes them: files with a manifest, or tar shards."""
import hashlib
import io
import json
import os
import tarfile

from exported_rows import BadRow, ExportError

JPEG_QUALITY = 95


def write_whole(path, data):
    """Writes beside, syncs, renames: the name never holds half a file. Leftovers of a killed export are overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def format_of(data):
    """The ending of a file that the program reads as it is, else None."""
    if data[:3] == b"\xff\xd8\xff":
        return "jpg"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        is_animated = data[12:16] == b"VP8X" and data[20:21] and data[20] & 0x02
        return None if is_animated else "webp"
    return "png" if data[:8] == b"\x89PNG\r\n\x1a\n" else None


def encoded_as_jpeg(data):
    """Any picture that Pillow reads -> JPEG bytes, upright and RGB."""
    try:
        from PIL import Image, ImageOps  # only where a picture is not JPEG, PNG or still WebP
    except ImportError:
        raise ExportError(2, "the Python package pillow is missing; pip install datasets pillow") from None
    try:
        with Image.open(io.BytesIO(data)) as picture:
            upright = ImageOps.exif_transpose(picture).convert("RGB")
    except Exception as error:  # Pillow's decoders raise anything
        raise BadRow(f"the picture cannot be decoded: {error}") from None
    out = io.BytesIO()
    try:
        upright.save(out, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    except Exception as error:  # as a side above 65,535 pixels
        raise BadRow(f"the picture cannot be written as JPEG: {error}") from None
    return out.getvalue()


def picture_bytes(value, folder):
    """The encoded picture of a cell: {"bytes", "path"}, bytes, or a path, taken from `folder`."""
    if isinstance(value, dict) and value.get("bytes"):
        value = value["bytes"]
        if not isinstance(value, (bytes, str)):
            raise BadRow("the picture is neither bytes nor a path")
    if isinstance(value, dict):
        value = value.get("path")
    if isinstance(value, bytes) and value:
        return value
    if not isinstance(value, str) or not value:
        raise BadRow("the row has no picture")
    try:
        return (folder / value).read_bytes()
    except (OSError, ValueError) as error:
        raise BadRow(f"the picture cannot be read: {error}") from None


class Pictures:
    """OUTPUT/images, one file for each content."""

    def __init__(self, output):
        self.output = output
        self.re_encoded = 0
        self.stored = set()

    def store(self, data):
        """Returns the path for the manifest. The name comes from the source's bytes, so that nothing is encoded twice."""
        digest = hashlib.sha256(data).hexdigest()[:32]
        ending = format_of(data)
        name = f"images/{digest[:2]}/{digest}.{ending or 'jpg'}"
        if name in self.stored:
            return name
        self.re_encoded += ending is None
        if not (self.output / name).exists():
            write_whole(self.output / name, data if ending else encoded_as_jpeg(data))
        self.stored.add(name)
        return name


class Manifest:
    """OUTPUT/<name>.jsonl, with its pictures in `pictures`."""

    def __init__(self, name, output, pictures):
        self.path = output / f"{name}.jsonl"
        self.pictures = pictures
        self.lines = []

    def add(self, picture, captions, extra):
        image = self.pictures.store(picture)
        self.lines += [json.dumps({"image": image, **caption, **extra}, ensure_ascii=False) for caption in captions]
        return len(captions)

    def finish(self):
        write_whole(self.path, ("\n".join(self.lines) + "\n").encode())


class Shards:
    """OUTPUT/<name>-00000.tar and so on, each whole under its name; the split's name says that all are there."""

    def __init__(self, name, output, shard_rows):
        self.name = name
        self.output = output
        self.shard_rows = shard_rows
        self.re_encoded = 0
        self.stored = []  # for the count
        self.rows = 0
        self.shards = 0
        self.tar = self.bytes = None

    def add(self, picture, captions, extra):
        picture_ending = format_of(picture)
        data = picture if picture_ending else encoded_as_jpeg(picture)
        self.re_encoded += picture_ending is None
        self.stored.append(None)
        for caption in captions:
            if self.tar is None:
                self.bytes = io.BytesIO()
                self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.USTAR_FORMAT)
            text = json.dumps({**caption, **extra}, ensure_ascii=False).encode()
            for ending, contents in ((picture_ending or "jpg", data), ("json", text)):
                member = tarfile.TarInfo(f"{self.rows:09}.{ending}")
                member.size = len(contents)
                self.tar.addfile(member, io.BytesIO(contents))
            self.rows += 1
            if self.rows % self.shard_rows == 0:
                self.write_shard()
        return len(captions)

    def write_shard(self):
        self.tar.close()
        write_whole(self.output / f"{self.name}-{self.shards:05}.tar", self.bytes.getvalue())
        self.tar = self.bytes = None
        self.shards += 1

    def finish(self):
        if self.tar is not None:
            self.write_shard()

    def written_name(self):
        return f"{self.name}-{{00000..{self.shards - 1:05}}}.tar"
