# SPDX-License-Identifier: Apache-2.0
"""Contract 4: whatever kills the program, running the same command again goes on, and ends with the same bits.

BASCULE_KILLS sets how many runs are killed (3); each is killed and started again until it finishes. BASCULE_TEST_SEED repeats the instants.
"""
import fcntl
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from bascule_run import EMOJI, PROGRAM, digest, run, run_ok, run_until, settings

FILES = ("model.safetensors", "embeddings.safetensors")


def start(toml):
    def hear_hang_ups():  # a test under nohup would hand on that they are ignored, which the program keeps to
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    return subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                            preexec_fn=hear_hang_ups)


def long_run(folder):
    return settings(folder, training__max_steps="40", training__save_steps="4", training__per_device_train_batch_size="4",
                    training__gradient_accumulation_steps="2", data__test_file=f'"{pathlib.Path(__file__).resolve().parent.parent}/data/emoji-captions/test.jsonl"')


class KilledRuns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seed = int(os.environ.get("BASCULE_TEST_SEED", "20261121"))
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            run_ok("run", long_run(folder))
            cls.seconds = time.monotonic() - began
            cls.whole = [digest(pathlib.Path(folder) / "run" / name) for name in FILES]

    def test_end_with_the_bits_of_an_unbroken_run(self):
        draw = random.Random(self.seed)
        for kill in range(int(os.environ.get("BASCULE_KILLS", "3"))):
            with self.subTest(kill=kill, seed=self.seed), tempfile.TemporaryDirectory() as folder:
                toml = long_run(folder)
                process = start(toml)
                time.sleep(draw.uniform(0.0, self.seconds))
                process.kill()
                process.communicate()
                run_ok("run", toml)
                self.assertEqual(self.whole, [digest(pathlib.Path(folder) / "run" / name) for name in FILES])
                leftovers = [p.name for p in (pathlib.Path(folder) / "run").iterdir() if p.name.startswith(".tmp-")]
                self.assertEqual(leftovers, [])

    def test_a_folder_is_looked_at_once_its_last_process_has_ended(self):
        for ranks in ("1", "2"):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as folder:
                toml = settings(folder, training__max_steps="1", training__save_steps="0", distributed__world_size=ranks)
                half_removed = pathlib.Path(folder) / "run" / "checkpoint-7"  # by a process that is ending
                half_removed.mkdir(parents=True)
                (half_removed / "model.safetensors").write_bytes(b"")
                descriptor = os.open(half_removed.parent, os.O_RDONLY)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                process = start(toml)
                self.assertIn("another run is using this folder; waiting", process.stderr.readline())
                (half_removed / "model.safetensors").unlink()
                half_removed.rmdir()
                os.close(descriptor)
                self.assertEqual(process.wait(timeout=60), 0, process.stderr.read())
                process.stderr.close()

    def test_a_signal_saves_and_says_how_to_go_on(self):
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
            with self.subTest(signal=number), tempfile.TemporaryDirectory() as folder:
                toml = long_run(folder)
                process = start(toml)
                lines = []
                for line in process.stderr:
                    lines.append(line)
                    if "step" in line and "/40" in line:
                        process.send_signal(number)
                        break
                rest = process.communicate()[1]
                self.assertEqual(process.returncode, code, "".join(lines) + rest)
                self.assertIn("run the same command again to resume", rest)
                self.assertEqual(run("run", toml).returncode, 0)
                self.assertEqual(self.whole, [digest(pathlib.Path(folder) / "run" / name) for name in FILES])
                again = run_ok("run", toml)
                self.assertIn("already finished", again.stderr)

    def test_a_split_that_was_not_read_before_may_be_added(self):
        with tempfile.TemporaryDirectory() as folder:
            validation = f'"{EMOJI}/validation.jsonl"'
            toml = settings(folder, training__max_steps="40", data__validation_file=validation, training__do_eval="false")
            self.assertEqual(run_until("step.*/40", signal.SIGTERM, "run", toml)[0], 143)
            run_ok("run", settings(folder, training__max_steps="40", data__validation_file=validation))
            self.assertTrue((pathlib.Path(folder) / "run" / "validation_results.json").exists())
