# SPDX-License-Identifier: Apache-2.0
"""Two machines of a run under Slurm. With a real one, where it is installed, and with its variables set by hand."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

import slurm_nodes
from bascule_run import PROGRAM, ROOT, digest, has_mpi, patient, run, wait_for, run_ok
from rank_runs import processes_of, ranks_settings

SETTINGS, RANK, KILLED, TERMINATED = 2, 5, 137, 143
CHANGES = {"training__per_device_train_batch_size": "4", "training__max_steps": "60", "training__save_steps": "20"}


def job_script():
    """That of the page."""
    return re.search(r"```sh\n(#!/bin/bash\n#SBATCH .*?)```", (ROOT / "src/distributed/README.md").read_text(), re.S).group(1)


@unittest.skipUnless(has_mpi(), "this build has no MPI")
class WithoutPmix(unittest.TestCase):
    """Variables of a Slurm that has started two ranks on two machines by its own means."""
    def start(self, folder, rank, *options):
        slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "1",
                 "SLURM_PROCID": str(rank), "SLURM_LOCALID": "0"}
        return run("run", ranks_settings(folder, 2), *options, env={**os.environ, **slurm})

    def test_one_rank_says_in_one_line_how_to_start_them(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second, document = self.start(folder, 0), self.start(folder, 1), self.start(folder, 0, "--json")
            self.assertFalse(pathlib.Path(folder, "run").exists())
        self.assertEqual([done.returncode for done in (first, second, document)], [SETTINGS] * 3)
        self.assertRegex(first.stderr, r"^bascule: the launcher's environment: .* 2 machines without PMIx, .*`srun --mpi=pmix`\n$")
        self.assertEqual(second.stderr, "")
        self.assertIn("srun --mpi=pmix", json.dumps(json.loads(document.stdout)))


@unittest.skipIf(slurm_nodes.missing(), f"no Slurm: {slurm_nodes.missing()}")
@unittest.skipUnless(has_mpi(), "this build has no MPI")
class RealSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.slurm = cls.enterClassContext(slurm_nodes.SlurmNodes(cls.enterClassContext(tempfile.TemporaryDirectory())))

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.toml = ranks_settings(self.folder, 2, **CHANGES)
        self.log = self.folder / "log"
        self.tell_at = None  # when a job is told to start

    def state(self, job):
        return self.slurm.run(["squeue", "-h", "-o", "%T %r", "-j", job]).stdout.strip()

    def starts_again(self, job):
        """Slurm puts off by two minutes what it queues again. A job that is told to start before the end of its script has been noted is over; one that is told twice within
        some seconds is put off again."""
        if self.state(job) == "PENDING BeginTime":
            self.tell_at = self.tell_at or time.monotonic() + 2
            if time.monotonic() > self.tell_at:
                self.slurm.run(["scontrol", "update", f"JobId={job}", "StartTime=now"])
                self.tell_at = time.monotonic() + 15
        return "bascule: resume: from checkpoint-" in self.log.read_text()

    def test_without_pmix_one_line_says_how_to_start_it(self):
        for kind in ("none", "pmi2"):
            with self.subTest(mpi=kind):
                done = self.slurm.run(["srun", f"--mpi={kind}", "-N2", "-n2", PROGRAM, "run", self.toml])
                lines = [line for line in done.stderr.splitlines() if not line.startswith("srun: ")]
                self.assertEqual((done.returncode, len(lines)), (SETTINGS, 1), done.stderr)
                self.assertIn("`srun --mpi=pmix`", lines[0])

    def test_the_job_of_the_page_saves_at_a_signal_is_queued_again_and_ends_with_the_bits_of_one_machine(self):
        (self.folder / "job").write_text(job_script())
        submitted = self.slurm.run(["sbatch", "--parsable", f"--export=ALL,PATH={PROGRAM.parent}:{slurm_nodes.PATH}", f"--output={self.log}", "job"], cwd=self.folder)
        self.assertEqual(submitted.returncode, 0, submitted.stderr)
        job = submitted.stdout.strip()
        wait_for(lambda: (self.folder / "run" / "checkpoint-20").exists())
        self.slurm.run(["scancel", "-s", "TERM", job])
        wait_for(lambda: self.starts_again(job))
        self.assertIn("bascule: run: stopped by SIGTERM after update", self.log.read_text())
        wait_for(lambda: "bascule: run: finished" in self.log.read_text())
        wait_for(lambda: self.state(job) == "")
        own = self.folder / "own"
        own.mkdir()
        run_ok("run", ranks_settings(own, 2, **CHANGES))
        self.assertEqual(digest(self.folder / "run" / "model.safetensors"), digest(own / "run" / "model.safetensors"))

    def test_a_rank_that_is_killed_ends_the_step_and_is_named(self):
        command = ["srun", "--mpi=pmix", "-N2", "-n2", str(PROGRAM), "run", str(self.toml)]
        process = subprocess.Popen(command, env=self.slurm.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: (self.folder / "run" / "checkpoint-20").exists())
        last = [pid for pid in processes_of(str(self.toml)) if b"SLURM_PROCID=1" in pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
        os.kill(last[0], signal.SIGKILL)
        errors = process.communicate(timeout=patient(120))[1]
        self.assertIn(process.returncode, (RANK, KILLED), errors)
        self.assertEqual(len([line for line in errors.splitlines() if line.startswith("bascule: rank 1 ")]), 1, errors)
