# SPDX-License-Identifier: Apache-2.0
"""What the tests of tools share: the tree, the program, a folder for each test, and tools as modules. Import it before any module of tools/."""
import importlib.machinery
import importlib.util
import pathlib
import sys

TREE = pathlib.Path(__file__).resolve().parents[2]
# Tools before installed packages, some of which have modules of the same names; tests/faults last, for it has a second test_bench.
sys.path[:0] = [str(TREE / "tools"), str(TREE / "tools/packaging")]
sys.path.append(str(TREE / "tests/faults"))
from bascule_run import PROGRAM, ROOT, FolderTest  # noqa: E402, F401: the path first


def load(path):
    """The program tools/PATH, whose name has no ending, as a module."""
    file = ROOT / "tools" / path
    loader = importlib.machinery.SourceFileLoader(file.name, str(file))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(file.name, loader))
    sys.modules[file.name] = module
    loader.exec_module(module)
    return module
