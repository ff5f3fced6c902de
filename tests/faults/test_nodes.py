# SPDX-License-Identifier: Apache-2.0
"""Runs of ranks on two machines, simulated by namespaces: the bits of one machine, whatever happened on the way. See node_runs.py."""
import json
import os
import pathlib
import signal
import subprocess
import time

from bascule_run import DEMO_MODEL, EMOJI, PROGRAM, digest, patient, run
from node_runs import Nodes, on_nodes, ranks_of
from rank_runs import KILLS, SEED, VALIDATION, pid_of_rank, ranks_settings

FILES = ("model.safetensors", "embeddings.safetensors")
MANY_BUCKETS = {"model__model_name_or_path": f'"{DEMO_MODEL}"', "training__max_steps": "4", "training__save_steps": "0"}  # 9.7 MB of gradients


def metrics(folder, split):
    results = json.loads((folder / f"{split}_results.json").read_text())
    return {key: value for key, value in results.items() if not any(word in key for word in ("runtime", "second", "memory"))}


class NodesTrain(Nodes):
    def test_evaluation_gives_the_metrics_embeddings_and_predictions_of_one_process(self):
        for head in ("contrastive", "image_text_matching", "masked_lm"):
            changes = {"model__head": f'"{head}"', "training__do_train": "false", "data__validation_file": VALIDATION,
                       "data__test_file": f'"{EMOJI}/test.jsonl"'}
            one = self.trained(None, 1, **changes)
            for slots in (1, 2) if head == "contrastive" else (2,):
                with self.subTest(head=head, slots=slots):
                    two = self.trained(self.machines(slots=slots), 2 * slots, **changes)
                    self.assertEqual(metrics(one, "validation"), metrics(two, "validation"))
                    rows = FILES[1] if head == "contrastive" else "predictions.jsonl"
                    self.assertEqual(digest(one / rows), digest(two / rows))

    def test_every_strategy_gives_the_bits_of_one_machine(self):
        changes = {**MANY_BUCKETS, "training__gradient_accumulation_steps": "2"}
        for slots, strategies in ((1, (("fast_ddp", 25), ("ddp", 1), ("ddp", 25), ("sharded", 25))), (2, (("fast_ddp", 25), ("ddp", 4), ("sharded", 25)))):
            nodes = self.machines(slots=slots)
            one = digest(self.trained(None, 2 * slots, 5, **changes) / FILES[0])
            for strategy, mib in strategies:
                with self.subTest(slots=slots, strategy=strategy, mib=mib):
                    distributed = {"distributed__distribution_strategy": f'"{strategy}"', "distributed__bucket_mib": str(mib)}
                    self.assertEqual(digest(self.trained(nodes, 2 * slots, 5, **changes, **distributed) / FILES[0]), one)

    def test_the_average_of_the_weights_is_that_of_one_machine_after_a_resume_too(self):
        changes = {"training__max_steps": "6", "training__save_steps": "3", "training__ema_decay": "0.75", "training__ema_steps": "2"}
        one, average = self.trained(None, 2, 4, **changes), "ema/model.safetensors"
        self.assertNotEqual(digest(one / average), digest(one / FILES[0]))
        nodes = self.machines()
        for strategy in ("fast_ddp", "ddp", "sharded"):
            for resume in ({}, {"training__resume": f'"{one}/checkpoint-3"'}):
                with self.subTest(strategy=strategy, **resume):
                    done = self.trained(nodes, 2, 4, **changes, **resume, distributed__distribution_strategy=f'"{strategy}"')
                    self.assertEqual(digest(done / average), digest(one / average))

    def test_bf16_on_the_wire_gives_every_strategy_the_same_bits_and_half_the_bytes(self):
        nodes, digests, sent = self.machines(slots=2), set(), []
        for strategy, mib in (("fast_ddp", 25), ("ddp", 1), ("sharded", 25)):
            done = self.trained(nodes, 4, 2, **MANY_BUCKETS, distributed__distribution_strategy=f'"{strategy}"', distributed__bucket_mib=str(mib), distributed__wire_type='"bf16"')
            results = json.loads((done / "train_results.json").read_text())
            digests.add(digest(done / FILES[0]))
            sent.append(results["wire_sent_bytes_per_update"] / results["wire_gradient_bytes"])
        self.assertEqual(len(digests), 1)
        for share, must in zip(sent, (1, 1, 1.5)):  # 2 (N - 1) / N; the weights of sharded travel whole
            self.assertAlmostEqual(share, must, delta=0.05 * must)

    def test_every_head_gives_the_bits_of_one_machine_with_ranks_without_samples(self):
        rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:13]]
        file = pathlib.Path(self.folder(), "rows.jsonl")
        file.write_text("\n".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) for row in rows) + "\n")
        nodes = {slots: self.machines(slots=slots) for slots in (1, 2)}
        for head, gathers, places in (("contrastive", "true", (1, 2)), ("image_text_matching", "false", (2,)), ("masked_lm", "false", (1,))):
            for slots in places:
                with self.subTest(head=head, slots=slots):  # 12 and 1
                    changes = {"data__train_file": f'"{file}"', "data__validation_file": VALIDATION, "data__max_eval_samples": "50", "model__head": f'"{head}"',
                               "training__gather_negatives": gathers, "training__eval_steps": "6", "training__save_steps": "0"}
                    one = self.trained(None, 2 * slots, 6 // slots, **changes)
                    two = self.trained(nodes[slots], 2 * slots, 6 // slots, **changes)
                    self.assertEqual(digest(one / FILES[0]), digest(two / FILES[0]))
                    self.assertEqual(metrics(one, "validation"), metrics(two, "validation"))

    def test_a_checkpoint_lists_what_ranks_of_both_machines_replaced(self):
        folder = pathlib.Path(self.folder())
        (folder / "cut.jpg").write_bytes(b"\xff\xd8\xff")
        rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:24]]
        for number, row in enumerate(rows):
            row["image"] = f"{folder}/cut.jpg" if number % 5 == 0 else str(EMOJI / row["image"])
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        listed = []
        for nodes in (None, self.machines()):
            done = self.trained(nodes, 2, 6, data__train_file=f'"{folder}/rows.jsonl"', data__on_bad_sample='"skip"')
            results = json.loads((done / "all_results.json").read_text())
            listed.append([json.loads((done / "checkpoint-12" / "bascule_state.json").read_text())["replacements"],
                           *(results[key] for key in ("bad_samples", "bad_samples_count", "loader_bad_samples"))])
        self.assertGreaterEqual(listed[0][2], 24)
        self.assertEqual(listed[0], listed[1])

    def test_a_stopped_run_goes_on_with_the_same_bits_on_two_machines_or_one(self):
        changes = {"training__max_steps": "60", "training__save_steps": "7", "data__test_file": f'"{EMOJI}/test.jsonl"'}
        nodes = self.machines()
        whole = [digest(self.trained(None, 2, 8, **changes) / name) for name in FILES]
        for strategy, goes_on_with in (("ddp", nodes), ("ddp", None), ("sharded", nodes), ("sharded", None)):
            with self.subTest(strategy=strategy, machines=1 if goes_on_with is None else 2):
                folder = self.folder()
                changes["distributed__distribution_strategy"] = f'"{strategy}"'
                toml = on_nodes(folder, nodes, 2, **changes)
                process = subprocess.Popen(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for line in process.stderr:
                    if "saved checkpoint-7 " in line:
                        os.kill(process.pid if strategy == "ddp" else pid_of_rank(toml, 1), signal.SIGTERM)  # or of the other machine
                        break
                error = process.communicate(timeout=patient(30))[1]
                self.assertEqual(process.returncode, 128 + signal.SIGTERM, error)
                self.assertIn("stopped by SIGTERM after update", error)
                self.expect_nothing_left(nodes, folder)
                if goes_on_with is None:
                    done = run("run", ranks_settings(folder, 2, **changes))
                else:
                    done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(100))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("resume: from checkpoint-", done.stderr)
                self.assertEqual([digest(pathlib.Path(folder, "run", name)) for name in FILES], whole)

    def test_ranks_killed_at_a_random_instant_and_started_again_end_with_the_same_bits(self):
        changes = {"model__model_name_or_path": f'"{DEMO_MODEL}"', "training__max_steps": "12", "training__save_steps": "3", "data__test_file": f'"{EMOJI}/test.jsonl"', "distributed__timeout_seconds": "5",
                   "distributed__distribution_strategy": '"ddp"', "distributed__bucket_mib": "1"}
        nodes = self.machines(slots=2)
        began = time.monotonic()
        done = self.trained(nodes, 4, 4, **changes)
        seconds = time.monotonic() - began
        whole = [digest(done / name) for name in FILES]
        for _ in range(KILLS):
            for killed in ((0, 1, 2, 3), (2, 3), (0, 1)):
                with self.subTest(seed=SEED, killed=killed):
                    folder = self.folder()
                    toml = on_nodes(folder, nodes, 4, training__per_device_train_batch_size="4", **changes)
                    process = subprocess.Popen(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    time.sleep(self.draw.uniform(0.0, seconds))
                    ranks = ranks_of(toml)
                    for rank in killed:
                        if rank in ranks:
                            os.kill(ranks[rank], signal.SIGKILL)
                    self.assertIn(process.wait(timeout=patient(30)), (0, 5))
                    done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(100))
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual([digest(pathlib.Path(folder, "run", name)) for name in FILES], whole)
                    self.expect_nothing_left(nodes, folder)
