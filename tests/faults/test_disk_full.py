# SPDX-License-Identifier: Apache-2.0
"""A disk that fills while a checkpoint is written: one line, exit code 6, and the checkpoint before it is whole."""
import pathlib
import subprocess
import tempfile
import unittest

from bascule_run import PROGRAM, settings

# A file system of 45 MB: room for one checkpoint of 28 MB, not for two at a time.
SCRIPT = """
mount -t tmpfs -o size=45m none {folder}/run || exit 77
{program} run {toml} 2> {folder}/log
code=$?
cat {folder}/log
ls {folder}/run
exit $code
"""


class DiskFull(unittest.TestCase):
    def test_leaves_the_checkpoint_before_whole(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "run").mkdir()
            toml = settings(folder)
            script = SCRIPT.format(folder=folder, program=PROGRAM, toml=toml)
            done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script], capture_output=True, text=True, timeout=300)
            if done.returncode == 77 or "unshare" in done.stderr:
                self.skipTest("no mount namespaces here")
            self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
            self.assertIn("No space left on device", done.stdout)
            self.assertIn("checkpoint-3\n", done.stdout)
            self.assertNotIn("checkpoint-6", done.stdout.splitlines())
            self.assertNotIn("checkpoint-6.tmp", done.stdout.splitlines())


if __name__ == "__main__":
    unittest.main()
