# SPDX-License-Identifier: Apache-2.0
"""What the tests of tools share: the tree, the program, a folder for each test, and tools as modules. An import behind this one may be of a file in tools/."""
import importlib.machinery
import importlib.util
import pathlib
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(TREE / folder) for folder in ("tools", "tools/packaging", "tests/faults")]
from bascule_run import PROGRAM, ROOT, FolderTest  # noqa: E402, F401: the path first


def load(path):
    """The program tools/PATH, whose name has no ending, as a module."""
    file = ROOT / "tools" / path
    loader = importlib.machinery.SourceFileLoader(file.name, str(file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(file.name, loader))
    sys.modules[file.name] = module
    loader.exec_module(module)
    return module
