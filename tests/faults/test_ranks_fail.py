# SPDX-License-Identifier: Apache-2.0
"""Runs of several ranks end in time, with one line and without leftovers, when a process dies, hangs or meets an error; and go on later.

BASCULE_KILLS and BASCULE_TEST_SEED: see rank_runs.py.
"""
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from bascule_run import DEMO_MODEL, EMOJI, PROGRAM, digest, is_sanitized, patient, run, run_ends, run_ok, run_until, wait_for
from node_runs import ranks_of
from rank_runs import KILLS, SEED, STRATEGIES, preloaded, processes_of, ranks_and_launcher, ranks_settings


class RanksFail(unittest.TestCase):
    def setUp(self):
        self.draw = random.Random(SEED)

    def long_run(self, folder):
        return ranks_settings(folder, 2, training__max_steps="100000", training__save_steps="40", distributed__timeout_seconds="2",
                              model__head='"image_text_matching"', **STRATEGIES[self.draw.choice(("fast_ddp", "ddp1", "stage2"))])

    def started(self, folder, *options):
        toml = self.long_run(folder)
        process = subprocess.Popen([str(PROGRAM), "run", str(toml), *options], stdout=subprocess.PIPE if options else subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "saved checkpoint-40 " in line:
                break
        time.sleep(self.draw.uniform(0.0, 0.3))
        return process, toml

    def expect_nothing_left(self, folder, toml):
        deadline = time.monotonic() + 5
        while processes_of(str(toml)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_of(str(toml)), [])
        self.assertNotIn(".bascule-launcher", os.listdir(pathlib.Path(folder) / "run"))
        self.assertEqual([name for name in os.listdir("/dev/shm") if "vader" in name or "bascule" in name], [])

    def test_a_killed_or_silent_rank_ends_the_run_with_one_line_and_code_five(self):
        for number, word in ((signal.SIGKILL, "was killed by signal 9"), (signal.SIGSEGV, "was killed by signal 11"), (signal.SIGSTOP, "no sign of life")):
            for rank in (0, 1):
                for _ in range(KILLS):
                    with self.subTest(signal=number, rank=rank), tempfile.TemporaryDirectory() as folder:
                        process, toml = self.started(folder, "--json")
                        os.kill(ranks_and_launcher(toml)[0][rank], number)
                        document, error = process.communicate(timeout=patient(30))
                        self.assertEqual(process.returncode, 5, error)
                        lines = [line for line in error.splitlines() if line.startswith("bascule: rank ")]
                        self.assertEqual(len(lines), 1, error)
                        self.assertIn(f"rank {rank} (process", lines[0])
                        self.assertIn(word, lines[0])
                        self.assertRegex(lines[0], "in update [0-9]+")
                        said = json.loads(document)["error"]
                        self.assertEqual((said["kind"], said["exit_code"], lines[0]), ("rank", 5, f"bascule: {said['what']}; {said['what_to_do']}"))
                        self.expect_nothing_left(folder, toml)

    def test_a_launcher_that_sees_late_how_a_rank_ended_still_tells_it(self):
        with tempfile.TemporaryDirectory() as folder:
            process, toml = self.started(folder)
            ranks, launcher, _ = ranks_and_launcher(toml)
            os.kill(launcher, signal.SIGSTOP)
            os.kill(ranks[1], signal.SIGKILL)
            time.sleep(1)
            os.kill(launcher, signal.SIGCONT)
            error = process.communicate(timeout=patient(30))[1]
            self.assertEqual(process.returncode, 5, error)
            self.assertRegex(error, r"bascule: rank 1 \(process [0-9]+\) was killed by signal 9")
            self.expect_nothing_left(folder, toml)

    def test_a_rank_stopped_while_it_starts_ends_the_run_with_one_line_and_code_five(self):
        for delay in (0.0, 0.01, 0.05):
            with self.subTest(delay=delay), tempfile.TemporaryDirectory() as folder:
                toml = ranks_settings(folder, 2, training__max_steps="100000", distributed__timeout_seconds="1")
                process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                while 1 not in (ranks := ranks_of(toml)):
                    self.assertIsNone(process.poll())
                time.sleep(delay)
                os.kill(ranks[1], signal.SIGSTOP)
                error = process.communicate(timeout=patient(30))[1]
                self.assertEqual(process.returncode, 5, error)
                said = ("did not connect", "cannot be reached", "no sign of life")
                self.assertEqual(len([line for line in error.splitlines() if any(words in line for words in said)]), 1, error)
                self.expect_nothing_left(folder, toml)

    def test_a_disk_slower_than_the_timeout_and_a_step_longer_than_it_are_no_failures(self):
        # A checkpoint is 7 MB: 4 s of this disk, after all of it was written to memory at once. A step takes two.
        slow = {"LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_KIB_PER_SECOND": "2048"}
        cases = {"disk": ({"training__max_steps": "1"}, slow),
                 "step": ({"distributed__timeout_seconds": "8" if is_sanitized() else "1", "model__model_name_or_path": f'"{DEMO_MODEL}"', "training__max_steps": "1", "training__save_steps": "0", "training__per_device_train_batch_size": "790", "machine__isa": '"avx2"'}, {})}
        for name, (changes, environment) in cases.items():
            for _ in range(KILLS if name == "disk" else 1):
                with self.subTest(case=name), tempfile.TemporaryDirectory() as folder:
                    began = time.monotonic()
                    run_ok("run", ranks_settings(folder, 2, **{"distributed__timeout_seconds": "1", **changes}), env={**os.environ, **environment})
                    self.assertGreater(time.monotonic() - began, 2.0)

    def test_a_disk_that_fails_while_it_is_waited_for_ends_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = {"LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_ERROR": str(errno.ENODATA)}
            run_ends(6, "run", ranks_settings(folder, 2, training__max_steps="2"), env={**os.environ, **broken})
            self.assertEqual([name for name in os.listdir(pathlib.Path(folder) / "run") if name.startswith("checkpoint-")], [])

    def test_a_rank_that_waits_for_a_file_for_ever_is_seen_whatever_the_strategy(self):
        for strategy in ("fast_ddp", "ddp"):
            with self.subTest(strategy=strategy), tempfile.TemporaryDirectory() as folder:
                rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:16]]
                for row in rows:
                    row["image"] = str(EMOJI / row["image"])
                shutil.copy(rows[5]["image"], f"{folder}/stuck.jpg")
                rows[5]["image"] = f"{folder}/stuck.jpg"
                pathlib.Path(folder, "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
                toml = ranks_settings(folder, 2, data__train_file=f'"{folder}/rows.jsonl"', distributed__timeout_seconds="3",
                                      distributed__distribution_strategy=f'"{strategy}"')
                self.assertRegex(run_ends(5, "run", toml, env={**os.environ, "LD_PRELOAD": preloaded("stuck_open")}).stderr, "rank [01] .*no sign of life for timeout_seconds while waiting for data in update")
                self.expect_nothing_left(folder, toml)

    def test_a_rank_killed_on_its_way_out_of_a_finished_run_is_no_failure(self):
        for rank in ("0", "1"):
            for _ in range(KILLS):
                with self.subTest(rank=rank), tempfile.TemporaryDirectory() as folder:
                    toml = ranks_settings(folder, 2, training__max_steps="2")
                    done = run_ok("run", toml, env={**os.environ, "LD_PRELOAD": preloaded("killed_at_exit"), "KILLED_RANK": rank})
                    self.assertIn("run: finished", done.stderr)
                    self.expect_nothing_left(folder, toml)

    def test_a_killed_launcher_takes_its_ranks_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            process, toml = self.started(folder)
            os.kill(ranks_and_launcher(toml)[1], signal.SIGKILL)
            error = process.communicate(timeout=patient(30))[1]
            self.assertEqual(process.returncode, 5, error)
            self.assertIn("mpirun was killed by signal 9", error)
            self.expect_nothing_left(folder, toml)

    def test_a_killed_run_takes_launcher_and_ranks_with_it_and_goes_on_later(self):
        with tempfile.TemporaryDirectory() as folder:
            process, toml = self.started(folder)
            process.kill()
            process.communicate(timeout=patient(30))
            deadline = time.monotonic() + 10
            while processes_of(str(toml)) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(processes_of(str(toml)), [])
            text = toml.read_text().replace("max_steps = 100000", "max_steps = 100000\nthroughput_warmup_steps = 2")
            toml.write_text(text)
            code, said = run_until("step.*/100000", signal.SIGINT, "run", toml)
            self.assertEqual(code, 130, said)
            self.assertRegex(said, "(?s)resume: from checkpoint-.*stopped by SIGINT")
            self.expect_nothing_left(folder, toml)

    def test_an_mpirun_that_outlives_its_launcher_holds_the_folder(self):
        """It makes and removes files in its own folder until it ends: the next start waits for that."""
        with tempfile.TemporaryDirectory() as folder:
            toml, slow = ranks_settings(folder, 2, training__max_steps="1"), pathlib.Path(folder, "mpirun")
            slow.write_text(f"#!/bin/sh\ntrap '' TERM\ntouch {folder}/started\nwhile [ ! -e {folder}/end ]; do mkdir -p {folder}/run/.bascule-launcher/x; sleep 0.01; done\n")
            slow.chmod(0o755)
            with subprocess.Popen([str(PROGRAM), "run", str(toml)], stderr=subprocess.DEVNULL, env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}) as killed:
                wait_for(pathlib.Path(folder, "started").exists)
                killed.kill()
            try:
                with subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as again:
                    self.assertIn("waiting a few seconds", again.stderr.readline())
                    pathlib.Path(folder, "end").touch()
                    said = again.stderr.read()
                self.assertEqual(again.returncode, 0, said)
                self.expect_nothing_left(folder, toml)
            finally:
                pathlib.Path(folder, "end").touch()

    def test_what_a_killed_launcher_left_goes_at_the_next_start_whatever_that_is(self):
        with tempfile.TemporaryDirectory() as folder:
            toml = ranks_settings(folder, 1, training__max_steps="1")
            for said in ("run: finished", "run: already finished"):
                (pathlib.Path(folder) / "run" / ".bascule-launcher").mkdir(parents=True)
                (pathlib.Path(folder) / "run" / ".bascule-launcher" / "contact.txt").write_text("")
                done = run_ok("run", toml)
                self.assertIn(said, done.stderr)
                self.expect_nothing_left(folder, toml)

    def test_all_ranks_killed_at_a_random_instant_and_started_again_end_with_the_same_bits(self):
        changes = {"training__max_steps": "40", "training__save_steps": "4", "data__test_file": f'"{EMOJI}/test.jsonl"',
                   **STRATEGIES["ddp1"]}
        files = ("model.safetensors", "embeddings.safetensors")
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            self.assertEqual(run("run", ranks_settings(folder, 2, **changes)).returncode, 0)
            seconds = time.monotonic() - began
            whole = [digest(pathlib.Path(folder) / "run" / name) for name in files]
        for _ in range(KILLS):
            killed, resumed = self.draw.sample(sorted(STRATEGIES), 2)
            with self.subTest(seed=SEED, killed=killed, resumed=resumed), tempfile.TemporaryDirectory() as folder:
                toml = ranks_settings(folder, 2, **{**changes, **STRATEGIES[killed]})
                process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(self.draw.uniform(0.0, seconds))
                for pid in processes_of(str(toml)):
                    if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "bascule" and pid != process.pid:
                        os.kill(pid, signal.SIGKILL)
                self.assertIn(process.wait(timeout=patient(30)), (0, 5))
                run_ok("run", ranks_settings(folder, 2, **{**changes, **STRATEGIES[resumed]}))
                self.assertEqual(whole, [digest(pathlib.Path(folder) / "run" / name) for name in files])
                self.expect_nothing_left(folder, toml)

    def test_an_error_of_all_ranks_is_said_once_with_its_own_code(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run_ends(3, "run", ranks_settings(folder, 3, data__train_file='"nowhere.jsonl"'))
            self.assertEqual(len([line for line in done.stderr.splitlines() if "nowhere.jsonl" in line]), 1, done.stderr)
            done = run_ends(4, "run", ranks_settings(folder, 2, machine__memory_limit_gib="0.01"))
            done = run_ends(5, "run", ranks_settings(folder, 2), env={**os.environ, "PATH": "/nowhere"})
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn("install openmpi-bin", done.stderr)

    def test_a_bad_picture_of_one_rank_is_named_and_ends_all(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "cut.jpg").write_bytes(b"\xff\xd8\xff")
            good = json.loads((EMOJI / "train.jsonl").read_text().splitlines()[0])
            good["image"] = str(EMOJI / good["image"])
            rows = [good] * 31 + [{"image": f"{folder}/cut.jpg", "caption": "x"}]
            pathlib.Path(folder, "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
            for changes in ({}, {"training__gather_negatives": "true"}, {"model__head": '"masked_lm"'}, STRATEGIES["stage2"]):
                shutil.rmtree(pathlib.Path(folder) / "run", ignore_errors=True)
                done = run_ends(3, "run", ranks_settings(folder, 2, data__train_file=f'"{folder}/rows.jsonl"', **changes))
                self.assertEqual(len([line for line in done.stderr.splitlines() if "rows.jsonl:32" in line]), 1, done.stderr)
