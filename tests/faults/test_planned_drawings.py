# SPDX-License-Identifier: Apache-2.0
"""The needs of the runs of config/ that draw, as numbers, with models of published size."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from bascule_run import ROOT, run_ok

# Folder of the model, bytes of the plan. A plan that grows fails, and so does one that shrinks by more than 3 %: the commit that earned it sets the number anew.
PLANNED = {"sd_v1.toml": ("sd-v1", 5553704960), "sd_v1_quick.toml": ("sd-v1", 4373049344), "sd_v2.toml": ("sd-v2", 6619631616)}


class PlannedDrawings(unittest.TestCase):
    def test_each_file_needs_what_is_known_and_little_more_than_its_lower_bound(self):
        # The demo's pipeline is small: what it needs is next to nothing.
        self.assertEqual(sorted(path.name for path in (ROOT / "config").glob("sd_*.toml")), sorted(["sd_demo.toml", *PLANNED]))
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            for name, (kind, known) in PLANNED.items():
                if not (folder / kind).exists():
                    subprocess.run([sys.executable, ROOT / "tools" / "make_published_model", kind, folder / kind], check=True)
                text, found = re.subn(r'(?m)^model_name_or_path = ".*"$', f'model_name_or_path = "{folder / kind}"', (ROOT / "config" / name).read_text())
                self.assertEqual(found, 1, name)
                (folder / name).write_text(text + "[machine]\nthreads = 2\n")
                done = run_ok("plan", folder / name, "--json", "--memory-gib", 64)
                plan = json.loads(done.stdout)
                self.assertLessEqual(plan["peak_bytes"], known, f"{name}: the plan has grown")
                self.assertGreaterEqual(plan["peak_bytes"], 0.97 * known, f"{name}: the plan has shrunk: set the number anew")
                self.assertLessEqual(plan["peak_bytes"], 1.03 * plan["lower_bound_bytes"], name)
