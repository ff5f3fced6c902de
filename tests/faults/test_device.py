# SPDX-License-Identifier: Apache-2.0
"""A whole run on the simulated device: the host engine's parameters, bit for bit, whatever goes wrong; counted and said."""
import json
import pathlib
import tempfile
import unittest

import bascule_run
from bascule_run import digest, run, settings

HOST_PROGRAM = bascule_run.PROGRAM
DEVICE_PROGRAM = HOST_PROGRAM.parent / "tests" / "bascule_hpu_sim"
SIMULATION = "media_engine.simulation__"


class Device(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(setattr, bascule_run, "PROGRAM", HOST_PROGRAM)

    def finished(self, name, program, **changes):
        """The result of a run in a folder of its own, its parameters, and its results."""
        bascule_run.PROGRAM = program
        folder = pathlib.Path(self.folder.name) / name
        folder.mkdir()
        done = run("run", settings(folder, **changes))
        results = folder / "run" / "all_results.json"
        if done.returncode != 0:
            return done, None, None
        return done, digest(folder / "run" / "model.safetensors"), json.loads(results.read_text())

    def test_changes_no_bit_under_faults_and_when_it_goes(self):
        _, expected, results = self.finished("host", HOST_PROGRAM)
        self.assertFalse([key for key in results if key.startswith("media_engine")])
        for name, faults, timeout_ms, workers in (
                ("sound", [], 60000, 1), ("twice", ["duplicated_completion:0.1"], 60000, 2),
                ("faulty", ["short_dma:0.1", "surprise_reset:0.05", "corrupted_completion:0.1", "stalled_unit@9"], 200, 2),
                ("alone", ["lost_doorbell:0.2", "decode_error:0.2"], 60000, 0)):
            with self.subTest(name):
                done, digest_of_run, results = self.finished(name, DEVICE_PROGRAM, **{
                    SIMULATION + "faults": json.dumps(faults), SIMULATION + "timeout_ms": str(timeout_ms),
                    SIMULATION + "pictures_per_second": "500", "data__dataloader_num_workers": str(workers)})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(digest_of_run, expected)
                self.assertEqual(results["media_engine_fallbacks"], 0)
                found = sum(value for key, value in results.items() if key.startswith("media_engine_fault_"))
                self.assertEqual(found > 0, bool(faults), results)
                self.assertIn("hpu_sim: ", done.stdout)
        for name, fault in (("gone", "device_gone@30"), ("unknown", "wrong_firmware@1")):
            with self.subTest(name):
                done, digest_of_run, results = self.finished(name, DEVICE_PROGRAM, **{SIMULATION + "faults": f'["{fault}"]'})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(digest_of_run, expected)
                self.assertEqual(results["media_engine_fallbacks"], 1)
                self.assertEqual(done.stderr.count("warning: media engine: "), 1, done.stderr)

    def test_ends_with_exit_3_and_one_line_where_there_is_no_fallback(self):
        for name, fault, words in (("gone", "device_gone@30", "the device does not respond"),
                                   ("unknown", "wrong_firmware@1", "the driver does not support the firmware version of the device")):
            with self.subTest(name):
                done, _, _ = self.finished(name, DEVICE_PROGRAM,
                                           **{SIMULATION + "faults": f'["{fault}"]', "media_engine__fallback": "false"})
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(words, done.stderr.splitlines()[-1])

    def test_is_refused_by_a_program_that_does_not_have_it(self):
        done, _, _ = self.finished("host", HOST_PROGRAM, **{SIMULATION + "units": "2"})
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"run\.toml:\d+:\d+: ")
        self.assertIn("-Dmedia_engine=hpu_sim", done.stderr)

    def test_is_named_by_version(self):
        bascule_run.PROGRAM = DEVICE_PROGRAM
        self.assertIn("media engine: hpu_sim", run("--version").stdout)
