# SPDX-License-Identifier: Apache-2.0
"""The tables of tools/README.md: rows of tools/figures say machine, commit and day; a file of tools/bench becomes rows with its machine and commit."""
import pathlib
import re
import sys
import unittest
from unittest import mock

import bench_files

ROOT = pathlib.Path(__file__).resolve().parents[2]
with mock.patch.object(sys, "path", [str(ROOT / "tools"), *sys.path]):
    import figure_tables


class FigureTables(unittest.TestCase):
    def test_every_recorded_row_says_where_it_comes_from(self):
        for name, text in figure_tables.tables().items():
            if name != "figures of make bench":
                rows = text.splitlines()[2:]
                self.assertTrue(rows)
                for row in rows:
                    self.assertRegex(row, r"\| [^|]+; `[0-9a-f]{8}`, \d{4}-\d\d-\d\d \|$", name)

    def test_a_file_of_figures_becomes_rows_that_name_machine_commit_and_command(self):
        document = bench_files.document(0, entries=2)
        document["entries"][1].update(state="not measured: a | b", figures=[])
        text = figure_tables.bench_table(document)
        self.assertIn("A processor (6-1-1), 2 cores", text)
        self.assertIn("commit c0ffeec0ffee", text)
        self.assertRegex(text, r"(?m)^\| subject of entry-0 \| \S+ samples/s \(\S+ to \S+\) \| \d+ % \| 300, 28\d \| `build/bascule bench config/entry-0.toml --json` \|$")
        self.assertRegex(text, r"(?m)^\| subject of entry-1 \| not measured: a \\\| b \|")
        cells = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(cells, {6})

    def test_a_row_with_a_cell_too_few_is_refused(self):
        self.assertRaises(ValueError, figure_tables.markdown, ["a", "b"], [["c"]])


if __name__ == "__main__":
    unittest.main()
