# SPDX-License-Identifier: Apache-2.0
"""tools/check_sizes.py: the budget of lines, of the mean of lines a file, and of rooms."""
import unittest
from unittest import mock

import tool_modules  # noqa: F401: the path
import check_sizes


class Budget(unittest.TestCase):
    def with_(self, change):
        """The faults under a budget whose first storey is changed."""
        first = next(iter(check_sizes.BUDGET))
        with mock.patch.dict(check_sizes.BUDGET, {first: change(*check_sizes.BUDGET[first])}):
            return list(check_sizes.over_budget())

    def test_holds_for_this_tree(self):
        self.assertEqual(list(check_sizes.over_budget()), [])

    def test_more_lines_smaller_files_and_unnamed_rooms_are_told(self):
        for change, words in ((lambda folders, lines, mean: (folders, 1000, mean), r"^engine: \d+ lines, at most 1000$"),
                              (lambda folders, lines, mean: (folders, lines, 300), r"^engine: [\d.]+ lines a file, at least 300$"),
                              (lambda folders, lines, mean: (folders.replace(" json ", " "), lines, mean), r"^src/json: a room of no storey$")):
            faults = self.with_(change)
            self.assertRegex(faults[0], words)
            self.assertEqual(len(faults), 1, faults)
