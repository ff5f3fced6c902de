# SPDX-License-Identifier: Apache-2.0
"""A run works and can be stopped whatever its caller closed; a second signal ends it at once; neither leaves anything that blocks the next start."""
import itertools
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from bascule_run import EMOJI, PROGRAM, FolderTest, digest, has_mpi, patient, run, settings, wait_for, run_ok
from rank_runs import preloaded, processes_of, ranks_and_launcher

SMALL = {"training__max_steps": "3", "training__save_steps": "1", "data__train_file": f'"{EMOJI}/validation.jsonl"'}
LONG = {"training__max_steps": "100000", "training__save_steps": "2"}


def closed(toml, redirections):
    """The run, started by a shell that closes descriptors."""
    return ["sh", "-c", f'exec "$0" run "$1" {redirections}', str(PROGRAM), str(toml)]


def newest_checkpoint(output):
    """Its update; 0: there is none."""
    return max((int(path.name.partition("-")[2]) for path in output.glob("checkpoint-*")), default=0)


class Stop(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "run"

    def expect_nothing_left(self, toml, but=""):
        wait_for(lambda: not processes_of(str(toml)), 10)
        self.assertEqual([path.name for path in self.output.iterdir() if path.name.startswith(".") and path.name != but], [])

    def test_a_run_whose_descriptors_are_closed_works(self):
        bits = {"1": set(), "2": set()}
        for ranks, redirections in itertools.product(bits, ("2>&-", "<&-", ">&-", "<&- >&- 2>&-")):
            with self.subTest(ranks=ranks, redirections=redirections), tempfile.TemporaryDirectory() as folder:
                toml = settings(folder, distributed__world_size=ranks, **SMALL)
                done = subprocess.run(closed(toml, redirections), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=patient(120))
                self.assertEqual(done.returncode, 0, done.stderr)
                bits[ranks].add(digest(f"{folder}/run/model.safetensors"))
        self.assertEqual([len(found) for found in bits.values()], [1, 1])

    def test_with_json_a_run_that_is_stopped_leaves_one_document(self):
        for ranks in ("1", "2") if has_mpi() else ("1",):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                toml = settings(folder, distributed__world_size=ranks, **LONG)
                begun = subprocess.Popen([str(PROGRAM), "run", str(toml), "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                wait_for(lambda: newest_checkpoint(pathlib.Path(folder) / "run") > 0)
                begun.terminate()
                document = json.loads(begun.communicate(timeout=patient(60))[0])
                self.assertEqual((begun.returncode, document["error"]["kind"], document["error"]["exit_code"]), (143, "stopped", 143))
                self.assertRegex(document["error"]["what"], "^run: stopped by SIGTERM after update [0-9]+, which was saved")

    def test_a_second_run_in_the_same_folder_waits_a_moment_and_is_refused(self):
        toml = settings(self.folder, **LONG)
        first = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: (self.output / "checkpoint-2").exists())
        second = run("run", toml)
        self.assertIsNone(first.poll(), "the first run has ended before the second one")
        first.terminate()
        self.assertEqual(first.wait(patient(60)), 143)
        self.assertEqual(second.returncode, 2, second.stderr)
        self.assertIn("another run is using this folder; waiting a few seconds", second.stderr.splitlines()[0])
        self.assertIn("another run is using this folder; wait for it to end, or choose another folder", second.stderr.splitlines()[-1])

    def test_a_run_whose_descriptors_are_closed_saves_at_sigterm(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks):
                toml = settings(self.folder, distributed__world_size=ranks, training__output_dir=f'"{self.output}{ranks}"', **LONG)
                process = subprocess.Popen(closed(toml, "<&- >&- 2>&-"))
                wait_for(lambda: (self.folder / f"run{ranks}" / "checkpoint-2").exists())
                process.terminate()
                self.assertEqual(process.wait(patient(60)), 143)
                wait_for(lambda: not processes_of(str(toml)), 10)

    def test_a_signal_to_one_rank_alone_stops_the_run_with_its_code(self):
        toml = settings(self.folder, distributed__world_size="2", **LONG)
        for rank in (0, 1):
            with self.subTest(rank=rank):
                process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                step = newest_checkpoint(self.output)
                wait_for(lambda: newest_checkpoint(self.output) > step)
                os.kill(ranks_and_launcher(toml)[0][rank], signal.SIGTERM)
                error = process.communicate(timeout=patient(60))[1]
                self.assertEqual(process.returncode, 143, error)
                self.assertIn("run: stopped by SIGTERM after update", error)

    def test_a_signal_while_ranks_start_is_never_lost(self):
        """slow_start.c holds up the process that becomes mpirun, before it has its own handlers."""
        toml = settings(self.folder, distributed__world_size="2", **LONG)
        slow = {**os.environ, "LD_PRELOAD": preloaded("slow_start"), "SLOW_START_MS": "500"}
        process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=slow)
        wait_for(lambda: len(processes_of(str(toml))) > 1)
        process.terminate()
        error = process.communicate(timeout=patient(60))[1]
        self.assertEqual(process.returncode, 143, error)
        self.expect_nothing_left(toml)

    def test_a_second_signal_ends_without_saving_and_the_next_start_goes_on(self):
        # A checkpoint is 7 MB: longer on this disk than the test.
        slow = {**os.environ, "LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_KIB_PER_SECOND": "128"}
        for ranks, number in (("1", signal.SIGINT), ("1", signal.SIGTERM), ("2", signal.SIGINT)):
            with self.subTest(ranks=ranks, signal=number), tempfile.TemporaryDirectory() as folder:
                self.output = pathlib.Path(folder) / "run"
                toml = settings(folder, distributed__world_size=ranks, **{**SMALL, "training__max_steps": "100000", "training__save_steps": "0"})
                process = subprocess.Popen([str(PROGRAM), "run", str(toml), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=slow)
                for line in process.stderr:
                    if "step" in line and "/100000" in line:
                        break
                process.send_signal(number)
                wait_for(lambda: list(self.output.glob(".tmp-bascule-checkpoint-*")))
                process.send_signal(number)
                began = time.monotonic()
                document, rest = process.communicate(timeout=patient(60))
                self.assertLess(time.monotonic() - began, 20)
                self.assertEqual(process.returncode, 128 + number, rest)
                self.assertEqual(json.loads(document)["error"]["exit_code"], 128 + number)
                self.assertEqual(rest.count("stopping at once, without saving"), 1, rest)
                half = next(self.output.glob(".tmp-bascule-checkpoint-*"))  # goes at the next start
                self.expect_nothing_left(toml, but=half.name)
                self.assertEqual([path.name for path in self.output.glob("checkpoint-*")], [])
                run_ok("run", settings(folder, distributed__world_size=ranks, **SMALL))
                self.assertEqual([path.name for path in self.output.glob(".tmp*")], [])

    def test_the_launchers_folder_goes_when_ranks_cannot_be_started(self):
        toml = settings(self.folder, distributed__world_size="2", **SMALL)
        self.assertEqual(run("run", toml, env={**os.environ, "PATH": "/nowhere"}).returncode, 5)
        self.expect_nothing_left(toml)
        self.assertEqual(run("run", toml).returncode, 0)
        self.expect_nothing_left(toml)
