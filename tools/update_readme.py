#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the generated tables: the settings in config/README.md (from `bascule settings --markdown`), the kernels in kernels/README.md (from
kernels/kernels.inc), and the measurements in tools/figures/README.md (from the files beside it; a new file of `make bench` is copied there by hand).

  tools/update_readme.py build/bascule            rewrites the tables
  tools/update_readme.py --check build/bascule    exit 1 if a table is stale
"""
import argparse
import pathlib
import re
import subprocess
import sys

import figure_tables

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
    lines = ["| kernel | contract | reference | vector source |", "|---|---|---|---|"]
    for name, arguments in re.findall(r"^BASCULE_(?:BF16_)?KERNEL\((\w+), (\w+)\)", (ROOT / "kernels/kernels.inc").read_text(), re.M):
        contract = file_that(rf"^(struct {arguments} {{|using {arguments} = )", "kernels")
        # A reference may be that of several kernels with the same arguments.
        reference = file_that(rf"^(inline )?[\w:]+ {name}\(|^ .*const {arguments}& a\) {{", "kernels/reference")
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
    try:
        figures = figure_tables.tables()
    except ValueError as damaged:
        parser.error(str(damaged))
    tables = {"config/README.md": {"settings": settings_reference(arguments.program.resolve())}, "kernels/README.md": {"kernels": kernel_table()}, "tools/figures/README.md": figures}
    is_stale = False
    for page, of_page in tables.items():
        fresh = text = (ROOT / page).read_text()
        for name, content in of_page.items():
            fresh = replaced(fresh, name, content)
        if fresh != text and arguments.check:
            is_stale = True
            print(f"{page} is stale: run tools/update_readme.py build/bascule")
        elif fresh != text:
            (ROOT / page).write_text(fresh)
    return 1 if is_stale else 0


if __name__ == "__main__":
    sys.exit(main())
