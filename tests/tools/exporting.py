# SPDX-License-Identifier: Apache-2.0
"""Runs tools/export_dataset.py, for the tests of it."""
import contextlib
import importlib.util
import io
import json
import sys
import types
from unittest import mock

from tool_modules import ROOT, FolderTest
import export_dataset as tool

PICTURES = ROOT / "tests/data/emoji-captions/images"
PNGS = ROOT / "tests/data/images/png"
WEBPS = ROOT / "tests/data/images/webp"
HAS_PILLOW = importlib.util.find_spec("PIL") is not None
HAS_DATASETS = HAS_PILLOW and importlib.util.find_spec("datasets") is not None
COLUMNS = {"image": "image", "caption": "caption"}


def jpegs(count):
    return [path.read_bytes() for path in sorted(PICTURES.glob("*.jpg"))[:count]]


def bmp(colour):
    from PIL import Image
    out = io.BytesIO()
    Image.new("RGB", (16, 24), colour).save(out, "BMP")
    return out.getvalue()


def png():
    return (PNGS / "rgba_8.png").read_bytes()


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def run(*arguments):
    """The tool as a command -> (exit code, lines of standard error)."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = tool.main([str(a) for a in arguments])
    return code, said.getvalue().splitlines()


class Table:
    """A data set as the tool sees it, without the `datasets` library. names: of the classes in the column "label", or of the tags in "tags"."""

    def __init__(self, columns, names=None):
        self.columns, self.column_names, self.split = columns, list(columns), None
        classes = types.SimpleNamespace(names=names) if names else types.SimpleNamespace()
        self.features = {name: {"label": classes, "tags": types.SimpleNamespace(feature=classes)}.get(name) for name in columns}

    def select_columns(self, names):
        self.selected = names
        return self

    def __getitem__(self, name):
        return self.columns[name]

    def __iter__(self):
        return iter({name: values[i] for name, values in self.columns.items()} for i in range(len(next(iter(self.columns.values())))))


@contextlib.contextmanager
def library(loaded, asked=None):
    """In place of `datasets`: what is loaded, whatever is asked, which is noted."""
    def load(*arguments, **named):
        if asked is not None:
            asked.append((arguments, named))
        return loaded
    fake = types.SimpleNamespace(load_dataset=load, load_from_disk=load, Image=type("Image", (), {}))
    with mock.patch.dict(sys.modules, {"datasets": fake}):
        yield


class InAFolder(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "out"

    def export_rows(self, rows, columns=None, skip_bad=False):
        pictures = tool.Pictures(self.output)
        with contextlib.redirect_stderr(io.StringIO()):
            manifest = tool.Manifest("train", self.output, pictures)
            counts = tool.export_split("train", rows, columns or COLUMNS, manifest, self.folder, skip_bad)
        return counts, lines_of(self.output / "train.jsonl"), pictures
