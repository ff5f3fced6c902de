# SPDX-License-Identifier: Apache-2.0
"""training.gradient_checkpointing: the same bits with less memory, for every head and strategy and over a resume; and limits."""
import json
import re
import unittest

from bascule_run import FolderTest, digest, has_mpi, run, settings, run_ok
from rank_runs import STRATEGIES, some_rows

MEMORY = 4
CHECKPOINTINGS = ("off", "selective", "full", "fit")
HEADS = ("contrastive", "image_text_matching", "masked_lm")


def plan(folder, **changes):
    done = run("plan", settings(folder, **changes), "--json")
    return json.loads(done.stdout), done


class Recomputation(FolderTest):
    def middle(self, **changes):
        """A limit half way between nothing and everything recomputed, in GiB."""
        most, least = (plan(self.folder, training__gradient_checkpointing=f'"{word}"', **changes)[0]["peak_bytes"] for word in ("off", "full"))
        self.assertLess(least, most)
        return (most + least) / 2 / 2**30

    def weights(self, name, checkpointing, limit, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if checkpointing == "fit":
            changes["machine__memory_limit_gib"] = str(limit)
        done = run_ok("run", settings(folder, training__gradient_checkpointing=f'"{checkpointing}"', **changes))
        self.assertEqual(bool(re.search("recomputed in [1-9]", done.stderr)), checkpointing in ("full", "fit"), done.stderr)
        return digest(folder / "run" / "model.safetensors")

    def flos(self, name):
        return json.loads((self.folder / name / "run" / "all_results.json").read_text())["total_flos"]

    def test_the_same_bits_for_every_head_with_dropout_and_accumulation(self):
        for head in HEADS:
            for precision in ("float32", "bf16"):
                changes = {"model__head": f'"{head}"', "model__precision": f'"{precision}"', "model__dropout": '"config"', "training__max_steps": "4",
                           "training__save_steps": "0", "training__gradient_accumulation_steps": "2", "data__train_file": some_rows(self.folder, 13)}
                limit = self.middle(**changes)
                found = {word: self.weights(f"{head} {precision} {word}", word, limit, **changes) for word in CHECKPOINTINGS}
                self.assertEqual(len(set(found.values())), 1, found)
                self.assertEqual(len({self.flos(f"{head} {precision} {word}") for word in CHECKPOINTINGS}), 1, "operations that are repeated count once")

    @unittest.skipUnless(has_mpi(), "this build has no MPI")
    def test_the_same_bits_with_every_strategy(self):
        changes = {"training__max_steps": "3", "training__save_steps": "0", "training__per_device_train_batch_size": "12", "distributed__world_size": "2"}
        found = {}
        for name in ("fast_ddp", "ddp1", "stage1", "stage2", "stage3"):
            strategy = {**changes, **STRATEGIES[name]}
            limit = self.middle(**strategy)
            for word in CHECKPOINTINGS if name in ("fast_ddp", "stage2") else ("full",):
                found[name, word] = self.weights(f"{name} {word}", word, limit, **strategy)
        self.assertEqual(len(set(found.values())), 1, found)

    def test_a_run_goes_on_with_another_choice(self):
        whole = self.weights("whole", "off", 0, training__max_steps="6", training__save_steps="2")
        for steps, word in (("2", "full"), ("3", "selective"), ("4", "off"), ("6", "fit")):
            changes = {"training__max_steps": steps, "training__lr_schedule_steps": "6", "training__save_steps": "2"}
            parts = self.weights("parts", word, self.middle(**changes), **changes)
        self.assertEqual(parts, whole)

    def test_fit_recomputes_only_what_a_limit_asks_for(self):
        off = plan(self.folder, training__gradient_checkpointing='"off"')[0]["peak_bytes"]
        full = plan(self.folder, training__gradient_checkpointing='"full"')[0]["peak_bytes"]
        without = plan(self.folder, training__gradient_checkpointing='"fit"')
        self.assertEqual(without[0]["peak_bytes"], off)  # the machine has more than this run needs
        self.assertNotIn("recomputed", without[1].stderr)
        shares = []
        for part in (0.1, 0.5, 0.9):
            limit = full + part * (off - full)
            found, done = plan(self.folder, training__gradient_checkpointing='"fit"', machine__memory_limit_gib=str(limit / 2**30))
            self.assertLessEqual(found["peak_bytes"], limit)
            shares.append(float(re.search(r", ([\d.]+) % of its operations", done.stderr).group(1)))
        self.assertEqual(shares, sorted(shares, reverse=True))

    def test_a_limit_that_nothing_fits_says_the_least_that_would(self):
        batch = {"training__per_device_train_batch_size": "32", "training__gradient_checkpointing": '"fit"'}
        found, done = plan(self.folder, machine__memory_limit_gib="0.01", **batch)
        self.assertEqual(done.returncode, MEMORY, done.stderr)
        self.assertFalse(found["fits"])
        self.assertRegex(done.stderr.splitlines()[-1], r"the smallest plan needs [\d.]+ MiB, .* no batch size fits: batch size 1 needs [\d.]+ MiB")
        needed = found["peak_bytes"]
        self.assertEqual(plan(self.folder, machine__memory_limit_gib=str(needed / 2**30), **batch)[1].returncode, 0)
        found, done = plan(self.folder, machine__memory_limit_gib=str((needed - (8 << 20)) / 2**30), **batch)
        fitting = int(re.search(r"training.per_device_train_batch_size = (\d+) would fit", done.stderr).group(1))
        batch["machine__memory_limit_gib"] = str((needed - (8 << 20)) / 2**30)
        for samples, code in ((fitting, 0), (fitting + 1, MEMORY)):
            batch["training__per_device_train_batch_size"] = str(samples)
            self.assertEqual(plan(self.folder, **batch)[1].returncode, code, samples)

    def test_without_recomputation_the_advice_names_it(self):
        limit = str(self.middle(training__per_device_train_batch_size="32"))
        refused = plan(self.folder, machine__memory_limit_gib=limit, training__per_device_train_batch_size="32")[1]
        self.assertEqual(refused.returncode, MEMORY)
        self.assertIn('or training.gradient_checkpointing = "fit"', refused.stderr.splitlines()[-1])
        fits = plan(self.folder, machine__memory_limit_gib=limit, training__per_device_train_batch_size="32", training__gradient_checkpointing='"fit"')
        self.assertEqual(fits[1].returncode, 0, fits[1].stderr)
