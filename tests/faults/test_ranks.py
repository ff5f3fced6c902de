# SPDX-License-Identifier: Apache-2.0
"""Runs of several ranks: the samples and numbers of one process, the same bits again, and ends without leftovers when a process dies.

BASCULE_KILLS sets how often each failure is tried (1); BASCULE_TEST_SEED repeats the instants.
"""
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from bascule_run import EMOJI, PROGRAM, digest, run, settings

KILLS = int(os.environ.get("BASCULE_KILLS", "1"))
SEED = int(os.environ.get("BASCULE_TEST_SEED", "20261121"))
VALIDATION = f'"{EMOJI}/validation.jsonl"'


def ranks_settings(folder, ranks, **changes):
    return settings(folder, distributed__world_size=str(ranks), **changes)


STRATEGIES = {
    "fast_ddp": {"distributed__distribution_strategy": '"fast_ddp"'},
    **{f"ddp{mib}": {"distributed__distribution_strategy": '"ddp"', "distributed__bucket_mib": str(mib)} for mib in (1, 4, 25)},
    **{f"stage{stage}": {"distributed__distribution_strategy": '"sharded"', "distributed__sharded_stage": str(stage), "distributed__bucket_mib": "1"}
       for stage in (1, 2, 3)},
}


def some_rows(folder, count):
    """A training file of the first rows, as a value of the settings."""
    rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:count]]
    text = "".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) + "\n" for row in rows)
    pathlib.Path(folder, "rows.jsonl").write_text(text)
    return f'"{folder}/rows.jsonl"'


def parameters(folder):
    """All float32 values of a finished run's model.safetensors, by tensor."""
    data = (pathlib.Path(folder) / "run" / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "F32":
            tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors


def largest_relative_error(one, other):
    """Over the matrices and tables. Some biases have no gradient in exact arithmetic, and AdamW makes steps of its noise."""
    worst = 0.0
    for name, values in one.items():
        if name.endswith("weight") and len(values) >= 4096:
            difference = sum((a - b) ** 2 for a, b in zip(values, other[name]))
            worst = max(worst, (difference / sum(a * a for a in values)) ** 0.5)
    return worst


def processes_of(word):
    """Pids whose command line holds `word`, zombies left out."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word in (entry / "cmdline").read_bytes().decode(errors="replace"):
                if (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z" and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        except OSError:
            pass
    return found


def ranks_and_launcher(toml):
    """(rank pids in order of birth, mpirun's pid, pid of `bascule run`)"""
    pids = sorted(processes_of(str(toml)))
    names = {pid: pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids}
    launcher = [pid for pid, name in names.items() if "mpirun" in name or "orterun" in name]
    own = [pid for pid, name in names.items() if name == "bascule"]
    return own[1:], launcher[0] if launcher else None, own[0]


def preloaded(name):
    return str(PROGRAM.parent / "tests" / f"lib{name}.so")


class RanksTrain(unittest.TestCase):
    def trained(self, folder, ranks, batch, **changes):
        pathlib.Path(folder).mkdir()
        done = run("run", ranks_settings(folder, ranks, training__per_device_train_batch_size=str(batch), **changes))
        self.assertEqual(done.returncode, 0, done.stderr)
        return folder

    def test_the_numbers_of_one_process_at_the_same_global_batch(self):
        for head in ("image_text_matching", "masked_lm", "contrastive"):
            with self.subTest(head=head), tempfile.TemporaryDirectory() as folder:
                changes = {"model__head": f'"{head}"', "training__gather_negatives": str(head == "contrastive").lower(), "data__validation_file": VALIDATION, "training__learning_rate": "1e-4"}
                one = self.trained(folder + "/one", 1, 12, **changes)
                for ranks in (2, 3):
                    other = self.trained(f"{folder}/{ranks}", ranks, 12 // ranks, **changes)
                    self.assertLess(largest_relative_error(parameters(one), parameters(other)), 2e-5)
                    results = [json.loads((pathlib.Path(f) / "run" / "validation_results.json").read_text()) for f in (one, other)]
                    self.assertAlmostEqual(results[0]["eval_loss"], results[1]["eval_loss"], places=4)

    def test_the_same_bits_again_with_uneven_batches_and_ranks_without_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            for head in ("image_text_matching", "contrastive"):
                changes = {"data__train_file": some_rows(folder, 13), "model__head": f'"{head}"', "training__gather_negatives": str(head == "contrastive").lower()}
                first = self.trained(f"{folder}/{head}", 4, 3, **changes)  # 12 and 1: three ranks have none of the last
                second = self.trained(f"{folder}/{head}_again", 4, 3, machine__threads="2", **changes)
                self.assertEqual(digest(first + "/run/model.safetensors"), digest(second + "/run/model.safetensors"))

    def expect_same_bits(self, ranks, strategies, **changes):
        with tempfile.TemporaryDirectory() as folder:
            digests = {}
            for name in strategies:
                done = self.trained(f"{folder}/{name}", ranks, 2, **changes, **STRATEGIES[name])
                digests[name] = digest(done + "/run/model.safetensors")
            self.assertEqual(len(set(digests.values())), 1, digests)

    def test_every_strategy_stage_and_bucket_size_gives_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            changes = {"data__train_file": some_rows(folder, 31), "training__max_steps": "20", "training__save_steps": "0"}
            for ranks in (2, 3, 4):  # the last batches of an epoch hold 3, 1 (two ranks have none) and 7 samples
                with self.subTest(ranks=ranks):
                    self.expect_same_bits(ranks, STRATEGIES, **changes)

    def test_every_head_gives_the_same_bits_from_a_ring_of_buckets(self):
        with tempfile.TemporaryDirectory() as folder:
            changes = {"data__train_file": some_rows(folder, 13), "training__max_steps": "8"}
            for head in ("image_text_matching", "masked_lm", "contrastive"):
                with self.subTest(head=head):
                    gathers = str(head == "contrastive").lower()
                    self.expect_same_bits(3, ("fast_ddp", "stage2"), model__head=f'"{head}"', training__gather_negatives=gathers, **changes)

    def test_accumulated_gradients_have_the_same_bits_in_every_strategy(self):
        changes = {"training__max_steps": "20", "training__save_steps": "0", "training__gradient_accumulation_steps": "2"}
        self.expect_same_bits(2, ("fast_ddp", "ddp1", "stage1"), **changes)

    def test_ranks_that_a_launcher_has_started_join(self):
        with tempfile.TemporaryDirectory() as folder:
            changes = {"training__max_steps": "3"}
            own = self.trained(folder + "/own", 2, 4, **changes)
            for name in ("mpirun", "slurm"):
                place = pathlib.Path(folder, name)
                place.mkdir()
                command = [str(PROGRAM), "run", str(ranks_settings(place, 2, training__per_device_train_batch_size="4", **changes))]
                if name == "mpirun":
                    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
                    ends = [subprocess.run(["mpirun", *root, "--oversubscribe", "-np", "2", *command], capture_output=True, text=True, timeout=120)]
                else:  # what srun puts into the environment of its tasks
                    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}
                    tasks = [subprocess.Popen(command, env={**os.environ, **slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                             for rank in (0, 1)]
                    ends = [subprocess.CompletedProcess([], task.wait(120), "", task.stderr.read()) for task in tasks]
                    for task in tasks:
                        task.stderr.close()
                for end in ends:
                    self.assertEqual(end.returncode, 0, end.stderr)
                self.assertEqual("".join(end.stderr for end in ends).count("run: finished"), 1)
                self.assertEqual(digest(place / "run" / "model.safetensors"), digest(own + "/run/model.safetensors"))

    def test_evaluation_alone_gives_the_same_metrics_whatever_the_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for ranks in (1, 2, 3):
                place = pathlib.Path(folder, str(ranks))
                place.mkdir()
                done = run("run", ranks_settings(place, ranks, training__do_train="false", data__validation_file=VALIDATION, data__test_file=f'"{EMOJI}/test.jsonl"'))
                self.assertEqual(done.returncode, 0, done.stderr)
                metrics = json.loads((place / "run" / "validation_results.json").read_text())
                results.append({key: value for key, value in metrics.items() if not any(word in key for word in ("runtime", "second", "memory"))})
                results[-1]["embeddings"] = digest(place / "run" / "embeddings.safetensors")
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0], results[2])

    def test_ranks_that_never_have_a_sample_change_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = some_rows(folder, 2)
            for head in ("image_text_matching", "masked_lm", "contrastive"):
                changes = {"model__head": f'"{head}"', "model__dropout": '"off"', "data__train_file": rows, "training__learning_rate": "1e-4",
                           "training__gather_negatives": str(head == "contrastive").lower()}
                few, many = (parameters(self.trained(f"{folder}/{head}{ranks}", ranks, 1, **changes)) for ranks in (2, 5))
                self.assertLess(largest_relative_error(few, many), 2e-5)

    def test_a_checkpoint_lists_what_all_ranks_replaced_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "cut.jpg").write_bytes(b"\xff\xd8\xff")
            rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:24]]
            for number, row in enumerate(rows):
                row["image"] = f"{folder}/cut.jpg" if number % 5 == 0 else str(EMOJI / row["image"])
            pathlib.Path(folder, "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
            listed, results = [], []
            for ranks in (1, 2, 3):
                done = self.trained(f"{folder}/{ranks}", ranks, 12 // ranks, data__train_file=f'"{folder}/rows.jsonl"', data__on_bad_sample='"skip"')
                listed.append(json.loads(pathlib.Path(done, "run", "checkpoint-12", "bascule_state.json").read_text())["replacements"])
                all_results = json.loads(pathlib.Path(done, "run", "all_results.json").read_text())
                results.append([all_results[key] for key in ("bad_samples", "bad_samples_count", "loader_bad_samples")])
            self.assertGreaterEqual(len(listed[0]), 24)
            self.assertEqual(listed[0], listed[1])
            self.assertEqual(listed[0], listed[2])
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0], results[2])
            self.assertEqual(results[0][1], len(listed[0]))

    def test_goes_on_with_another_world_size(self):
        # Of 29 rows the last update of an epoch has 5: shares of 2, 1, 1 and 1, or micro-batches of 4 and 1, or of 2, 2 and 1.
        for head in ("image_text_matching", "masked_lm"):
            with tempfile.TemporaryDirectory() as folder:
                changes = {"model__head": f'"{head}"', "model__dropout": '"off"', "training__learning_rate": "1e-4", "data__train_file": some_rows(folder, 29),
                           "training__save_steps": "2", "training__save_total_limit": "0"}
                begun = self.trained(folder + "/begun", 4, 2, **changes)
                for ranks in (2, 1):
                    with self.subTest(head=head, ranks=ranks):
                        other = pathlib.Path(folder, str(ranks))
                        shutil.copytree(begun, other)
                        (other / "run" / "bascule.json").unlink()
                        for step in range(4, 13, 2):
                            shutil.rmtree(other / "run" / f"checkpoint-{step}")
                        done = run("run", ranks_settings(other, ranks, training__per_device_train_batch_size="2", training__gradient_accumulation_steps=str(4 // ranks), **changes))
                        self.assertEqual(done.returncode, 0, done.stderr)
                        self.assertIn("resume: from checkpoint-2", done.stderr)
                        self.assertLess(largest_relative_error(parameters(begun), parameters(other)), 2e-5)


class RanksFail(unittest.TestCase):
    def setUp(self):
        self.draw = random.Random(SEED)

    def long_run(self, folder):
        return ranks_settings(folder, 2, training__max_steps="4000", training__save_steps="10", distributed__timeout_seconds="3",
                              model__head='"image_text_matching"', **STRATEGIES[self.draw.choice(("fast_ddp", "ddp1", "stage2"))])

    def started(self, folder):
        toml = self.long_run(folder)
        process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "saved checkpoint-10" in line:
                break
        time.sleep(self.draw.uniform(0.0, 1.0))
        return process, toml

    def expect_nothing_left(self, folder, toml):
        deadline = time.monotonic() + 5
        while processes_of(str(toml)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(processes_of(str(toml)), [])
        self.assertNotIn(".launcher", os.listdir(pathlib.Path(folder) / "run"))
        self.assertEqual([name for name in os.listdir("/dev/shm") if "vader" in name or "bascule" in name], [])

    def test_a_killed_or_silent_rank_ends_the_run_with_one_line_and_code_five(self):
        for number, word in ((signal.SIGKILL, "was killed by signal 9"), (signal.SIGSEGV, "was killed by signal 11"), (signal.SIGSTOP, "no sign of life")):
            for rank in (0, 1):
                for _ in range(KILLS):
                    with self.subTest(signal=number, rank=rank), tempfile.TemporaryDirectory() as folder:
                        process, toml = self.started(folder)
                        os.kill(ranks_and_launcher(toml)[0][rank], number)
                        error = process.communicate(timeout=30)[1]
                        self.assertEqual(process.returncode, 5, error)
                        lines = [line for line in error.splitlines() if line.startswith("bascule: rank ")]
                        self.assertEqual(len(lines), 1, error)
                        self.assertIn(f"rank {rank} (process", lines[0])
                        self.assertIn(word, lines[0])
                        self.assertRegex(lines[0], "of update [0-9]+")
                        self.expect_nothing_left(folder, toml)

    def test_a_disk_slower_than_the_timeout_and_a_step_longer_than_it_are_no_failures(self):
        # A checkpoint is 25 MiB: 4 s of this disk, after all of it was written to memory at once. A step takes two.
        slow = {"LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_KIB_PER_SECOND": "6144"}
        cases = {"disk": ({"training__max_steps": "1"}, slow),
                 "step": ({"training__max_steps": "1", "training__per_device_train_batch_size": "790", "machine__isa": '"avx2"'}, {})}
        for name, (changes, environment) in cases.items():
            for _ in range(KILLS if name == "disk" else 1):
                with self.subTest(case=name), tempfile.TemporaryDirectory() as folder:
                    began = time.monotonic()
                    done = run("run", ranks_settings(folder, 2, distributed__timeout_seconds="1", **changes), env={**os.environ, **environment})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertGreater(time.monotonic() - began, 2.0)

    def test_a_disk_that_fails_while_it_is_waited_for_ends_the_run(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = {"LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_ERROR": str(errno.ENODATA)}
            done = run("run", ranks_settings(folder, 2, training__max_steps="2"), env={**os.environ, **broken})
            self.assertEqual(done.returncode, 6, done.stderr)
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
                done = run("run", toml, env={**os.environ, "LD_PRELOAD": preloaded("stuck_open")})
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertRegex(done.stderr, "rank [01] .*no sign of life for timeout_seconds waiting for data of update")
                self.expect_nothing_left(folder, toml)

    def test_a_rank_killed_on_its_way_out_of_a_finished_run_is_no_failure(self):
        for rank in ("0", "1"):
            for _ in range(KILLS):
                with self.subTest(rank=rank), tempfile.TemporaryDirectory() as folder:
                    toml = ranks_settings(folder, 2, training__max_steps="2")
                    done = run("run", toml, env={**os.environ, "LD_PRELOAD": preloaded("killed_at_exit"), "KILLED_RANK": rank})
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("run: finished", done.stderr)
                    self.expect_nothing_left(folder, toml)

    def test_a_killed_launcher_takes_its_ranks_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            process, toml = self.started(folder)
            os.kill(ranks_and_launcher(toml)[1], signal.SIGKILL)
            error = process.communicate(timeout=30)[1]
            self.assertEqual(process.returncode, 5, error)
            self.assertIn("mpirun was killed by signal 9", error)
            self.expect_nothing_left(folder, toml)

    def test_a_killed_run_takes_launcher_and_ranks_with_it_and_goes_on_later(self):
        with tempfile.TemporaryDirectory() as folder:
            process, toml = self.started(folder)
            process.kill()
            process.communicate(timeout=30)
            deadline = time.monotonic() + 10
            while processes_of(str(toml)) and time.monotonic() < deadline:
                time.sleep(0.05)
            self.assertEqual(processes_of(str(toml)), [])
            text = toml.read_text().replace("max_steps = 4000", "max_steps = 4000\nthroughput_warmup_steps = 2")
            toml.write_text(text)
            again = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            lines = []
            for line in again.stderr:
                lines.append(line)
                if "step" in line and "/4000" in line:
                    again.send_signal(signal.SIGINT)
                    break
            rest = again.communicate(timeout=60)[1]
            self.assertEqual(again.returncode, 130, rest)
            self.assertTrue(any("resume: from checkpoint-" in line for line in lines), lines)
            self.assertIn("stopped by SIGINT", rest)
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
                self.assertIn(process.wait(timeout=30), (0, 5))
                done = run("run", ranks_settings(folder, 2, **{**changes, **STRATEGIES[resumed]}))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(whole, [digest(pathlib.Path(folder) / "run" / name) for name in files])
                self.expect_nothing_left(folder, toml)

    def test_an_error_of_all_ranks_is_said_once_with_its_own_code(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("run", ranks_settings(folder, 3, data__train_file='"nowhere.jsonl"'))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len([line for line in done.stderr.splitlines() if "nowhere.jsonl" in line]), 1, done.stderr)
            done = run("run", ranks_settings(folder, 2, machine__memory_limit_gib="0.01"))
            self.assertEqual(done.returncode, 4, done.stderr)
            done = run("run", ranks_settings(folder, 2), env={**os.environ, "PATH": "/nowhere"})
            self.assertEqual(done.returncode, 5, done.stderr)
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
                done = run("run", ranks_settings(folder, 2, data__train_file=f'"{folder}/rows.jsonl"', **changes))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertEqual(len([line for line in done.stderr.splitlines() if "rows.jsonl:32" in line]), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
