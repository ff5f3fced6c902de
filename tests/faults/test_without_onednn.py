# SPDX-License-Identifier: Apache-2.0
"""A program that was built with -Donednn=disabled: it trains, and refuses oneDNN's products in one line. Skipped in other builds."""
import tempfile
import unittest

from bascule_run import has_onednn, run_ends, settings


@unittest.skipIf(has_onednn(), "built with oneDNN")
class WithoutOnednn(unittest.TestCase):
    def test_trains_with_our_products_and_refuses_the_librarys(self):
        for products, code in (("ours", 0), ("onednn", 2)):
            with self.subTest(products=products), tempfile.TemporaryDirectory() as folder:
                done = run_ends(code, "run", settings(folder, training__max_steps="2", machine__products=f'"{products}"'))
                if code != 0:
                    self.assertEqual(done.stderr.count("\n"), 1)
                    self.assertIn("machine.products: this program was built without oneDNN", done.stderr)
