# SPDX-License-Identifier: Apache-2.0
"""Contract 3, of what is not a kernel: results depend neither on the C library's mathematics, nor on what a library did to the floating-point environment, nor on the vector
instructions of the decoders of JPEG and WebP."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from bascule_run import PROGRAM, ROOT, digest, run
from rank_runs import preloaded
from small_run import ROWS, outcome, write_rows

# Those that IEEE 754 or the C standard defines to the bit (nearbyint and rint in the rounding mode that the program sets), and the state of the unit.
# Compilers differ in which of them they write out: clang calls floorf() and nan(), which marks a value that is missing.
EXACT = {"ceil", "fesetenv", "floor", "floorf", "fma", "fmod", "fmodf", "ldexp", "llround", "lround", "nan", "nearbyint", "nearbyintf", "rint", "round", "sqrt", "trunc"}
PICTURES = ROOT / "tests" / "data" / "images"


def functions_of(library):
    """The functions that a shared library gives to others, without versions."""
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def libraries_of(program):
    lines = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[0].split(".")[0]: line.split()[2] for line in lines if "=> /" in line}


class OneArithmetic(unittest.TestCase):
    def test_of_the_mathematical_library_only_exact_functions_are_called(self):
        lines = subprocess.run(["nm", "-D", "--undefined-only", PROGRAM], capture_output=True, text=True, check=True).stdout.splitlines()
        wanted = {line.split()[-1].split("@")[0] for line in lines}
        mathematics = wanted & functions_of(libraries_of(PROGRAM)["libm"])
        self.assertIn("sqrt", mathematics)
        self.assertEqual(mathematics - EXACT, set())

    def test_the_c_library_s_choice_of_code_and_fast_mathematics_change_nothing(self):
        environments = {"": {}, "of a CPU without AVX2 and FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA"},
                        "of fast mathematics": {"LD_PRELOAD": preloaded("fast_math")}}
        for model, head in (("itc_add", "contrastive"), ("mlm_tied", "masked_lm")):
            found = {}
            for name, environment in environments.items():
                with tempfile.TemporaryDirectory() as folder:
                    rows = write_rows(pathlib.Path(folder) / "validation.jsonl", ROWS)
                    found[name] = outcome(folder, model, lambda *a, e=environment: run(*a, env={**os.environ, **e}), model__head=f'"{head}"', model__from_scratch="true",
                                          model__dropout='"config"', training__lr_scheduler_type='"cosine"', data__validation_file=rows, data__dataloader_num_workers="1",
                                          machine__threads="2")
                self.assertEqual(found[name]["exit"], 0, found[name]["stderr"])
                self.assertNotIn("cannot be preloaded", found[name].pop("stderr"))
                self.assertIn("validation_results.json: eval_loss", found[name]["evaluation"])
                self.assertEqual(found[name], found[""], f"{model}, the state {name}")

    def test_pixels_are_the_same_without_the_decoders_vector_instructions(self):
        files = sorted(path for path in PICTURES.glob("*/*") if "bomb" not in path.name and path.suffix != ".json")
        self.assertGreater(len(files), 300)
        for preprocessing in ("training", "processor"):
            for size in (32, 224):  # decoded to a fraction of their size, and not
                digests, answers = set(), set()
                for changes in ({}, {"JSIMD_FORCENONE": "1", "LD_PRELOAD": preloaded("plain_webp")}, {"JSIMD_FORCESSE2": "1"}):
                    with self.subTest(preprocessing=preprocessing, size=size, changes=changes), tempfile.TemporaryDirectory() as folder:
                        pixels = pathlib.Path(folder) / "pixels.safetensors"
                        done = run("decode", "--preprocessing", preprocessing, "--size", size, "--output", pixels, *files, env={**os.environ, **changes})
                        self.assertEqual("libwebp: plain C" in done.stderr, "LD_PRELOAD" in changes)
                        self.assertGreater(done.stdout.count('"ok":true'), 200, done.stderr)
                        digests.add(digest(pixels))
                        answers.add(done.stdout)
                self.assertEqual((len(digests), len(answers)), (1, 1))
