# SPDX-License-Identifier: Apache-2.0
"""Runs that draw with several ranks: the files of one process, whoever is killed, stopped or fails.

BASCULE_KILLS sets how many runs are killed (1 for each number of ranks), BASCULE_TEST_SEED repeats the instants.
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

from bascule_run import PROGRAM, FolderTest, patient, run, run_ends, run_ok
from drawing import copy_pipeline, damage, drawing, pictures, rows, timeless, wait_for_lines
from rank_runs import KILLS, SEED, preloaded, processes_of, ranks_and_launcher

SETTINGS, DATA, RANK, DISK = 2, 3, 5, 6
TEXTS = {2: 6, 4: 10}  # by all ranks together: two or three texts a rank, by the batches that it has
OF_TIME = ("seconds", "_runtime", "_per_picture", "_per_second", "_bytes")


def ranks_drawing(folder, ranks, tables="", **keys):
    """24 pictures in batches of five."""
    tables = f"[distributed]\nworld_size = {ranks}\ntimeout_seconds = 10\n[machine]\nthreads = 1\n{tables}"
    return drawing(folder, tables=tables, **{"num_images_per_prompt": "12", "batch_size": "5", "num_inference_steps": "8", "seed": "3", **keys})


def left(folder):
    """Pictures, their lines and results, without what depends on time, memory or ranks: each of these encodes its own texts."""
    lines = timeless(rows(folder / "run"))
    results = json.loads((folder / "run" / "all_results.json").read_text())
    results = {key: value for key, value in results.items() if key == "calls_per_picture" or not key.endswith(OF_TIME)}
    del results["texts_encoded"]
    return pictures(folder / "run"), lines, results


def start(toml, **options):
    return subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)


class Ranks(FolderTest):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        began = time.monotonic()
        done = run_ok("run", ranks_drawing(folder, 1))
        cls.seconds = time.monotonic() - began
        assert "Contracts\n" in done.stdout, done.stdout
        cls.whole = left(folder)

    def judge(self, done):
        """All as one process leaves it; the number of pictures that were found aside."""
        self.assertEqual(done.returncode, 0, done.stderr)
        found, expected = left(self.folder), self.whole
        self.assertEqual(found[:2], expected[:2])
        aside = ("pictures_found", "pictures_drawn")
        self.assertEqual({key: value for key, value in found[2].items() if key not in aside},
                         {key: value for key, value in expected[2].items() if key not in aside})
        self.assertEqual([path.name for path in (self.folder / "run").iterdir() if path.name.startswith(".")], [])

    def expect_nothing_left(self, toml):
        deadline = time.monotonic() + 5
        while processes_of(str(toml)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(processes_of(str(toml)), [])

    def test_the_files_do_not_depend_on_the_number_of_ranks(self):
        """Four ranks have five batches, and one rank of three is idle where there are two."""
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                toml = ranks_drawing(self.folder, ranks)
                done = run("run", toml)
                self.judge(done)
                self.assertEqual(left(self.folder), self.whole)
                self.assertIn(f"{ranks} ranks of 1 thread;", done.stderr)
                texts = json.loads((self.folder / "run" / "all_results.json").read_text())["texts_encoded"]
                self.assertEqual(texts, TEXTS[ranks])
                (self.folder / "run" / ".bascule-launcher").mkdir()  # as a launcher that was killed leaves it
                self.assertIn("already finished", run("run", toml).stderr)
                self.assertFalse((self.folder / "run" / ".bascule-launcher").exists())
                shutil.rmtree(self.folder / "run")
        self.judge(run("run", ranks_drawing(self.folder, 3, batch_size="12")))

    def test_where_memory_is_short_fewer_ranks_are_advised(self):
        done = run_ends(4, "plan", ranks_drawing(self.folder, 2, batch_size="1"), "--memory-gib", "0.052")
        self.assertIn("--memory-gib allows", done.stderr)
        self.assertIn("; distributed.world_size = 1 would fit\n", done.stderr)

    def test_weights_are_planned_once(self):
        plans = {ranks: json.loads(run("plan", "--json", ranks_drawing(self.folder, ranks)).stdout) for ranks in (1, 2, 3)}
        weights = sum(plans[1]["categories"][name] for name in plans[1]["categories"] if "parameters" in name)
        self.assertGreater(weights, 0)
        own = [plans[ranks]["peak_bytes"] - plans[ranks - 1]["peak_bytes"] for ranks in (2, 3)]
        self.assertGreater(min(own), plans[1]["categories"]["workspace"])
        self.assertLess(max(own), plans[1]["peak_bytes"] - weights + (1 << 16))
        programs = [plans[ranks]["categories"]["program and libraries"] for ranks in (1, 2, 3)]
        self.assertLess(programs[2] - programs[0], programs[0] // 2)  # its pages are shared, too
        self.assertIn("24 pictures of 16 x 16 pixels, 5 at a time on each of 3 ranks, ", run("plan", self.folder / "run.toml").stdout)

    def test_killed_at_any_instant_and_gone_on_with_by_any_number_of_ranks(self):
        draw = random.Random(SEED)
        for kill in range(2 * KILLS):
            ranks = 1 + kill % 2
            with self.subTest(kill=kill, ranks=ranks, seed=SEED):
                self.doCleanups()
                self.setUp()
                process = start(ranks_drawing(self.folder, ranks))
                time.sleep(draw.uniform(0.0, self.seconds * (1 if ranks == 1 else 2)))
                process.kill()
                process.communicate()
                self.judge(run("run", ranks_drawing(self.folder, draw.choice((1, 2, 3)), batch_size="3")))

    def test_a_rank_that_is_killed_ends_the_others_with_one_line(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.doCleanups()
                self.setUp()
                toml = ranks_drawing(self.folder, 2, num_inference_steps="200")
                process = start(toml)
                wait_for_lines(self.folder, 3, process)
                os.kill(ranks_and_launcher(toml)[0][rank], signal.SIGKILL)
                error = process.communicate(timeout=patient(30))[1]
                self.assertEqual(process.returncode, RANK, error)
                lines = [line for line in error.splitlines() if line.startswith("bascule: rank ")]
                self.assertEqual(len(lines), 1, error)
                self.assertRegex(lines[0], rf"rank {rank} \(process \d+\) was killed by signal 9 .*while drawing batch \d+, operation \d+; finished pictures are complete; the same command draws the rest")
                self.expect_nothing_left(toml)
                self.assertEqual(len(rows(self.folder / "run")), len({row["file"] for row in rows(self.folder / "run")}))

    def test_a_signal_stops_all_ranks(self):
        for whom in ("launcher", "one rank"):
            with self.subTest(whom=whom):
                self.doCleanups()
                self.setUp()
                toml = ranks_drawing(self.folder, 2, num_inference_steps="100")
                process = start(toml)
                wait_for_lines(self.folder, 3, process)
                os.kill(process.pid if whom == "launcher" else ranks_and_launcher(toml)[0][1], signal.SIGTERM)
                error = process.communicate(timeout=patient(30))[1]
                self.assertEqual(process.returncode, 143, error)
                found = len(rows(self.folder / "run"))
                self.assertIn(f"run: stopped; {found} of 24 pictures are there", error)
                self.assertEqual(len(pictures(self.folder / "run")), found)
                self.assertLess(found, 24)
                self.assertEqual(run("run", toml).returncode, 0)
                self.assertEqual(json.loads((self.folder / "run" / "all_results.json").read_text())["pictures_found"], found)

    def test_what_fails_on_all_ranks_is_said_once(self):
        model = copy_pipeline(self.folder / "m")
        name = damage(model / "unet" / "diffusion_pytorch_model.safetensors")
        cases = ((DATA, f"{name} has numbers that are not finite", {"model": model}), (SETTINGS, "not a multiple of 8", {"height": "12"}),
                 (DATA, "missing.txt", {"prompts_file": '"missing.txt"'}))
        for code, words, keys in cases:
            with self.subTest(words=words):
                done = run_ends(code, "run", ranks_drawing(self.folder, 2, **keys))
                self.assertEqual(len([line for line in done.stderr.splitlines() if words in line]), 1, done.stderr)

    def test_a_picture_that_cannot_be_written_ends_all_ranks(self):
        for picture in ("00002.png", "00007.png"):  # of either rank
            with self.subTest(picture=picture):
                self.doCleanups()
                self.setUp()
                toml = ranks_drawing(self.folder, 2)
                full = {"LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "create", "FAILING_PATH": picture, "FAILING_ERROR": str(errno.ENOSPC)}
                done = run_ends(DISK, "run", toml, env={**os.environ, **full})
                self.assertEqual(len([line for line in done.stderr.splitlines() if "cannot be written: No space left on device" in line]), 1, done.stderr)
                self.judge(run("run", ranks_drawing(self.folder, 2)))
                self.expect_nothing_left(toml)
