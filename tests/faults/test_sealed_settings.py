# SPDX-License-Identifier: Apache-2.0
"""A program with sealed settings (-Dstatic_config), here those of config/smoke.toml, of a run that draws, of one that classifies texts, and of a service: the run of the file, without the file, without toml++ and MPI."""
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import unittest

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, digest, is_sanitized, patient, run, run_ok
from drawing import copy_pipeline, pixels
from run_files import tensors
from serving import Served, has_parser

SEALED = PROGRAM.parent / "tests" / "bascule_sealed"
SEALED_DRAWING = PROGRAM.parent / "tests" / "bascule_sealed_drawing"
SEALED_CLASSES = PROGRAM.parent / "tests" / "bascule_sealed_classes"
SEALED_SERVICE = PROGRAM.parent / "tests" / "bascule_sealed_service"
CLASSES = ROOT / "tests" / "seal" / "classes.toml"
DRAWING = ROOT / "tools" / "packaging" / "small_draw.toml"
SERVICE = ROOT / "tests" / "seal" / "serve.toml"
SMOKE = ROOT / "config" / "smoke.toml"
SETTINGS, DATA, MEMORY, NOT_AS_RECORDED = 2, 3, 4, 7
SOONEST_SECONDS = 1.0


def sealed(program, *arguments, **options):
    return subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=patient(600), **options)


class SealedTree(FolderTest):
    """A tree with a sealed program in its bin."""

    built = SEALED

    def setUp(self):
        super().setUp()
        self.program = self.folder / "tree" / "bin" / "bascule"
        self.program.parent.mkdir(parents=True)
        shutil.copy(self.built, self.program)


class SealedSettings(SealedTree):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "tree" / "tests" / "data" / "emoji-captions"

    def add_data(self):
        self.data.parent.mkdir(parents=True)
        self.data.symlink_to(EMOJI)

    def assert_one_line(self, done, code, *words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_trains_to_the_bits_of_the_file_and_reads_no_settings_file(self):
        self.add_data()
        file_driven = self.folder / "file.toml"
        file_driven.write_text(SMOKE.read_text().replace("../tests", f"{ROOT}/tests").replace("../runs/smoke", str(self.folder / "run")))
        self.assertEqual(run("run", file_driven).returncode, 0)
        strace = not is_sanitized() and shutil.which("strace")  # the search for leaks traces the program itself
        trace = [strace, "-f", "-e", "trace=open,openat", "-o", str(self.folder / "trace")] if strace else []
        done = subprocess.run([*trace, str(self.program), "run"], capture_output=True, text=True, timeout=patient(600))
        self.assertEqual(done.returncode, 0, done.stderr)
        left, expected = self.folder / "tree" / "runs" / "smoke", self.folder / "run"
        self.assertEqual(digest(left / "model.safetensors"), digest(expected / "model.safetensors"))
        self.assertEqual(tensors(left / "embeddings.safetensors"), tensors(expected / "embeddings.safetensors"))
        if strace:
            self.assertNotIn(".toml", (self.folder / "trace").read_text())
        again = sealed(self.program, "run")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("already finished", again.stderr)

    def test_needs_neither_tomlplusplus_nor_mpi(self):
        libraries = subprocess.run(["ldd", str(SEALED)], capture_output=True, text=True, check=True).stdout
        self.assertIn("libjpeg", libraries)
        self.assertNotIn("toml", libraries)
        self.assertNotIn("mpi", libraries)
        self.assertIn("MPI: none", sealed(SEALED, "--version").stdout)

    def test_names_its_settings_and_refuses_others(self):
        toml = sealed(self.program, "settings").stdout
        self.assertEqual(toml, run("settings", SMOKE).stdout)
        version = sealed(self.program, "--version").stdout
        self.assertIn("settings: config/smoke.toml, digest ", version)
        self.assertIn(hashlib.sha256(toml.encode()).hexdigest(), version)
        known = version.split("digest ")[1].split()[0]
        for command in ("run", "plan", "doctor", "bench", "settings"):
            self.assert_one_line(sealed(self.program, command, SMOKE), SETTINGS, known, "unexpected settings file")
            self.assert_one_line(sealed(self.program, command, "training.seed=7"), SETTINGS, known, 'unexpected key "training.seed=7"')

    def test_plan_and_bench_need_no_file(self):
        self.add_data()
        self.assertEqual(sealed(self.program, "plan", "--json").stdout, run("plan", "--json", SMOKE).stdout)
        done = sealed(self.program, "bench", "--steps", "1", "--warmup", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("config/smoke.toml", done.stdout)

    def test_without_its_data_it_says_which_file_is_missing(self):
        self.assert_one_line(sealed(self.program, "run"), DATA, "emoji-captions/model: there is no such folder")

    def test_a_changed_byte_in_the_tree_is_refused_by_name(self):
        sums = hashlib.sha256(self.program.read_bytes()).hexdigest() + "  bin/bascule\n"
        (self.folder / "tree" / "SHA256SUMS").write_text(sums)
        self.assert_one_line(sealed(self.program, "run"), DATA, "there is no such folder")
        config = self.data / "model" / "config.json"
        config.parent.mkdir(parents=True)
        config.write_text("{")  # damaged: checked before it is read
        (self.folder / "tree" / "SHA256SUMS").write_text(f"{sums}{hashlib.sha256(b'{}').hexdigest()}  {config.relative_to(self.folder / 'tree')}\n")
        self.assert_one_line(sealed(self.program, "run"), NOT_AS_RECORDED, "config.json: is not the file that SHA256SUMS lists")
        with self.program.open("r+b") as program:
            program.seek(-1, os.SEEK_END)
            last = program.read(1)
            program.seek(-1, os.SEEK_END)
            program.write(bytes([last[0] ^ 1]))
        self.assert_one_line(sealed(self.program, "run"), NOT_AS_RECORDED, "bin/bascule: is not the file that SHA256SUMS lists")

    @unittest.skipIf(is_sanitized(), "a sanitizer needs more memory and address space than any such limit")
    def test_too_little_memory_is_one_line_within_a_second(self):
        self.add_data()
        began = time.monotonic()
        done = sealed("/bin/sh", "-c", f"ulimit -v 200000; exec {self.program} run")
        taken = time.monotonic() - began
        self.assertEqual(done.returncode, MEMORY, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if "ulimit" in line or "address" in line]), 1, done.stderr)
        self.assertLess(taken, SOONEST_SECONDS)
        self.assertFalse((self.folder / "tree" / "runs" / "smoke" / "checkpoint-4").exists())


class SealedDrawing(SealedTree):
    """The program of tools/packaging/small_draw.toml."""

    built = SEALED_DRAWING

    def setUp(self):
        super().setUp()
        copy_pipeline(self.folder / "tree" / "tests" / "data" / "goldens-families" / "sd_v1")

    def test_draws_the_bytes_of_the_file_and_repeats_them(self):
        left, expected = self.folder / "tree" / "runs" / "image", self.folder / "run"
        toml = self.folder / "file.toml"
        toml.write_text(DRAWING.read_text().replace("../../tests", f"{ROOT}/tests").replace("../../runs/image", str(expected)))
        self.assertEqual(run("run", toml).returncode, 0)
        done = sealed(self.program, "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name: pixels(path) for path in left.glob("*.png")}, {path.name: pixels(path) for path in expected.glob("*.png")})
        self.assertEqual(len(list(left.glob("*.png"))), 6)
        self.assertEqual((left / "report.html").read_text().count("data:image/png"), 6)
        self.assertEqual(json.loads((left / "all_results.json").read_text())["texts_encoded"], 3)  # one prompt comes twice; the negative prompt is empty
        self.assertIn('    draw.prompts = ["a cat", "a red heart", "a cat"]\n', (left / "README.md").read_text())
        self.assertEqual(run("diff", left, expected).returncode, 0)
        self.assertIn("already finished", sealed(self.program, "run").stderr)
        done = sealed(self.program, "reproduce", left)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("equal bits: 6 pictures are as recorded", done.stdout)

    def test_says_what_it_reads_and_which_file_is_missing(self):
        plan = sealed(self.program, "plan", "--json", "--inputs")
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertIn("../../tests/data/goldens-families/sd_v1/unet", [one["folder"] for one in json.loads(plan.stdout)["inputs"]])
        self.assertEqual(sealed(self.program, "settings").stdout, run("settings", DRAWING).stdout)
        (self.folder / "tree" / "tests" / "data" / "goldens-families" / "sd_v1" / "unet" / "config.json").unlink()
        done = sealed(self.program, "run")
        self.assertEqual(done.returncode, DATA, done.stderr)
        self.assertIn("unet/config.json", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class SealedClasses(SealedTree):
    """The program of tests/seal/classes.toml."""

    built = SEALED_CLASSES

    def test_trains_to_the_bits_of_the_file_and_classifies_with_them(self):
        data = self.folder / "tree" / "tests" / "data"
        data.parent.mkdir(parents=True)
        data.symlink_to(ROOT / "tests" / "data")
        left, expected = self.folder / "tree" / "runs" / "classes", self.folder / "run"
        toml = self.folder / "file.toml"
        toml.write_text(CLASSES.read_text().replace("../../tests", f"{ROOT}/tests").replace("../../runs/classes", str(expected)))
        self.assertEqual(run("run", toml).returncode, 0)
        done = sealed(self.program, "run")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("model.safetensors", "predictions.jsonl", "config.json"):
            self.assertEqual(digest(left / name), digest(expected / name), name)
        sources = [(store / "0" / (folder / ".mlflow-run").read_text().split()[0] / "tags" / "mlflow.source.name").read_text()
                   for folder, store in ((left, left.parent / "mlruns"), (expected, self.folder / "mlruns"))]
        self.assertEqual(sources, [str(self.program.resolve()), str(toml.resolve())])
        asked = [sealed(program, "classify", left, "melon", "--json").stdout for program in (self.program, PROGRAM)]
        self.assertEqual(asked[0], asked[1])
        self.assertEqual(len(json.loads(asked[0])["texts"]), 1)
        inputs = json.loads(sealed(self.program, "plan", "--json", "--inputs").stdout)["inputs"]
        self.assertIn({"folder": "tests/data/emoji-keywords", "files": ["train.jsonl"]}, inputs)


@unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
class SealedService(SealedTree):
    """The program of tests/seal/serve.toml."""

    built = SEALED_SERVICE

    def setUp(self):
        super().setUp()
        self.pipeline = copy_pipeline(self.folder / "tree" / "tests" / "data" / "goldens-families" / "sd_v1")

    def test_answers_as_the_file_says_and_keeps_its_contracts(self):
        drawn, served = self.folder / "drawn.png", self.folder / "served.png"
        run_ok("draw", self.pipeline, "a cat", "-o", drawn, "--steps", 2, "--seed", 7)
        with Served(None, sealed=self.program) as server, Served(SERVICE) as file_driven:
            status, headers, body = server.ask("/", {"inputs": "a cat", "parameters": {"seed": 7}})
            self.assertEqual(status, 200, body[:200])
            served.write_bytes(body)
            self.assertEqual(pixels(served), pixels(drawn))
            self.assertEqual(file_driven.ask("/", {"inputs": "a cat", "parameters": {"seed": 7}})[2], body)
            self.assertEqual(file_driven.ask("/ui")[2], server.ask("/ui")[2])
            self.assertEqual(file_driven.ask("/health")[1]["X-Bascule-Model"], headers["X-Bascule-Model"])
            code, out, error = server.end()
            self.assertEqual(code, 0, error)
            self.assertIn("Sealed          kept", out)
            self.assertIn("Memory          kept", out)

    def test_plans_and_refuses_others(self):
        self.assertEqual(sealed(self.program, "plan", "--json").stdout, run("plan", "--json", SERVICE).stdout)
        self.assertEqual(sealed(self.program, "settings").stdout, run("settings", SERVICE).stdout)
        unit = self.folder / "draws.service"
        self.assertEqual(sealed(self.program, "plan", "--unit", unit).returncode, 0)
        self.assertIn(f"ExecStart=\"{self.program}\" serve\n", unit.read_text())
        self.assertTrue((self.folder / "draws.socket").is_file())
        for word, said in ((SERVICE, "unexpected settings file"), ("serve.ui=false", "unexpected key")):
            done = sealed(self.program, "serve", word)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (SETTINGS, 1), done.stderr)
            self.assertIn(said, done.stderr)
        done = sealed(self.program, "run")
        self.assertEqual((done.returncode, "[serve] is for `bascule serve`" in done.stderr), (SETTINGS, True), done.stderr)
        (self.pipeline / "unet" / "config.json").unlink()
        done = sealed(self.program, "serve")
        self.assertEqual((done.returncode, done.stderr.count("\n"), "unet/config.json" in done.stderr), (DATA, 1, True), done.stderr)


class SealSettings(unittest.TestCase):
    """The program of the build."""

    def seal(self, text):
        with tempfile.TemporaryDirectory() as folder:
            toml = pathlib.Path(folder, "x.toml")
            toml.write_text(text)
            seal = next((PROGRAM.parent / "src" / "commands").glob("seal_settings"))
            done = subprocess.run([str(seal), str(toml), "x.toml", f"{folder}/out.cpp"], capture_output=True, text=True, timeout=patient(60))
            return done, os.path.exists(f"{folder}/out.cpp")

    def test_a_bad_file_stops_the_build_with_its_line(self):
        for text, place in (("[data]\nring_slots = 1\n", "x.toml:2:14: data.ring_slots = 1 is out of range"), ("[data\n", "x.toml:1:6"), ("", "x.toml: ")):
            done, has_written = self.seal(text)
            self.assertEqual(done.returncode, SETTINGS, done.stderr)
            self.assertIn(place, done.stderr)
            self.assertFalse(has_written)
