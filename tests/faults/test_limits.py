# SPDX-License-Identifier: Apache-2.0
"""Limits of the system: a run that does not fit is refused in one line before it maps anything large, and never dies of a signal; quotas of
processor time set the number of threads."""
import json
import os
import pathlib
import re
import resource
import shutil
import statistics
import tempfile
import unittest

from bascule_run import DEMO_MODEL, FolderTest, digest, is_sanitized, run, settings, run_ok

MEMORY, DISK = 4, 6
MIB = 1 << 20
LARGER = {"model__model_name_or_path": f'"{DEMO_MODEL}"'}


class ControlGroup:
    """A group of version 1 with a group inside, in which commands can be started; `files` are set in the outer one."""

    def __init__(self, controller, **files):
        mounts = [line.split() for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        points = [fields[1] for fields in mounts if fields[2] == "cgroup" and controller in fields[3].split(",")]
        if not points:
            raise unittest.SkipTest(f"no control groups of version 1 for {controller} here")
        self.outer = pathlib.Path(points[0], f"bascule-test-{os.getpid()}")
        self.inner = self.outer / "inner"
        try:
            self.inner.mkdir(parents=True)
            for name, value in files.items():
                (self.outer / f"{controller}.{name}").write_text(str(value))
        except OSError as error:
            self.remove()
            raise unittest.SkipTest(f"control groups may not be made here: {error}") from error

    def enter(self):
        (self.inner / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for folder in (self.inner, self.outer):
            if folder.exists():
                folder.rmdir()


class Limits(FolderTest):
    NO_THREAD = "threads: one cannot be started: Resource temporarily unavailable; allow more of them (ulimit -u, or pids.max of the control group) or more memory (ulimit -v), or use fewer"

    def group(self, controller, **files):
        group = ControlGroup(controller, **files)
        self.addCleanup(group.remove)
        return group

    def refused(self, done, *words):
        self.assertEqual(done.returncode, MEMORY, done.stderr)
        errors = [line for line in done.stderr.splitlines() if re.search("would fit|no batch size fits|cannot map", line)]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertEqual(errors[0], done.stderr.splitlines()[-1])
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn("seal:", done.stderr)

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_address_space(self):
        """At every limit a run is refused in one line or runs to its end; below the first, the program itself cannot be loaded."""
        ended = []
        for mib in (160, 220, 280, 340, 400, 500, 700, 1000, 2000):
            limit = mib * MIB
            done = run("run", settings(self.folder, training__max_steps="2", training__save_steps="0", data__dataloader_num_workers="2"),
                       preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
            if done.returncode != 127:
                ended.append(done.returncode)
                if done.returncode != 0:
                    self.refused(done)
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.assertEqual(ended, sorted(ended, reverse=True))  # refused first, then never more
        self.assertIn(0, ended)
        self.assertIn(MEMORY, ended)

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_address_space_is_named_with_what_it_needs(self):
        done = run("run", settings(self.folder, **LARGER, training__per_device_train_batch_size="64", machine__threads="1"),
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (400 * MIB, 400 * MIB)))
        self.refused(done, "run.toml: a process needs ", " of address space, but RLIMIT_AS (ulimit -v) allows 400 MiB")

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_data(self):
        for mib in (60, 120, 1000):
            limit = mib * MIB
            done = run("run", settings(self.folder, training__max_steps="2", training__save_steps="0"),
                       preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
            if mib == 1000:
                self.assertEqual(done.returncode, 0, done.stderr)
            elif done.returncode != 127:
                self.refused(done)

    @unittest.skipIf(is_sanitized(), "a sanitizer needs open files of its own")
    def test_open_files(self):
        """At every limit the last line says what to do, or the run comes to its end; below the first, the program itself cannot be loaded."""
        for files in range(3, 64):
            done = run("run", settings(self.folder, training__max_steps="1", training__save_steps="0", machine__threads="1", data__dataloader_num_workers="1"),
                       preexec_fn=lambda limit=files: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            if done.returncode == 0:
                break
            if done.returncode != 127:
                self.assertRegex(done.stderr.splitlines()[-1], r"Too many open files; raise the limit of open files \(ulimit -n\)")
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_file_sizes(self):
        """A run needs files: those in memory, then its own. Whatever is too large, the limit is named."""
        codes = set()
        for kib in (0, 8, 64, 2048, 65536):
            done = run("run", settings(self.folder, training__max_steps="2", training__save_steps="1"),
                       preexec_fn=lambda limit=kib << 10: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            codes.add(done.returncode)
            if done.returncode != 0:
                self.assertIn("File too large; raise the limit of file sizes (ulimit -f)", done.stderr.splitlines()[-1])
                self.assertNotIn("cannot make 0 ", done.stderr)
            shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.assertEqual(codes, {0, MEMORY, DISK})

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_the_stack_is_looked_at_before_anything_is_done(self):
        """With a little less than is asked for, the program itself works: the least is on the safe side."""
        def done(kib):
            return run("run", settings(self.folder, training__max_steps="2"), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (kib << 10, resource.RLIM_INFINITY)))
        for kib in (64, 255):
            refused = done(kib)
            self.assertEqual((refused.returncode, refused.stderr), (MEMORY, f"bascule: ulimit -s: the stack may have only {kib} KiB, too little for Bascule; allow 256 KiB or more\n"))
        self.assertFalse((self.folder / "run").exists())
        self.assertEqual(done(256).returncode, 0)

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_a_thread_that_cannot_be_started(self):
        """Neither the first nor a later one, whose elder ones wait for work. A stack that does not fit fails as a limit of processes does, which does not hold for root."""
        for stack in (1000 * MIB, 4000 * MIB):
            def limit(stack=stack):
                resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.RLIM_INFINITY))
                resource.setrlimit(resource.RLIMIT_AS, (1700 * MIB, 1700 * MIB))
            done = run("verify", "--bits", "--threads", 8, preexec_fn=limit)
            self.assertEqual((done.returncode, done.stderr), (MEMORY, f"bascule: {self.NO_THREAD}\n"))

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_a_control_group_above_the_own_one_limits_memory(self):
        group = self.group("memory", limit_in_bytes=100 * MIB)
        done = run("run", settings(self.folder, **LARGER), preexec_fn=group.enter)
        self.refused(done, f"{group.outer.name}/memory.limit_in_bytes allows 100 MiB")

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_more_than_a_control_group_has_cannot_be_asked_for(self):
        group = self.group("memory", limit_in_bytes=100 * MIB)
        self.refused(run("run", settings(self.folder, **LARGER, machine__memory_limit_gib="50.0"), preexec_fn=group.enter), " allows 100 MiB")

    def test_a_quota_of_processor_time_sets_the_threads(self):
        group = self.group("cpu", cfs_quota_us=60_000)
        done = run_ok("run", settings(self.folder, training__max_steps="2"), preexec_fn=group.enter)
        self.assertIn(", 1 thread;", done.stderr)

    def test_under_a_quota_the_threads_that_it_sets_are_faster_than_two_with_the_same_bits(self):
        group = self.group("cpu", cfs_quota_us=60_000)
        ratios, weights = [], set()

        def speed(threads):
            folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
            toml = settings(folder, training__max_steps="24", training__per_device_train_batch_size="16", training__save_steps="0", machine__threads=threads)
            run_ok("run", toml, preexec_fn=group.enter)
            weights.add(digest(folder / "run/model.safetensors"))
            return json.loads((folder / "run/train_results.json").read_text())["train_samples_per_second"]

        # 1.2 to 1.4 on a quiet machine. Other programs disturb single rounds, so that the median of several counts.
        while len(ratios) < 3 or (len(ratios) < 15 and statistics.median(ratios) <= 1.1):
            ratios.append(speed("0") / speed("2"))
        self.assertEqual(len(weights), 1)
        self.assertGreater(statistics.median(ratios), 1.1, ratios)

    def test_more_threads_than_cores_are_warned_of(self):
        cores = len(os.sched_getaffinity(0))
        done = run_ok("plan", settings(self.folder, machine__threads=str(cores + 1)))
        self.assertIn(f"{cores + 1} compute threads on {cores} core", done.stderr)
        self.assertNotIn("compute threads", run("plan", settings(self.folder)).stderr)

    def test_the_affinity_mask_sets_the_threads(self):
        core = min(os.sched_getaffinity(0))
        done = run_ok("run", settings(self.folder, training__max_steps="2"), preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        self.assertIn(", 1 thread;", done.stderr)
