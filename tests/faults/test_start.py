# SPDX-License-Identifier: Apache-2.0
"""The start of a run: its phases are printed, large pages are used where there are some and missed in one line where not, and nobody waits for
a command that reads no weights."""
import ctypes
import json
import pathlib
import re
import resource
import time

from bascule_run import ROOT, FolderTest, digest, patient, run, settings, run_ok

LARGE = {
    "model_type": "bridgetower", "contrastive_hidden_size": 512, "logit_scale_init_value": 2.6592, "hidden_size": 1024, "num_hidden_layers": 6, "num_attention_heads": 16,
    "text_config": {"vocab_size": 50265, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    "vision_config": {"hidden_size": 1024, "num_hidden_layers": 24, "patch_size": 14, "image_size": 294},
}
PR_SET_THP_DISABLE = 41


def without_large_pages():
    """In a process that is to be the program: as a system that has no transparent huge pages."""
    ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)


def seconds(function):
    """Of a core that the started program used, the least of some tries: on a busy machine it waits for one as long again and longer."""
    times = []
    for _ in range(8):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        function()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


class Start(FolderTest):
    def train(self, name="run", preexec_fn=None, **changes):
        folder = self.folder / name
        folder.mkdir()
        done = run_ok("run", settings(folder, training__max_steps="1", **changes), preexec_fn=preexec_fn)
        return done.stderr.splitlines(), digest(folder / "run" / "model.safetensors")

    def test_the_phases_before_the_first_step_are_printed_and_add_up(self):
        began = time.perf_counter()
        lines, _ = self.train()
        whole = time.perf_counter() - began
        found = [line for line in lines if line.startswith("bascule: start: ")]
        self.assertEqual(len(found), 1, lines)
        self.assertLess(lines.index(found[0]), next(i for i, line in enumerate(lines) if "seal:" in line))
        total, phases = re.fullmatch(r"bascule: start: ([\d.]+) s: (.*)", found[0]).groups()
        phases = re.sub(r" \([^)]*\)", "", phases)
        parts = [re.fullmatch(r"([a-z, ]*[a-z]) ([\d.]+)", part).groups() for part in re.split(r"(?<=\d), ", phases)]
        self.assertEqual([name for name, _ in parts],
                         ["settings", "folder and ranks", "data and plan", "loader, threads and tapes", "memory and weights", "writers and logs"])
        self.assertAlmostEqual(sum(float(value) for _, value in parts), float(total), places=6)
        self.assertLess(float(total), whole)
        self.assertRegex(found[0], r"touched \d+ MiB in [\d.]+, initialised \d+ MiB in")

    def test_a_system_without_large_pages_is_said_once_and_gives_the_same_bits(self):
        _, bits = self.train()
        lines, same = self.train("without", without_large_pages)
        said = [line for line in lines if line.startswith("bascule: memory: ")]
        self.assertEqual(len(said), 1, lines)
        self.assertRegex(said[0], r"only \d+ of \d+ MiB are in large pages")
        self.assertEqual(same, bits)
        off, same = self.train("off", machine__huge_pages='"off"')
        self.assertEqual([line for line in off if "large pages" in line], [])  # none were wanted
        self.assertEqual(same, bits)

    def test_too_few_reserved_pages_are_said_in_one_line(self):
        pool = re.search(r"HugePages_Free: +(\d+)", pathlib.Path("/proc/meminfo").read_text())
        if pool and int(pool[1]) > 0:
            self.skipTest("this system has reserved pages")
        lines, _ = self.train(machine__huge_pages='"reserved"')
        self.assertEqual(len([line for line in lines if "the reserved large pages do not suffice (see vm.nr_hugepages)" in line]), 1, lines)

    def test_shared_memory_without_large_pages_is_said_once(self):
        lines, bits = self.train("two", without_large_pages, distributed__world_size="2")
        self.assertEqual(len([line for line in lines if line.startswith("bascule: shared memory: only 0 of ")]), 1, lines)
        self.assertEqual(self.train("two_with", distributed__world_size="2")[1], bits)

    def test_commands_that_read_no_weights_answer_at_once(self):
        bad = self.folder / "bad.toml"
        bad.write_text("[modell]\n")
        self.assertEqual(run("run", bad).returncode, 2)
        self.assertLess(seconds(lambda: run("--version")), patient(0.050))
        self.assertLess(seconds(lambda: run("run", bad)), patient(0.050))
        self.assertLess(seconds(lambda: run("plan", ROOT / "config" / "demo.toml")), patient(0.200))
        (self.folder / "model").mkdir()
        (self.folder / "model" / "config.json").write_text(json.dumps(LARGE))
        large = settings(self.folder, model__model_name_or_path=f'"{self.folder}/model"', machine__memory_limit_gib="1000.0")
        self.assertEqual(run("plan", large).returncode, 0)
        self.assertLess(seconds(lambda: run("plan", large)), patient(2.0))  # with what recomputation could save
