# SPDX-License-Identifier: Apache-2.0
"""Runs of several ranks: the samples and numbers of one process, and the same bits again."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from bascule_run import DEMO_MODEL, EMOJI, PROGRAM, digest, patient, run_ok
from rank_runs import STRATEGIES, VALIDATION, largest_relative_error, parameters, ranks_settings, some_rows

MANY_BUCKETS = {"model__model_name_or_path": f'"{DEMO_MODEL}"', "training__max_steps": "4", "training__save_steps": "0"}  # 9.7 MB of gradients


class RanksTrain(unittest.TestCase):
    def trained(self, folder, ranks, batch, **changes):
        pathlib.Path(folder).mkdir()
        run_ok("run", ranks_settings(folder, ranks, training__per_device_train_batch_size=str(batch), **changes))
        return folder

    def test_the_numbers_of_one_process_at_the_same_global_batch(self):
        for head in ("image_text_matching", "masked_lm", "contrastive"):
            with self.subTest(head=head), tempfile.TemporaryDirectory() as folder:
                changes = {"model__head": f'"{head}"', "training__gather_negatives": str(head == "contrastive").lower(), "data__validation_file": VALIDATION, "training__learning_rate": "1e-4"}
                one = self.trained(folder + "/one", 1, 12, **changes)
                for ranks in (2, 3):
                    other = self.trained(f"{folder}/{ranks}", ranks, 12 // ranks, **changes)
                    self.assertLess(largest_relative_error(parameters(one), parameters(other)), 2e-5)
                    results = [json.loads((pathlib.Path(f) / "run" / "validation_results.json").read_text()) for f in (one, other)]
                    self.assertAlmostEqual(results[0]["eval_loss"], results[1]["eval_loss"], places=4)
                    flos = [json.loads((pathlib.Path(f) / "run" / "all_results.json").read_text())["total_flos"] for f in (one, other)]
                    self.assertAlmostEqual(flos[1] / flos[0], 1.0, delta=0.05, msg="operations of all ranks")

    def test_the_same_bits_again_with_uneven_batches_and_ranks_without_samples(self):
        with tempfile.TemporaryDirectory() as folder:
            for head in ("image_text_matching", "contrastive"):
                changes = {"data__train_file": some_rows(folder, 13), "model__head": f'"{head}"', "training__gather_negatives": str(head == "contrastive").lower()}
                first = self.trained(f"{folder}/{head}", 4, 3, **changes)  # 12 and 1: three ranks have none of the last
                second = self.trained(f"{folder}/{head}_again", 4, 3, machine__threads="2", **changes)
                self.assertEqual(digest(first + "/run/model.safetensors"), digest(second + "/run/model.safetensors"))

    def expect_same_bits(self, ranks, strategies, **changes):
        with tempfile.TemporaryDirectory() as folder:
            digests = {}
            for name in strategies:
                done = self.trained(f"{folder}/{name}", ranks, 2, **changes, **STRATEGIES[name])
                digests[name] = digest(done + "/run/model.safetensors")
            self.assertEqual(len(set(digests.values())), 1, digests)

    def test_every_strategy_stage_and_bucket_size_gives_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            # The last batches of an epoch hold 3, 1 (two ranks have none) and 7 samples.
            for ranks, rows, strategies in ((2, 7, STRATEGIES), (3, 13, ("fast_ddp", "ddp1", "stage2", "stage3")), (4, 15, ("fast_ddp", "ddp4", "stage1", "stage3"))):
                with self.subTest(ranks=ranks):
                    self.expect_same_bits(ranks, strategies, data__train_file=some_rows(folder, rows), **MANY_BUCKETS)

    def test_every_head_gives_the_same_bits_from_a_ring_of_buckets(self):
        with tempfile.TemporaryDirectory() as folder:
            changes = {"data__train_file": some_rows(folder, 13), **MANY_BUCKETS}
            for head in ("image_text_matching", "masked_lm", "contrastive"):
                with self.subTest(head=head):
                    gathers = str(head == "contrastive").lower()
                    self.expect_same_bits(3, ("fast_ddp", "stage2"), model__head=f'"{head}"', training__gather_negatives=gathers, **changes)

    def test_accumulated_gradients_have_the_same_bits_in_every_strategy(self):
        changes = {**MANY_BUCKETS, "training__gradient_accumulation_steps": "2"}
        self.expect_same_bits(2, ("fast_ddp", "ddp1", "stage1"), **changes)

    def test_ranks_that_a_launcher_has_started_join(self):
        with tempfile.TemporaryDirectory() as folder:
            changes = {"training__max_steps": "3"}
            own = self.trained(folder + "/own", 2, 4, **changes)
            for name in ("mpirun", "slurm"):
                place = pathlib.Path(folder, name)
                place.mkdir()
                command = [str(PROGRAM), "run", str(ranks_settings(place, 2, training__per_device_train_batch_size="4", **changes))]
                if name == "mpirun":
                    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
                    ends = [subprocess.run(["mpirun", *root, "--oversubscribe", "-np", "2", *command], capture_output=True, text=True, timeout=patient(120))]
                else:  # what srun puts into the environment of its tasks
                    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}
                    tasks = [subprocess.Popen(command, env={**os.environ, **slurm, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
                             for rank in (0, 1)]
                    ends = [subprocess.CompletedProcess([], task.wait(patient(120)), "", task.stderr.read()) for task in tasks]
                    for task in tasks:
                        task.stderr.close()
                for end in ends:
                    self.assertEqual(end.returncode, 0, end.stderr)
                self.assertEqual("".join(end.stderr for end in ends).count("run: finished"), 1)
                self.assertEqual(digest(place / "run" / "model.safetensors"), digest(own + "/run/model.safetensors"))

    def test_evaluation_alone_gives_the_same_metrics_whatever_the_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            results = []
            for ranks in (1, 2, 3):
                place = pathlib.Path(folder, str(ranks))
                place.mkdir()
                run_ok("run", ranks_settings(place, ranks, training__do_train="false", data__validation_file=VALIDATION, data__test_file=f'"{EMOJI}/test.jsonl"'))
                metrics = json.loads((place / "run" / "validation_results.json").read_text())
                results.append({key: value for key, value in metrics.items() if not any(word in key for word in ("runtime", "second", "memory"))})
                results[-1]["embeddings"] = digest(place / "run" / "embeddings.safetensors")
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0], results[2])

    def test_ranks_that_never_have_a_sample_change_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            rows = some_rows(folder, 2)
            for head in ("image_text_matching", "masked_lm", "contrastive"):
                changes = {"model__head": f'"{head}"', "model__dropout": '"off"', "data__train_file": rows, "training__learning_rate": "1e-4",
                           "training__gather_negatives": str(head == "contrastive").lower()}
                few, many = (parameters(self.trained(f"{folder}/{head}{ranks}", ranks, 1, **changes)) for ranks in (2, 5))
                self.assertLess(largest_relative_error(few, many), 2e-5)

    def test_a_checkpoint_lists_what_all_ranks_replaced_in_order(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "cut.jpg").write_bytes(b"\xff\xd8\xff")
            rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:24]]
            for number, row in enumerate(rows):
                row["image"] = f"{folder}/cut.jpg" if number % 5 == 0 else str(EMOJI / row["image"])
            pathlib.Path(folder, "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
            listed, results = [], []
            for ranks in (1, 2, 3):
                done = self.trained(f"{folder}/{ranks}", ranks, 12 // ranks, data__train_file=f'"{folder}/rows.jsonl"', data__on_bad_sample='"skip"')
                listed.append(json.loads(pathlib.Path(done, "run", "checkpoint-12", "bascule_state.json").read_text())["replacements"])
                all_results = json.loads(pathlib.Path(done, "run", "all_results.json").read_text())
                results.append([all_results[key] for key in ("bad_samples", "bad_samples_count", "loader_bad_samples")])
            self.assertGreaterEqual(len(listed[0]), 24)
            self.assertEqual(listed[0], listed[1])
            self.assertEqual(listed[0], listed[2])
            self.assertEqual(results[0], results[1])
            self.assertEqual(results[0], results[2])
            self.assertEqual(results[0][1], len(listed[0]))

    def test_goes_on_with_another_world_size(self):
        # Of 29 rows the last update of an epoch has 5: shares of 2, 1, 1 and 1, or micro-batches of 4 and 1, or of 2, 2 and 1.
        for head in ("image_text_matching", "masked_lm"):
            with tempfile.TemporaryDirectory() as folder:
                changes = {"model__head": f'"{head}"', "model__dropout": '"off"', "training__learning_rate": "1e-4", "data__train_file": some_rows(folder, 29),
                           "training__save_steps": "2", "training__save_total_limit": "0"}
                begun = self.trained(folder + "/begun", 4, 2, **changes)
                for ranks in (2, 1):
                    with self.subTest(head=head, ranks=ranks):
                        other = pathlib.Path(folder, str(ranks))
                        shutil.copytree(begun, other)
                        (other / "run" / "bascule.json").unlink()
                        for step in range(4, 13, 2):
                            shutil.rmtree(other / "run" / f"checkpoint-{step}")
                        done = run_ok("run", ranks_settings(other, ranks, training__per_device_train_batch_size="2", training__gradient_accumulation_steps=str(4 // ranks), **changes))
                        self.assertIn("resume: from checkpoint-2", done.stderr)
                        self.assertLess(largest_relative_error(parameters(begun), parameters(other)), 2e-5)
