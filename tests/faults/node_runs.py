# SPDX-License-Identifier: Apache-2.0
"""What the tests of two machines share: their settings, their processes, and that a run leaves nothing behind.

Skipped where namespaces are not permitted, and in a build without MPI. BASCULE_KILLS and BASCULE_TEST_SEED as in rank_runs.py.
"""
import os
import pathlib
import random
import re
import signal
import subprocess
import tempfile
import time
import unittest

from bascule_run import PROGRAM, has_mpi, patient, run
from namespaces import TwoNodes, is_permitted
from rank_runs import SEED, processes_of, ranks_settings

COMMON = "/var/tmp"  # what both machines see


def on_nodes(folder, nodes, ranks, **changes):
    pathlib.Path(folder).mkdir(exist_ok=True)
    return ranks_settings(folder, ranks, distributed__hostfile=f'"{nodes.hostfile}"', **changes)


def ranks_of(toml):
    """Pids of the ranks by number."""
    found = {}
    for pid in processes_of(str(toml)):
        try:
            comm = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
        except OSError:
            continue
        if comm == "bascule" and rank:
            found[int(rank[1])] = pid
    return found


def launcher_of(toml):
    return next(pid for pid in processes_of(str(toml)) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() in ("mpirun", "orterun"))


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not is_permitted():
            raise unittest.SkipTest("namespaces are not permitted here")
        if not has_mpi():
            raise unittest.SkipTest("this build has no MPI")
        cls.common = tempfile.TemporaryDirectory(dir=COMMON)
        cls.addClassCleanup(cls.common.cleanup)

    def setUp(self):
        self.draw = random.Random(SEED)

    def machines(self, **options):
        nodes = TwoNodes(self.common.name, **options)
        nodes.__enter__()
        self.addCleanup(nodes.__exit__)
        return nodes

    def folder(self):
        folder = tempfile.TemporaryDirectory(dir=self.common.name)
        self.addCleanup(folder.cleanup)
        self.addCleanup(self.end_processes, folder.name)  # of a test that failed
        return folder.name

    def end_processes(self, folder):
        for pid in processes_of(folder):
            os.kill(pid, signal.SIGKILL)

    def trained(self, nodes, ranks, batch=None, **changes):
        """A finished run on the two machines; on this one where nodes is None."""
        folder = self.folder()
        if batch is not None:
            changes["training__per_device_train_batch_size"] = str(batch)
        if nodes is None:
            done = run("run", ranks_settings(folder, ranks, **changes))
        else:
            toml = on_nodes(folder, nodes, ranks, **changes)
            done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(300))
            self.expect_nothing_left(nodes, folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return pathlib.Path(folder, "run")

    def expect_no_process(self, folder, seconds):
        deadline = time.monotonic() + seconds
        while (left := processes_of(folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left], [])

    def expect_nothing_left(self, nodes, folder):
        self.expect_no_process(folder, 5)
        self.assertNotIn(".bascule-launcher", os.listdir(pathlib.Path(folder) / "run"))
        for number in (0, 1):
            self.assertEqual(nodes.files(number), [])
