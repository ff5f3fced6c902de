#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No page of a report is wider than its window, whatever its texts: the pages of write_sample in Chromium, on a desktop
and on a phone. Skipped where Chromium is missing. tools/check_pages --axe checks accessibility too."""
import pathlib
import subprocess
import sys
import tempfile

CHECK_PAGES = pathlib.Path(__file__).resolve().parents[2] / "tools" / "check_pages"


def main():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, stdout=subprocess.DEVNULL)
        return subprocess.run([CHECK_PAGES, *(f"{folder}/{page}.html" for page in ("report", "odd", "average", "runs"))]).returncode


if __name__ == "__main__":
    sys.exit(main())
