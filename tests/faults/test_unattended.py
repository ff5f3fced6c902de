# SPDX-License-Identifier: Apache-2.0
"""A run as a service: what it tells systemd and when, the line before a hang ends it, status.json and bascule.prom, and the unit that `bascule plan --unit` writes."""
import itertools
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from bascule_run import PROGRAM, FolderTest, run, run_ok
from drawing import drawing
from rank_runs import preloaded
from small_run import DATA, ROWS, small_settings, write_rows


class Listener:
    """systemd's end of the socket."""
    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.told = []
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while (message := self.socket.recv(4096).decode()) != "end":
            self.told.append(message)

    def end(self):
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        sender.sendto(b"end", self.socket.getsockname())
        self.thread.join(10)
        sender.close()
        self.socket.close()
        return self.told


class Unattended(FolderTest):
    def service(self, toml, address, watchdog_seconds=None, **environment):
        listener = Listener(address.replace("@", "\0"))
        environment = {**os.environ, "NOTIFY_SOCKET": address, **environment}
        if watchdog_seconds is not None:
            environment["WATCHDOG_USEC"] = str(int(watchdog_seconds * 1e6))
        done = run("run", toml, env=environment)
        return done, listener.end()

    def test_systemd_hears_of_the_first_update_the_progress_and_the_end(self):
        for address in (str(self.folder / "notify"), f"@bascule-test-{os.getpid()}"):
            with self.subTest(address=address):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                done, told = self.service(small_settings(self.folder), address)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(told[0], r"^READY=1\nSTATUS=train: step 1 of 3, loss [0-9.]+, .* left\n$")
                self.assertEqual(told[-1], "STATUS=the run has finished\n", told)
                self.assertEqual(sum("READY=1" in message for message in told), 1)

    def test_a_run_with_nothing_left_to_do_is_ready_and_ends_well(self):
        for number, write in enumerate((small_settings, lambda folder: drawing(folder, num_inference_steps="1", batch_size="4", height="32", width="32"))):
            toml = write(self.folder)
            for ranks in ("", "distributed.world_size=2"):
                with self.subTest(number=number, ranks=ranks):
                    shutil.rmtree(self.folder / "run", ignore_errors=True)
                    command = [toml, *([ranks] if ranks else []), *(["training.per_device_train_batch_size=2"] if ranks and number == 0 else [])]
                    self.assertEqual(run("run", *command).returncode, 0)
                    listener = Listener(address := str(self.folder / f"notify-{number}{ranks}"))
                    done = run("run", *command, env={**os.environ, "NOTIFY_SOCKET": address})
                    self.assertIn("already finished", done.stderr)
                    self.assertEqual((done.returncode, listener.end()), (0, ["READY=1\nSTATUS=nothing is left to do\n"]))

    def test_a_run_that_an_error_ends_has_failed(self):
        rows = [dict(row) for row in ROWS]
        rows[5]["image"] = str(self.folder / "bad.jpg")
        (self.folder / "bad.jpg").write_bytes(b"no picture")
        for address in ("", str(self.folder / "notify")):  # with a supervisor, without
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            toml = small_settings(self.folder, data__train_file=write_rows(self.folder / "rows.jsonl", rows))
            done, told = self.service(toml, address) if address else (run("run", toml), [])
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(json.loads((self.folder / "run" / "status.json").read_text())["state"], "failed")
            self.assertIn("\nbascule_running 0\n", (self.folder / "run" / "bascule.prom").read_text())
            self.assertLessEqual(sum("READY=1" in message for message in told), 1)

    def test_an_evaluation_alone_is_ready_too(self):
        rows = write_rows(self.folder / "rows.jsonl", ROWS)
        done, told = self.service(small_settings(self.folder, training__do_train="false", data__validation_file=rows, training__max_steps=None), str(self.folder / "notify"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(told[0], r"^READY=1\nSTATUS=validation: batch 1 of ")

    def test_the_watchdog_hears_a_heart_that_beats(self):
        done, told = self.service(small_settings(self.folder, training__max_steps="3", machine__step_seconds="0.4"), str(self.folder / "notify"), 1.6)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(told.count("WATCHDOG=1\n"), 2)

    def test_a_run_that_draws_tells_of_calls_and_its_heart_beats(self):
        """One batch, so that no picture is there before the end."""
        toml = drawing(self.folder, num_inference_steps="100", batch_size="4", height="32", width="32", tables="[report]\nstatus_seconds = 0.01\n")
        done, told = self.service(toml, str(self.folder / "notify"), 0.2)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = [message for message in told if message != "WATCHDOG=1\n"]
        self.assertRegex(said[0], r"^READY=1\nSTATUS=draw: picture 0 of 4, call 1 of 101, .* left\n$")
        self.assertGreater(len({message for message in said if "picture 0 of 4, call" in message}), 3)
        self.assertGreaterEqual(len(told) - len(said), 1)

    def rows_with_a_stuck_picture(self, number):
        """A manifest, as a value of the settings; stuck_open.c never ends the opening of that row's picture."""
        picture = self.folder / ("stuck" + pathlib.Path(ROWS[number]["image"]).suffix)
        shutil.copy(DATA / "run_goldens" / ROWS[number]["image"], picture)
        return write_rows(self.folder / "rows.jsonl", [{**row, "image": str(picture)} if i == number else row for i, row in enumerate(ROWS)])

    def test_a_run_that_hangs_says_where_and_ends(self):
        cases = {"read": ({"data__train_file": self.rows_with_a_stuck_picture(5)}, {"LD_PRELOAD": preloaded("stuck_open")}, "waiting for data in update [1-4], row 6"),
                 "kernel": ({"machine__step_seconds": "600"}, {}, "during forward and backward in update 1, operation [0-9]+")}
        for case, (changes, environment, words) in cases.items():
            with self.subTest(case=case):
                shutil.rmtree(self.folder / "run", ignore_errors=True)
                done, told = self.service(small_settings(self.folder, **changes), str(self.folder / f"notify-{case}"), 2.0, **environment)
                self.assertEqual(done.returncode, 5, done.stderr)
                self.assertRegex(done.stderr.splitlines()[-1], f"has shown no sign of life .* {words}; run the same command again")

    def test_while_an_evaluation_runs_the_status_has_its_batches_and_the_update(self):
        """The evaluation after the second of three updates hangs at its last picture; the run leaves the status of then."""
        toml = small_settings(self.folder, data__validation_file=self.rows_with_a_stuck_picture(len(ROWS) - 1), training__eval_steps="2", training__per_device_eval_batch_size="1",
                              media_engine__queue_depth="1", report__status_seconds="0.001")
        done, _ = self.service(toml, str(self.folder / "notify"), 2.0, LD_PRELOAD=preloaded("stuck_open"))
        self.assertEqual(done.returncode, 5, done.stderr)
        status = json.loads((self.folder / "run" / "status.json").read_text())
        self.assertEqual((status["state"], status["phase"], status["total"], status["update"], status["updates"]), ("running", "validation", len(ROWS), 2, 3))
        self.assertTrue(0 < status["done"] < len(ROWS), status)
        self.assertGreater(status["seconds_left"], 0)
        trained = json.loads((self.folder / "run" / "log.jsonl").read_text().splitlines()[1])
        self.assertEqual((status["loss"], status["grad_norm"], status["epoch"]), (trained["loss"], trained["grad_norm"], trained["epoch"]))

    def test_a_finished_run_has_the_last_update_in_its_status_however_seldom_that_is_written(self):
        run_ok("run", small_settings(self.folder, report__status_seconds="3600"))
        status = json.loads((self.folder / "run" / "status.json").read_text())
        last = json.loads((self.folder / "run" / "log.jsonl").read_text().splitlines()[-1])
        self.assertEqual((status["state"], status["update"], status["updates"], status["done"], status["total"]), ("finished", 3, 3, 3, 3))
        self.assertEqual((status["loss"], status["grad_norm"], status["seconds_left"]), (last["loss"], last["grad_norm"], 0))

    def test_status_files_are_whole_and_agree_with_the_run(self):
        run_ok("run", small_settings(self.folder, report__status_seconds="0.001"))
        status = json.loads((self.folder / "run" / "status.json").read_text())
        self.assertEqual((status["state"], status["update"], status["updates"]), ("finished", 3, 3))
        last = json.loads((self.folder / "run" / "log.jsonl").read_text().splitlines()[-1])
        self.assertEqual((status["loss"], status["grad_norm"]), (last["loss"], last["grad_norm"]))
        metrics = (self.folder / "run" / "bascule.prom").read_text()
        self.assertIn("\nbascule_updates_total 3\n", metrics)
        self.assertIn("\nbascule_running 0\n", metrics)
        self.assertEqual([name for name in os.listdir(self.folder / "run") if name.startswith(".tmp")], [])
        if shutil.which("promtool") is None:
            self.skipTest("promtool is not installed (Debian's package prometheus)")
        checked = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, check=False)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_without_a_time_there_are_no_status_files(self):
        self.assertEqual(run("run", small_settings(self.folder, report__status_seconds="0")).returncode, 0)
        self.assertFalse((self.folder / "run" / "status.json").exists())

    def test_errors_have_a_priority_in_the_journal_alone(self):
        rows = [{**row, "image": str(self.folder / "bad.jpg")} if i % 2 == 0 else row for i, row in enumerate(ROWS)]
        (self.folder / "bad.jpg").write_bytes(b"no picture")
        bad_pictures = small_settings(self.folder, data__train_file=write_rows(self.folder / "rows.jsonl", rows), training__per_device_train_batch_size="2")
        for is_journal, (toml, ranks, code) in itertools.product((True, False), ((self.folder / "none.toml", 1, 2), (bad_pictures, 1, 3), (bad_pictures, 2, 3))):
            reader, writer = os.pipe()
            facts = os.fstat(writer)
            stream = f"{facts.st_dev}:{facts.st_ino}" if is_journal else "1:2"
            with self.subTest(is_journal=is_journal, ranks=ranks):
                done = subprocess.run([str(PROGRAM), "run", str(toml), f"distributed.world_size={ranks}"], stderr=writer, env={**os.environ, "JOURNAL_STREAM": stream}, check=False)
                os.close(writer)
                with os.fdopen(reader) as text:
                    errors = [line for line in text.read().splitlines() if re.match("(<3>)?bascule: (rank [01]: )?/", line)]
                self.assertEqual(len(errors), 1, errors)
                self.assertEqual(errors[0].startswith("<3>"), is_journal, errors)
                self.assertEqual(done.returncode, code)

    def unit(self, **changes):
        toml = small_settings(self.folder, **changes)
        done = run_ok("plan", "--json", "--unit", self.folder / "bascule.service", toml)
        return json.loads(done.stdout), (self.folder / "bascule.service").read_text()

    def test_the_unit_is_made_from_the_plan(self):
        plan, text = self.unit(distributed__timeout_seconds="30")
        self.assertEqual(int(re.search(r"^MemoryMax=(\d+)$", text, re.M)[1]), int(1.03 * plan["peak_bytes"] + (64 << 20)))
        self.assertIn("\nWatchdogSec=41\n", text)
        self.assertIn("\nMemoryDenyWriteExecute=yes\n", text)
        self.assertIn(f'\nExecStart="{PROGRAM}" run "{self.folder}/run.toml"\n', text)
        self.assertIn(f"\nBindPaths=%S/bascule-run:{self.folder}/run\n", text)

    @unittest.skipUnless(str(pathlib.Path.home()).startswith(("/home/", "/root")), "the home folder is elsewhere")
    def test_the_unit_lets_the_run_read_pictures_that_lie_elsewhere_than_their_rows(self):
        home = tempfile.TemporaryDirectory(dir=pathlib.Path.home())
        self.addCleanup(home.cleanup)
        there = pathlib.Path(home.name, pathlib.Path(ROWS[0]["image"]).name)
        shutil.copy(DATA / "run_goldens" / ROWS[0]["image"], there)
        of_program = str(PROGRAM).startswith(("/home/", "/root/"))  # and of model and tokenizer
        for image, has_home in ((there, True), (DATA / "run_goldens" / ROWS[0]["image"], of_program)):
            text = self.unit(data__train_file=write_rows(self.folder / "rows.jsonl", [{**ROWS[0], "image": str(image)}, *ROWS[1:]]))[1]
            self.assertIn("\nProtectHome=" + ("read-only" if has_home else "yes") + "\n", text)

    def test_the_unit_warns_of_what_the_user_of_the_service_may_not_read(self):
        toml, open_folder = small_settings(self.folder), self.folder / "open"
        open_folder.mkdir(mode=0o755)
        toml = toml.rename(open_folder / "run.toml")
        warned = []
        for folder_mode, file_mode in ((0o755, 0o644), (0o700, 0o644), (0o755, 0o600)):
            self.folder.chmod(folder_mode)
            toml.chmod(file_mode)
            done = run_ok("plan", "--unit", self.folder / "bascule.service", toml)
            warned.append([path for path in re.findall(r"^bascule: warning: --unit: (\S+): ", done.stderr, re.M) if path.startswith(str(self.folder))])
        self.assertEqual(warned, [[], [str(self.folder)], [str(toml)]])

    @unittest.skipIf(shutil.which("systemd-analyze") is None, "systemd-analyze is not installed (Debian's package systemd)")
    def test_systemd_has_nothing_to_say_about_the_unit(self):
        for ranks, most in (("1", 0.5), ("2", 0.8)):
            with self.subTest(ranks=ranks):
                self.unit(distributed__world_size=ranks, training__per_device_train_batch_size="2")
                verified = subprocess.run(["systemd-analyze", "verify", str(self.folder / "bascule.service")], capture_output=True, text=True, check=False)
                self.assertEqual((verified.returncode, verified.stdout + verified.stderr), (0, ""))
                security = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", str(self.folder / "bascule.service")], capture_output=True, text=True, check=False)
                level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", security.stdout)
                self.assertLessEqual(float(level[1]), most, security.stdout)
