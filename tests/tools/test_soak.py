# SPDX-License-Identifier: Apache-2.0
"""tools/soak: its runs are decided by a seed, cover every family and fault, are made once, and do not pass with other bits, a wrong exit code or leftovers."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

from tool_modules import ROOT, load

SEED = 20261126
# Arguments: the test's folder, and one in it. Prints which of its files are left when a file system was mounted over that one.
MOUNTS = """import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import test_soak
folder = pathlib.Path(sys.argv[2])
test_soak.soak.ROOT = folder / "tree"
os.environ["BASCULE_BUILD_DIR"] = str(folder / "built elsewhere")
test_soak.soak.mount(folder, 1)
print(*sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()), sep=", ")
"""
soak = load("soak")
NAMES = sorted(soak.families())


def scenarios(seed, count=200):
    return [soak.Scenario(seed, number, NAMES) for number in range(count)]


def options(**changes):
    return types.SimpleNamespace(**{"seed": SEED, "results": None, "seconds": 0.0, "json": True, **changes})


def stand_in(outcomes, wrong=""):
    """in_namespaces() without a run: the outcome of an unbroken one, then those of the others."""
    found = iter(outcomes)
    return lambda **request: {"starts": ["none: 0"], "wrong": "" if request.get("unbroken") else wrong, "outcome": next(found), "seconds": 1.0}


class Soak(unittest.TestCase):
    def test_a_seed_decides_families_faults_and_instants(self):
        decided = [[(one.family, one.faults, one.draw.random()) for one in scenarios(seed)] for seed in (SEED, SEED, SEED + 1)]
        self.assertEqual(decided[0], decided[1])
        self.assertNotEqual(decided[0], decided[2])

    def test_two_hundred_runs_meet_every_fault_in_every_family(self):
        made = scenarios(SEED)
        self.assertEqual({one.family for one in made}, set(NAMES))
        for fault in soak.CODES:
            self.assertEqual(sum(one.faults[0] == fault for one in made), 200 // len(soak.CODES))
        self.assertTrue(all(soak.has_ranks(one.family) for one in made if "lost rank" in one.faults))
        self.assertLessEqual(max(len(one.faults) for one in made), 3)

    def test_a_run_with_other_bits_does_not_pass(self):
        whole = {"results": ["a"], "steps": [[1, "b"]]}
        for other, words in ((whole, ""), ({"results": ["a"], "steps": [[1, "c"]]}, "other bits than those of an unbroken run: steps")):
            with unittest.mock.patch.object(soak, "in_namespaces", stand_in([whole, other])):
                self.assertEqual(soak.Soak(options()).one(0)["wrong"], words)

    def test_recorded_runs_are_not_repeated_and_the_table_counts_those_that_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            results = pathlib.Path(folder) / "results.jsonl"
            with unittest.mock.patch.object(soak, "in_namespaces", stand_in([{}] * 4)):
                self.assertEqual(len(soak.Soak(options(results=results)).run(range(2))), 2)
            with unittest.mock.patch.object(soak, "in_namespaces", stand_in([{}, {}], wrong="left: /tmp/x")):
                made = soak.Soak(options(results=results)).run(range(3))
            self.assertEqual([bool(one["wrong"]) for one in made], [False, False, True])
            self.assertEqual(len(results.read_text().splitlines()), 3)
            self.assertIn("2 of 3 passed, 3 made", soak.table(made, 3))
            self.assertEqual(soak.Soak(options(results=results, seed=1)).done, {})

    def test_what_a_run_leaves_is_named(self):
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            output = pathlib.Path(folder)
            (output / "checkpoint-3").mkdir()
            for name in (".tmp-bascule-x", "checkpoint-3/.tmp-y", ".tokens-1", "model.safetensors"):
                (output / name).touch()
            found = soak.leftovers(output)
            self.assertEqual(sorted(path for path in found if path.startswith(folder) and path != folder), [f"{folder}/.tmp-bascule-x", f"{folder}/checkpoint-3/.tmp-y"])
            self.assertIn(folder, found)  # of /tmp
            with unittest.mock.patch.object(soak, "kept", lambda: [output / "tree", output / "tree/build"]):
                self.assertNotIn(folder, soak.leftovers(output))  # it holds the tree

    def needs_namespaces(self):
        if subprocess.run([*soak.NAMESPACES, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces here")

    def test_a_tree_and_a_build_folder_below_a_new_file_system_stay_visible(self):
        self.needs_namespaces()
        with tempfile.TemporaryDirectory() as temporary:
            for name in ("tree/tools/x", "built elsewhere/y", "z"):
                path = pathlib.Path(temporary, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            command = [*soak.NAMESPACES, sys.executable, "-c", MOUNTS, str(pathlib.Path(__file__).parent), temporary]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout, done.stderr), ("built elsewhere/y, tree/tools/x\n", ""))

    def test_a_run_passes(self):
        """One that a killed rank ends."""
        self.needs_namespaces()
        done = subprocess.run([sys.executable, ROOT / "tools/soak", "--only", "5", "--json"], capture_output=True, text=True, check=False, env=os.environ)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual((document["runs"], document["passed"]), (1, 1))
        self.assertEqual([one["faults"][0] for one in document["results"]], ["lost rank"])
