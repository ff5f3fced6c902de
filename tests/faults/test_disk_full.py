# SPDX-License-Identifier: Apache-2.0
"""A disk without room for the checkpoints is found before the first step; one that others fill meanwhile, when a checkpoint is written: one line,
exit code 6, and the checkpoint before it is whole."""
import re
import subprocess

from bascule_run import DEMO_MODEL, PROGRAM, FolderTest, patient, settings
from rank_runs import preloaded

DISK = 6
# A file system of its own below the folder, on which checkpoints are of 28 MB and the finished model of 10.
SCRIPT = """
mkdir -p {folder}/disk
mount -t tmpfs -o size={size} none {folder}/disk || exit 77
{before}
{environment} "{program}" run {toml} 2> {folder}/log
code=$?
cat {folder}/log
ls {folder}/disk/run
exit $code
"""


class DiskFull(FolderTest):
    def run_on(self, size, before="", environment="", **changes):
        toml = settings(self.folder, model__model_name_or_path=f'"{DEMO_MODEL}"', training__output_dir=f'"{self.folder}/disk/run"', **changes)
        script = SCRIPT.format(folder=self.folder, program=PROGRAM, toml=toml, size=size, before=before, environment=environment)
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script], capture_output=True, text=True, timeout=patient(300))
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("no mount namespaces here")
        return done

    def assert_refused(self, done, *words):
        self.assertEqual(done.returncode, DISK, done.stdout + done.stderr)
        line = [line for line in done.stdout.splitlines() if "disk/run" in line]
        self.assertEqual(len(line), 1, done.stdout)
        for word in words:
            self.assertIn(word, line[0])
        self.assertNotIn("step", done.stdout)

    def test_is_found_before_the_first_step(self):
        done = self.run_on("45m")
        self.assert_refused(done, "3 checkpoints of ", " are available")
        needed, free = re.search(r"need ([\d.]+) MiB of disk space, ([\d.]+) MiB are available", done.stdout).groups()
        self.assertGreater(float(needed), 3 * 27)
        self.assertLessEqual(float(free), 45)
        self.assertNotIn("checkpoint-3", done.stdout.splitlines())

    def test_what_fits_trains_to_its_end(self):
        done = self.run_on("75m", training__save_total_limit="1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("checkpoint-12", done.stdout.splitlines())

    def test_leaves_the_checkpoint_before_whole(self):
        done = self.run_on("45m", environment=f"LD_PRELOAD={preloaded('much_space')}")
        self.assertEqual(done.returncode, DISK, done.stdout + done.stderr)
        self.assertIn("No space left on device; free space on this file system; run the same command again to resume from the newest complete checkpoint", done.stdout)
        self.assertIn("checkpoint-3\n", done.stdout)
        self.assertNotIn("checkpoint-6", done.stdout.splitlines())
        self.assertNotIn(".tmp-bascule-checkpoint-6", done.stdout.splitlines())

    def test_names_the_file_of_hashes(self):
        done = self.run_on("800k", environment=f"LD_PRELOAD={preloaded('much_space')}", report__hash_steps="1", training__max_steps="200", training__save_steps="0",
                           training__per_device_train_batch_size="2")
        self.assertEqual(done.returncode, DISK, done.stdout + done.stderr)
        self.assertIn("disk/run/tensor_hashes.bin: cannot be written: No space left on device", done.stdout)

    def test_a_file_system_that_is_mounted_read_only(self):
        done = self.run_on("45m", before=f"mount -o remount,ro {self.folder}/disk")
        self.assert_refused(done, "Read-only file system; this file system is mounted read-only: choose a folder on another one")
