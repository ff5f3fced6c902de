#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file does one thing: warns above 400 lines, fails above 600; fails on names that say nothing, on a missing SPDX line, and on more than
45 MB of test data.

  tools/check_sizes.py
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARN_LINES, FAIL_LINES = 400, 600
MOST_TEST_DATA = 45_000_000  # bytes
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


def main():
    failed = False
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
