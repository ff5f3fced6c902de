# SPDX-License-Identifier: Apache-2.0
"""The files that a run reads, as `bascule plan --json --inputs` lists them, each with its place in the tree."""
import os
import pathlib
import posixpath

from packages import ImageError


def place_in_tree(written):
    """The place of a path as the sealed program resolves it: from the top of the tree, which ".." never leaves."""
    return posixpath.normpath(posixpath.join("/", written)).lstrip("/")


def input_files(listed, start):
    """listed: the member `inputs`; start: the folder of the settings file. {place in the tree: path}"""
    found = {}
    for folder, name in ((one["folder"], name) for one in listed for name in one["files"]):
        path = os.path.join(os.path.normpath(os.path.join(start, folder)), name)
        place = place_in_tree(name) if os.path.isabs(name) else posixpath.normpath(posixpath.join(place_in_tree(folder), name))
        if place.startswith("../"):
            raise ImageError(f"{os.path.normpath(path)} would lie outside of the tree; move the pictures beside the manifest that names them")
        other = found.setdefault(place, path)
        if not os.path.samefile(other, path):
            raise ImageError(f"{other} and {path} would both be {place} in the tree; move the data below one folder")
    return {place: pathlib.Path(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for place, path in sorted(found.items())}
