#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated tables of README.md: the settings reference (from `bascule settings --markdown`) and the kernels (from kernels/table.h).

  tools/update_readme.py build/bascule            rewrites README.md
  tools/update_readme.py --check build/bascule    exit 1 if README.md is stale
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def settings_reference(program):
    text = subprocess.run([program, "settings", "--markdown"], check=True, capture_output=True, text=True).stdout
    return text.strip()


def file_that(pattern, folder):
    """The file of `folder` in which the regular expression matches, as a path from the root; a dash where there is none."""
    for file in sorted((ROOT / folder).iterdir()):
        if file.suffix in (".h", ".cpp") and re.search(pattern, file.read_text(), re.M):
            return f"`{file.relative_to(ROOT)}`"
    return "-"


def kernel_table():
    lines = ["| kernel | contract | reference | AVX2 and AVX-512 |", "|---|---|---|---|"]
    for name, arguments in re.findall(r"\(\*(\w+)\)\(const (\w+)&", (ROOT / "kernels/table.h").read_text()):
        contract = file_that(rf"^struct {arguments} {{", "kernels")
        reference = file_that(rf"\b{name}\(", "kernels/reference")
        vectors = file_that(rf"^void {name}\(const {arguments}& \w*\) {{", "kernels/simd")
        lines.append(f"| `{name}` | {contract} | {reference} | {vectors} |")
    return "\n".join(lines)


def replaced(text, name, content):
    begin, end = f"<!-- {name}: made by tools/update_readme.py -->\n", f"<!-- {name} end -->"
    start = text.index(begin) + len(begin)
    return text[:start] + content + "\n" + text[text.index(end, start):]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("program", type=pathlib.Path)
    arguments = parser.parse_args()
    readme = ROOT / "README.md"
    text = readme.read_text()
    fresh = replaced(replaced(text, "settings", settings_reference(arguments.program.resolve())), "kernels", kernel_table())
    if arguments.check:
        print("README.md is up to date" if fresh == text else "README.md is stale: run tools/update_readme.py build/bascule")
        return 0 if fresh == text else 1
    readme.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
