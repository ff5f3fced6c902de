# SPDX-License-Identifier: Apache-2.0
"""`bascule verify`: every reference case passes with every instruction set, on one thread and two; its exit code and its lines say which one does not."""
import json
import os
import pathlib
import shutil
import tempfile
import unittest

from bascule_run import ROOT, instruction_sets, run, run_ends

DATA = ROOT / "tests" / "data"
REFERENCE = pathlib.Path(os.environ.get("BASCULE_REFERENCE_DIR") or DATA)
GOLDENS = REFERENCE / "goldens"
FOLDERS = [GOLDENS, DATA / "more_goldens", *sorted(path for pattern in ("bert_*", "embed_*", "sd_*", "t5_*", "vit_*") for path in (REFERENCE / "goldens-families").glob(pattern))]


def machines(threads):
    """(instruction set, threads): the best one on each number of threads, every other one on one of them; scalar code takes ten times as long."""
    *others, best = instruction_sets()
    return [(best, count) for count in threads] + [(isa, threads[number % len(threads)]) for number, isa in enumerate(others)]


class Verify(unittest.TestCase):
    def test_passes_every_case(self):
        names = [name for folder in FOLDERS for name in sorted(path.parent.name for path in (*folder.glob("case.json"), *folder.glob("*/case.json")))]
        self.assertGreaterEqual(len(names), 12)
        first = None
        for isa, threads in machines((1, 2)):
            with self.subTest(isa=isa, threads=threads):
                done = run("verify", "--json", "--isa", isa, "--threads", threads, *FOLDERS)
                result = json.loads(done.stdout)
                first = first or result
                self.assertEqual(result, first, "the bits depend on instruction set or threads")
                failed = [f"{case['case']}: {tensor['name']}" for case in result["cases"] for tensor in case["tensors"] if not tensor["passed"]]
                self.assertEqual(failed, [])
                self.assertEqual((done.returncode, result["passed"]), (0, True))
                self.assertEqual([case["case"] for case in result["cases"]], names)
                for case in result["cases"]:
                    self.assertGreaterEqual(len(case["tensors"]), 20, case["case"])

    def test_passes_every_case_in_bf16(self):
        first = {}
        compiled = [isa for isa in instruction_sets() if isa != "scalar"]  # which has the bits of both in test_recorded_bits.py
        for isa, sums in [*((isa, "pairs") for isa in instruction_sets()), *((isa, "tiles") for isa in compiled)]:
            with self.subTest(isa=isa, sums=sums):
                done = run("verify", "--json", "--precision", "bf16", "--bf16-sums", sums, "--isa", isa, *FOLDERS)
                result = json.loads(done.stdout)
                self.assertEqual(result, first.setdefault(sums, result), "the bits depend on the instruction set")
                self.assertEqual((done.returncode, result["passed"]), (0, True), done.stdout)
                self.assertGreaterEqual(len(result["cases"]), 8)
                for case in result["cases"]:
                    measured = [tensor for tensor in case["tensors"] if "one_minus_cosine" in tensor]
                    self.assertGreater(len(measured), 5, case["case"])
                    for tensor in measured:
                        self.assertGreater(tensor["one_minus_cosine"], 0.0, f"{tensor['name']}: nothing was rounded")
        self.assertNotEqual(first["pairs"], first["tiles"])

    def test_fails_where_one_weight_of_one_case_is_another(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("base_model", "mlm_tied"):
                shutil.copytree(GOLDENS / name, f"{folder}/{name}")
            weights = pathlib.Path(folder) / "mlm_tied" / "model.safetensors"
            values = bytearray(weights.read_bytes())
            values[-1] ^= 1  # the exponent of a bfloat16: twice the value, or half of it
            weights.write_bytes(values)
            done = run_ends(3, "verify", "--threads", 1, folder)
            self.assertRegex(done.stdout, r"(?m)^passed base_model .*, 0 failed")
            self.assertRegex(done.stdout, r"(?m)^FAILED mlm_tied ")
            self.assertIn("  FAILED loss ", done.stdout)

    def test_the_bits_of_a_small_run_need_no_file_and_are_the_recorded_ones(self):
        with tempfile.TemporaryDirectory() as folder:
            best = instruction_sets()[-1]  # the others on two threads: test_recorded_bits.py
            for threads in (1, 3, 4):
                with self.subTest(threads=threads):
                    done = run("verify", "--bits", "--json", "--isa", best, "--threads", threads, cwd=folder)
                    result = json.loads(done.stdout)
                    self.assertEqual((done.returncode, result.pop("digest")), (0, result.pop("expected")))
                    self.assertEqual(result, {"passed": True, "isa": best, "threads": threads})
