# SPDX-License-Identifier: Apache-2.0
"""A program that was built with -Dmpi=disabled: ranks on one machine work, those on several are refused in one line. Skipped in other builds."""
import os
import pathlib
import tempfile
import unittest

from bascule_run import has_mpi, run, run_ok
from rank_runs import ranks_settings


class WithoutMpi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if has_mpi():
            raise unittest.SkipTest("this build has MPI")

    def expect_refused(self, done, *words):
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in (*words, "2 machines cannot be connected: this program was built without MPI", "-Dmpi=auto"):
            self.assertIn(word, done.stderr)

    def test_machines_of_a_hostfile_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "hosts").write_text("one\ntwo\n")
            toml = ranks_settings(folder, 2, distributed__hostfile=f'"{folder}/hosts"')
            self.expect_refused(run("run", toml), "run.toml:", "hostfile")
            self.assertFalse(pathlib.Path(folder, "run").exists())

    def test_machines_of_slurm_are_refused(self):
        slurm = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2",
                 "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "1"}
        with tempfile.TemporaryDirectory() as folder:
            self.expect_refused(run("run", ranks_settings(folder, 2), env={**os.environ, **slurm}), "launcher's environment")

    def test_ranks_of_one_machine_train(self):
        with tempfile.TemporaryDirectory() as folder:
            run_ok("run", ranks_settings(folder, 2, training__max_steps="2"))
