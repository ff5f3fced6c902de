#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file holds one topic: warns above 400 lines, fails above 600; fails on names that say nothing, on a missing SPDX line, on more than
47 MB of test data, and on more lines or smaller files than the budget has: growth is a decision, made in BUDGET by the commit that needs it.

  tools/check_sizes.py
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARN_LINES, FAIL_LINES = 400, 600
MOST_TEST_DATA = 47_000_000  # bytes
# The product by storey: its folders (of src/ where no other is named), the most lines, with meson.build, and the least mean of lines a file.
BUDGET = {
    "engine": ("/kernels /firmware_shims base files json machine settings graph plan models runtime text index corpus loader pictures distributed "
               "checkpoint update session generate judge", 75_090, 142),
    "control of a run": ("record seal replay finish run_folder", 12_035, 166),
    "instruments and output": ("logs answer bringup doctor ask verify http serve commands", 29_535, 180),
}
FOLDERS = ["src", "kernels", "firmware_shims", "tests", "tools"]
EMPTY_NAME = re.compile(r"(^|[/_])(utils?|common|helpers?|misc|managers?)([/_.]|$)")
FILE_NAME = re.compile(r"[a-z0-9_]+(\.[a-z]+)?")


def files_of(*folders):
    """Tracked and new files."""
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z", "--", *folders], cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted(path for path in set(listing.stdout.split("\0")) if path and (ROOT / path).is_file())


def sources():
    """Files of ours that hold code: by their ending, or all of tools/ but its page and its data."""
    for path in files_of(*FOLDERS):
        ending = pathlib.Path(path).suffix
        is_code = ending in (".h", ".cpp", ".c", ".py") or (path.startswith("tools/") and ending not in (".md", ".json"))
        if is_code:
            yield path


def over_budget():
    """A line for each storey that is larger than it may be, or whose files are smaller, and for each room of no storey."""
    named = {folder.strip("/") for folders, _, _ in BUDGET.values() for folder in folders.split()}
    for room in sorted({path.split("/")[1] for path in files_of("src") if path.count("/") > 1} - named):
        yield f"src/{room}: a room of no storey"
    for storey, (folders, most_lines, least_mean) in BUDGET.items():
        paths = files_of(*(folder[1:] if folder.startswith("/") else "src/" + folder for folder in folders.split()))
        lines = {path: len((ROOT / path).read_text().splitlines()) for path in paths if re.search(r"\.(h|cpp|c|inc|build)$", path)}
        files = sum(not path.endswith(".build") for path in lines)
        total = sum(lines.values())
        if total > most_lines:
            yield f"{storey}: {total} lines, at most {most_lines}"
        if total < least_mean * files:
            yield f"{storey}: {total / files:.1f} lines a file, at least {least_mean}"


def main():
    failed = False
    for fault in over_budget():
        print(fault)
        failed = True
    for path in sources():
        lines = (ROOT / path).read_text().splitlines()
        faults = []
        if len(lines) > FAIL_LINES:
            faults.append(f"{len(lines)} lines, at most {FAIL_LINES}")
        elif len(lines) > WARN_LINES:
            print(f"warning: {path}: {len(lines)} lines; is it one thing?")
        if EMPTY_NAME.search(path):
            faults.append("a name that says nothing about its content")
        if not FILE_NAME.fullmatch(pathlib.Path(path).name):
            faults.append("file names are snake_case")
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
            faults.append("no SPDX line on top")
        for fault in faults:
            print(f"{path}: {fault}")
            failed = True
    test_data = sum((ROOT / path).stat().st_size for path in files_of("tests/data"))
    if test_data > MOST_TEST_DATA:
        print(f"tests/data: {test_data} bytes, at most {MOST_TEST_DATA}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
