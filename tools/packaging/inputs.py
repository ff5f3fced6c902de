# SPDX-License-Identifier: Apache-2.0
"""What a run reads, found from its settings: model, tokenizer, manifests, shards and pictures, each with its place in the tree."""
import csv
import glob
import json
import os
import pathlib
import posixpath
import re

from packages import ImageError


def place_in_tree(written):
    """As the sealed program resolves it: from the top of the tree, which ".." does not leave."""
    return posixpath.normpath(posixpath.join("/", written)).lstrip("/")


def expand_shards(written):
    """shard-{000..127}.tar"""
    braces = re.search(r"\{(\d+)\.\.(\d+)\}", written)
    if not braces:
        return [written]
    first, last = braces.groups()
    return [name for number in range(int(first), int(last) + 1)
            for name in expand_shards(written[:braces.start()] + str(number).zfill(len(first)) + written[braces.end():])]


def rows_of(manifest):
    kind = manifest.suffix
    if kind in (".csv", ".tsv"):
        with manifest.open(newline="") as text:
            return list(csv.DictReader(text, delimiter="," if kind == ".csv" else "\t"))
    text = manifest.read_text()
    if kind == ".jsonl":
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    whole = json.loads(text)
    if isinstance(whole, list):
        return whole
    lists = [value for value in whole.values() if isinstance(value, list) and value and isinstance(value[0], dict)]
    if len(lists) == 1:
        return lists[0]
    raise ImageError(f"{manifest}: the list of rows cannot be found; write it as .jsonl")


def pictures_of(manifest, place, column):
    """Of the rows of a manifest: (place in the tree, path)."""
    for number, row in enumerate(rows_of(manifest), 1):
        name = row.get(column) or row.get("file_name")
        if not isinstance(name, str):
            raise ImageError(f"{manifest}: row {number} has no \"{column}\"")
        in_tree = posixpath.normpath(posixpath.join("/", posixpath.dirname(place), name))
        leaves = posixpath.normpath(posixpath.join(posixpath.dirname(place), name)).startswith("..")
        if leaves and not os.path.isabs(name):
            raise ImageError(f"{manifest}: row {number}: {name} lies outside of the tree; move the pictures beside the manifest")
        yield in_tree.lstrip("/"), manifest.parent / name


def data_files(written, start, column):
    for shard in expand_shards(written):
        whole = str(start / shard)
        found = sorted(glob.glob(whole)) if glob.has_magic(shard) and not os.path.exists(whole) else [whole]
        if not found:
            raise ImageError(f"{whole}: no file matches")
        for name in found:
            path = pathlib.Path(name)
            place = place_in_tree(posixpath.join(posixpath.dirname(shard), path.name))
            if path.is_dir():
                path, place = path / "metadata.jsonl", f"{place}/metadata.jsonl"
            if not path.exists():
                raise ImageError(f"{path} is missing")
            yield place, path
            if path.suffix != ".tar":
                yield from pictures_of(path, place, column)


def folder_files(written, start):
    folder = pathlib.Path(os.path.normpath(start / written))
    if not folder.is_dir():
        raise ImageError(f"{folder} is no folder")
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield f"{place_in_tree(written)}/{path.name}", path


def input_files(settings, start):
    """settings: the tables of the canonical TOML; start: the folder of the settings file. {place in the tree: path}"""
    found = dict(folder_files(settings["model"]["model_name_or_path"], start))
    if settings["model"]["tokenizer_name"]:
        found.update(folder_files(settings["model"]["tokenizer_name"], start))
    data, training = settings["data"], settings["training"]
    for key, is_read in (("train_file", training["do_train"]), ("validation_file", training["do_eval"]), ("test_file", training["do_predict"])):
        for written in [data[key]] if isinstance(data[key], str) else data[key]:
            if is_read and written:
                found.update(data_files(written, start, data["image_column"]))
    if settings["distributed"]["hostfile"]:
        raise ImageError("distributed.hostfile: an image serves one machine; remove the key")
    return {place: pathlib.Path(os.path.normpath(path)) for place, path in sorted(found.items())}
