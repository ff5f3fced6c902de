# SPDX-License-Identifier: Apache-2.0
"""Runs of ranks on two machines, simulated by namespaces: ends in one line and without leftovers whatever breaks. See node_runs.py."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from bascule_run import DEMO_MODEL, EMOJI, PROGRAM, is_sanitized, patient
from node_runs import Nodes, launcher_of, on_nodes, ranks_of
from rank_runs import KILLS, preloaded, processes_of


class NodesFail(Nodes):
    timeout = 2

    def started(self, nodes, ranks):
        folder = self.folder()
        toml = on_nodes(folder, nodes, ranks, training__max_steps="100000", training__save_steps="40", distributed__timeout_seconds=str(self.timeout),
                        training__save_total_limit="2", model__head='"image_text_matching"')
        process = subprocess.Popen(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        for line in process.stderr:
            said.append(line)
            if "saved checkpoint-40 " in line:
                break
        else:
            self.fail("".join(said))
        time.sleep(self.draw.uniform(0.0, 0.3))
        return process, folder, toml

    def ended(self, process, within):
        began = time.monotonic()
        error = process.communicate(timeout=within)[1]
        self.assertLess(time.monotonic() - began, within)
        return error

    def expect_one_line(self, error, *words):
        lines = [line for line in error.splitlines() if line.startswith("bascule: ") and " rank " in f" {line[9:]}"]
        lines = [line for line in lines if "seal:" not in line]
        self.assertEqual(len(lines), 1, error)
        for word in words:
            self.assertIn(word, lines[0])

    def test_a_killed_or_silent_rank_of_either_machine_ends_the_run_with_one_line_and_code_five(self):
        killed, silent = (signal.SIGKILL, "was killed by signal 9"), (signal.SIGSTOP, "no sign of life")
        both = {slots: [(rank, ending) for ending in (killed, silent) for rank in range(2 * slots)] for slots in (1, 2)}
        some = {1: both[1], 2: [(1, killed), (2, killed), (0, silent), (3, silent)]}
        for slots, cases in (some if KILLS == 1 else both).items():
            nodes = self.machines(slots=slots)
            for rank, (number, word) in cases:
                for _ in range(KILLS):
                    with self.subTest(signal=number, rank=rank, slots=slots):
                        process, folder, toml = self.started(nodes, 2 * slots)
                        os.kill(ranks_of(toml)[rank], number)
                        error = self.ended(process, self.timeout + 6)
                        self.assertEqual(process.returncode, 5, error)
                        self.expect_one_line(error, f"rank {rank} (process", word, f" on {nodes.names[rank // slots]}", "in update")
                        self.expect_nothing_left(nodes, folder)

    def test_ranks_that_mpirun_has_started_on_both_machines_join_and_end_with_one_line(self):
        nodes = self.machines(slots=2)
        folder = self.folder()
        toml = on_nodes(folder, nodes, 4, training__max_steps="100000", distributed__timeout_seconds=str(self.timeout))
        for rank in (0, 3):
            words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "4", "--hostfile", nodes.hostfile, PROGRAM, "run", toml]
            process = subprocess.Popen(nodes.command(0, words), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            said = next(line for line in process.stderr if "saved checkpoint-" in line)
            os.kill(ranks_of(toml)[rank], signal.SIGKILL)
            error = self.ended(process, self.timeout + 6)
            self.assertNotEqual(process.returncode, 0, said)
            self.expect_one_line(error, f"rank {rank} (process", f" on {nodes.names[rank // 2]}", "in update")
            self.expect_no_process(folder, 5)

    def test_a_killed_launcher_takes_the_ranks_of_both_machines_with_it(self):
        nodes = self.machines(slots=2)
        process, folder, toml = self.started(nodes, 4)
        os.kill(launcher_of(toml), signal.SIGKILL)
        error = self.ended(process, self.timeout + 6)
        self.assertEqual(process.returncode, 5, error)
        self.assertEqual(len([line for line in error.splitlines() if "run the same command again to resume from the newest complete checkpoint" in line]), 1, error)
        self.expect_nothing_left(nodes, folder)

    def test_a_killed_run_takes_launcher_and_ranks_with_it(self):
        nodes = self.machines(slots=2)
        process, folder, toml = self.started(nodes, 4)
        process.kill()
        process.communicate(timeout=patient(30))
        self.expect_no_process(folder, self.timeout + 6)

    def test_a_cut_wire_ends_both_machines_and_nothing_waits_for_it(self):
        for slots in (1, 2):
            with self.subTest(slots=slots):
                nodes = self.machines(slots=slots)
                process, folder, toml = self.started(nodes, 2 * slots)
                nodes.set_wire("down")
                error = self.ended(process, self.timeout + 10)
                self.assertEqual(process.returncode, 5, error)
                self.expect_one_line(error, f"rank {slots} (process", "no sign of life", f" on {nodes.names[1]}")
                self.expect_nothing_left(nodes, folder)

    def test_a_rank_stopped_or_cut_off_before_the_machines_have_met_ends_the_run_with_one_line_and_code_five(self):
        some = ((1, 0, 0.0), (1, 1, 0.1), (2, 1, 0.0), (1, None, 0.0))
        for slots, rank, delay in some if KILLS == 1 else (*some, (1, 0, 0.1), (1, 1, 0.0)):
            with self.subTest(slots=slots, rank=rank, delay=delay):
                nodes = self.machines(slots=slots)
                folder = self.folder()
                toml = on_nodes(folder, nodes, 2 * slots, training__max_steps="100000", distributed__timeout_seconds=str(self.timeout))
                process = subprocess.Popen(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                while (rank or 0) not in (ranks := ranks_of(toml)):
                    self.assertIsNone(process.poll())
                time.sleep(delay)
                if rank is None:
                    nodes.set_wire("down")
                else:
                    os.kill(ranks[rank], signal.SIGSTOP)
                error = self.ended(process, self.timeout + 12)
                self.assertEqual(process.returncode, 5, error)
                lines = [line for line in error.splitlines() if line.startswith("bascule: ")]
                self.assertEqual(len(lines), 1, error)
                self.assertRegex(lines[0], "did not connect|cannot be reached|no sign of life")
                self.expect_nothing_left(nodes, folder)

    def test_a_machine_that_stops_altogether_is_not_waited_for(self):
        nodes = self.machines()
        process, folder, toml = self.started(nodes, 2)
        other = [ranks_of(toml)[1], *(pid for pid in processes_of(folder) if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "orted")]
        self.assertEqual(len(other), 2)
        for pid in other:
            os.kill(pid, signal.SIGSTOP)
        error = self.ended(process, self.timeout + 15)
        self.assertEqual(process.returncode, 5, error)
        self.expect_one_line(error, "rank 1 (process", "no sign of life", f" on {nodes.names[1]}")
        self.expect_nothing_left(nodes, folder)

    def test_a_slow_disk_a_long_step_and_a_slow_wire_are_no_failures(self):
        slow = {"LD_PRELOAD": preloaded("slow_disk"), "SLOW_DISK_KIB_PER_SECOND": "2048"}  # 7 MB of a checkpoint
        cases = {"disk": ({"distributed__timeout_seconds": "2"}, slow, None), "wire": ({}, {}, "8mbit"),  # 2.4 MB of gradients
                 "step": ({"distributed__timeout_seconds": "8" if is_sanitized() else "1", "model__model_name_or_path": f'"{DEMO_MODEL}"', "training__save_steps": "0", "training__per_device_train_batch_size": "250" if is_sanitized() else "790", "machine__isa": '"avx2"'}, {}, None)}
        for name, (changes, environment, rate) in cases.items():
            with self.subTest(case=name):
                nodes = self.machines(rate=rate)
                folder = self.folder()
                toml = on_nodes(folder, nodes, 2, **{"training__max_steps": "1", "distributed__timeout_seconds": "1", **changes})
                began = time.monotonic()
                done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(**environment), capture_output=True, text=True, timeout=patient(300))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertGreater(time.monotonic() - began, 2.0)
                self.expect_nothing_left(nodes, folder)

    def test_a_wire_that_comes_back_in_time_is_no_failure(self):
        nodes = self.machines()
        process, folder, toml = self.started(nodes, 2)
        nodes.set_wire("down")
        time.sleep(self.timeout / 3)
        nodes.set_wire("up")
        time.sleep(self.timeout)
        process.send_signal(signal.SIGTERM)
        error = self.ended(process, 30)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, error)
        self.expect_nothing_left(nodes, folder)

    def test_an_error_of_all_ranks_is_said_once_with_its_own_code(self):
        nodes = self.machines(slots=3)  # enough ranks that others end before the first has finished its line, were it to let them
        stage = {"distributed__distribution_strategy": '"sharded"', "distributed__sharded_stage": "2"}
        for code, changes in ((3, {"data__train_file": '"nowhere.jsonl"'}), (4, {"machine__memory_limit_gib": "0.01"}), (2, stage)):
            folder = self.folder()
            toml = on_nodes(folder, nodes, 6, **changes)
            done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(60))
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(len([line for line in done.stderr.splitlines() if line.startswith("bascule: ") and "plan:" not in line]), 1, done.stderr)

    def test_a_bad_picture_of_a_rank_on_the_other_machine_is_named_and_ends_all(self):
        folder = self.folder()
        pathlib.Path(folder, "cut.jpg").write_bytes(b"\xff\xd8\xff")
        good = json.loads((EMOJI / "train.jsonl").read_text().splitlines()[0])
        good["image"] = str(EMOJI / good["image"])
        rows = [good] * 31 + [{"image": f"{folder}/cut.jpg", "caption": "x"}]
        pathlib.Path(folder, "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        nodes = self.machines()
        for changes in ({}, {"model__head": '"masked_lm"'}):
            shutil.rmtree(pathlib.Path(folder) / "run", ignore_errors=True)
            toml = on_nodes(folder, nodes, 2, data__train_file=f'"{folder}/rows.jsonl"', **changes)
            done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(60))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(len([line for line in done.stderr.splitlines() if "rows.jsonl:32" in line]), 1, done.stderr)
            self.expect_nothing_left(nodes, folder)

    def test_machines_that_see_other_data_or_checkpoints_end_the_run_in_one_line(self):
        nodes = self.machines()
        folder = pathlib.Path(self.folder())
        rows = [json.loads(row) for row in (EMOJI / "train.jsonl").read_text().splitlines()[:32]]
        for name, chosen in (("rows.jsonl", rows), ("others.jsonl", rows[::-1])):
            (folder / name).write_text("".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) + "\n" for row in chosen))
        toml = on_nodes(folder, nodes, 2, data__train_file=f'"{folder}/rows.jsonl"', training__max_steps="100000")
        start = lambda: subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(60))
        on_second = lambda *words: subprocess.run(nodes.command(1, words), check=True)
        on_second("mount", "--bind", folder / "others.jsonl", folder / "rows.jsonl")
        done = start()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if "reads different data than rank 0's" in line]), 1, done.stderr)
        on_second("umount", folder / "rows.jsonl")
        process = subprocess.Popen(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if "saved checkpoint-3 " in line:
                process.send_signal(signal.SIGINT)
                break
        self.ended(process, 30)
        on_second("mount", "-t", "tmpfs", "tmpfs", folder / "run")
        done = start()
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if "reads different checkpoints" in line]), 1, done.stderr)

    def test_machines_that_see_another_model_or_other_settings_end_the_run_in_one_line(self):
        nodes = self.machines()
        folder = pathlib.Path(self.folder())
        short = {"training__max_steps": "1", "training__save_steps": "0"}
        for number, name in enumerate(("model", "other")):
            shutil.copytree(self.trained(None, 1, 2, training__seed=str(number), **short), folder / name)
        config = json.loads((folder / "other" / "config.json").read_text())
        (folder / "other" / "config.json").write_text(json.dumps({**config, "contrastive_hidden_size": config["contrastive_hidden_size"] // 2}))
        toml = on_nodes(folder, nodes, 2, model__model_name_or_path=f'"{folder}/model"', model__from_scratch="false", **short)
        (folder / "other" / "run.toml").write_text(toml.read_text().replace("save_steps = 0", "save_steps = 1"))
        for file, word in (("model/config.json", "model or tokenizer files"), ("model/model.safetensors", "weights"), ("run.toml", "settings")):
            with self.subTest(file=file):
                subprocess.run(nodes.command(1, ["mount", "--bind", folder / "other" / pathlib.Path(file).name, folder / file]), check=True)
                done = subprocess.run(nodes.command(0, [PROGRAM, "run", toml]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(60))
                subprocess.run(nodes.command(1, ["umount", folder / file]), check=True)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(len([line for line in done.stderr.splitlines() if f"rank 1's machine reads different {word}" in line]), 1, done.stderr)
                self.expect_nothing_left(nodes, str(folder))

    def test_a_run_started_on_a_machine_that_has_no_ranks_is_refused(self):
        nodes = self.machines()
        nodes.hostfile.write_text(f"{nodes.addresses[1]} slots=2\n")
        folder = self.folder()
        done = subprocess.run(nodes.command(0, [PROGRAM, "run", on_nodes(folder, nodes, 2)]), env=nodes.environment(), capture_output=True, text=True, timeout=patient(60))
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if "start `bascule run` on a machine listed in distributed.hostfile" in line]), 1, done.stderr)
        self.expect_nothing_left(nodes, folder)

    def test_ranks_that_cannot_be_spread_evenly_are_refused(self):
        nodes = self.machines()
        done = subprocess.run([str(PROGRAM), "plan", str(on_nodes(self.folder(), nodes, 3))], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("distributed.world_size = 3 ranks cannot be spread evenly over 2 machines", done.stderr)
