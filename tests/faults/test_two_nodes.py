# SPDX-License-Identifier: Apache-2.0
"""Where the memory of a run lies on a machine with two memory nodes: qemu emulates one, and the kernel says where every page of each rank is while it trains.

The kernel is the one that `make image` downloads; BASCULE_TEST_KERNEL names another.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from bascule_run import PROGRAM, ROOT, is_sanitized, patient

sys.path.insert(0, str(ROOT / "tools" / "packaging"))
import archives  # noqa: E402

PAGE_BYTES, PAGES_OF_MIB, PAGES_OF_LARGE, WEIGHT_BYTES = 4096, 256, 512, 4
COMMAND_LINE = "console=ttyS0 quiet panic=-1 no_timer_check two_nodes.does="  # as tools/packaging/emulated.py has it


def kernel():
    """A kernel for qemu, or None."""
    named = os.environ.get("BASCULE_TEST_KERNEL")
    found = [pathlib.Path(named)] if named else sorted(ROOT.glob("build-image/kernel/*/boot/vmlinuz-*")) + sorted(pathlib.Path("/boot").glob("vmlinuz-*"))
    return next((path for path in found if os.access(path, os.R_OK)), None)


def settings(folder, ranks):
    values = {"model": {"model_name_or_path": "/model", "tokenizer_name": "/tokenizer", "head": "masked_lm", "from_scratch": True},
              "data": {"train_file": "/texts.txt", "validation_file": "/texts.txt", "max_seq_length": 16, "dataloader_num_workers": 1},
              "training": {"output_dir": f"/tmp/{ranks}", "max_steps": 1000, "per_device_train_batch_size": 2, "per_device_eval_batch_size": 512, "logging_steps": 1, "save_steps": 0},
              "distributed": {"world_size": ranks}}
    text = "".join(f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()) for table, keys in values.items())
    (folder / f"{ranks}.toml").write_text(text)


def make_root(root):
    """What the machine needs: the program with its libraries, a model whose many positions cost memory and no time, a few texts."""
    for folder in ("bin", "dev", "model", "proc", "sys", "tmp"):
        (root / folder).mkdir(parents=True)
    shutil.copy(PROGRAM, root / "bin/bascule")
    subprocess.run(["strip", root / "bin/bascule"], check=True)
    for path in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
        (root / path[1:]).chmod(0o755)
    subprocess.run(["cc", "-O1", "-static", "-o", root / "init", ROOT / "tests/faults/two_nodes.c"], check=True)
    data = ROOT / "tests/data"
    config = json.loads((data / "text-corpus/model/config.json").read_text())
    (root / "model/config.json").write_text(json.dumps({**config, "num_hidden_layers": 2, "max_position_embeddings": 40000}))
    shutil.copytree(data / "tokenizer/wordpiece", root / "tokenizer")
    (root / "texts.txt").write_text("".join((data / "text-corpus/train.txt").read_text().splitlines(keepends=True)[:700]))
    for ranks in (1, 2):
        settings(root, ranks)


class Mapping:
    """A line of /proc/PID/numa_maps."""

    def __init__(self, line):
        words = line.split()
        self.policy = words[1]
        self.pages = [sum(int(word.split("=")[1]) for word in words if word.startswith(f"N{node}=")) for node in (0, 1)]
        file = next((word.split("=")[1] for word in words if word.startswith("file=")), "")
        self.is_private, self.is_shared = not file, "memfd:bascule" in file


def sum_of(mappings):
    """Pages at each node."""
    pages = [one.pages for one in mappings]
    return [sum(of_nodes[node] for of_nodes in pages) for node in (0, 1)]


class TwoNodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if is_sanitized():
            raise unittest.SkipTest("a sanitizer has memory of its own")
        for program in ("qemu-system-x86_64", "cc", "strip", "ldd"):
            if shutil.which(program) is None:
                raise unittest.SkipTest(f"{program} is not installed")
        if kernel() is None:
            raise unittest.SkipTest("there is no kernel: `make image` downloads one, BASCULE_TEST_KERNEL names one")
        with tempfile.TemporaryDirectory() as folder:
            cls.said = cls.boot(pathlib.Path(folder))
        cls.memory, cls.cores = collections.defaultdict(list), collections.defaultdict(list)
        for kind, ranks, rank, rest in re.findall(r"^(memory|thread) (\d) (\d) (.*?)\s*$", cls.said, re.M):
            if kind == "memory":
                cls.memory[int(ranks), int(rank)].append(Mapping(rest))
            else:
                cls.cores[int(ranks), int(rank)].append(rest.split()[-1])

    @staticmethod
    def boot(folder):
        make_root(folder / "root")
        archives.write_cpio(folder / "root", folder / "initramfs", 0)
        nodes = [word for node in (0, 1) for word in ("-object", f"memory-backend-ram,id=m{node},size=1G", "-numa", f"node,nodeid={node},memdev=m{node},cpus={2 * node}-{2 * node + 1}")]
        words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "2G", "-smp", "4", *nodes, "-numa", "dist,src=0,dst=1,val=21", "-display", "none", "-serial", "stdio",
                 "-monitor", "none", "-no-reboot", "-nic", "none", "-kernel", kernel(), "-initrd", folder / "initramfs", "-append", COMMAND_LINE + "21pb"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=patient(900), check=False)
        if not re.search(r"^done\s*$", done.stdout, re.M):
            raise AssertionError(f"the machine has ended early:\n{done.stdout[-4000:]}{done.stderr}")
        return done.stdout

    def test_private_memory_of_a_rank_lies_at_the_node_of_its_cores(self):
        for rank in (0, 1):
            pages = sum_of(one for one in self.memory[2, rank] if one.is_private)
            self.assertGreater(pages[rank], 16 * PAGES_OF_MIB)
            # Beside the stack of the watch, which starts before the ranks know their cores: a large page, wherever it ran.
            self.assertLessEqual(pages[1 - rank], 0.02 * sum(pages) + PAGES_OF_LARGE, pages)

    def test_weights_are_dealt_to_both_nodes(self):
        weights = WEIGHT_BYTES * self.parameters() / PAGE_BYTES
        for ranks in (1, 2):
            pages = sum_of(one for one in self.memory[ranks, 0] if one.policy == "interleave:0-1")
            self.assertGreaterEqual(sum(pages), weights - PAGES_OF_LARGE)
            self.assertTrue(0.45 * sum(pages) <= pages[0] <= 0.55 * sum(pages), pages)

    def test_gradients_and_moments_lie_at_the_rank_that_works_on_them(self):
        # Its gradients, and half of both moments.
        expected = 2 * WEIGHT_BYTES * self.parameters() / PAGE_BYTES
        for rank in (0, 1):
            pages = sum_of(one for one in self.memory[2, 0] if one.is_shared and one.policy == f"prefer:{rank}")
            self.assertLessEqual(abs(pages[rank] - expected), 4 * PAGES_OF_LARGE, (pages, expected))  # of each range, a half at both ends
            self.assertEqual(pages[1 - rank], 0)

    def test_threads_of_a_rank_and_its_loader_keep_to_its_cores(self):
        for rank, cores in enumerate(("0-1", "2-3")):
            found = collections.Counter(self.cores[2, rank])
            self.assertGreaterEqual(found[cores], 1, found)  # the loader's
            for core in cores.split("-"):
                self.assertGreaterEqual(found[core], 1, found)
            del found[cores], found[cores[0]], found[cores[-1]]
            self.assertEqual(found, {"0-3": 1})  # the watch, which sleeps

    def test_plan_and_bringup_propose_a_rank_for_each_node(self):
        self.assertIn("distributed.world_size = 2; it is 1 (one for each memory node", self.said)
        self.assertRegex(self.said, r"memory nodes: 2, distances 10 21; 21 10; cores read [\d.]+ GB/s of their own node's memory, [\d.]+ GB/s of another's")
        self.assertIn("ranks of a run here: 2 (one for each memory node", self.said)
        for node in (0, 1):
            self.assertRegex(self.said, rf"memory +read of memory node {node} +cores of node {1 - node} ")
        self.assertNotIn("cause remote memory", self.said)

    def parameters(self):
        return int(re.search(r"([\d,]+) parameters", self.said)[1].replace(",", ""))
