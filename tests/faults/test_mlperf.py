# SPDX-License-Identifier: Apache-2.0
"""report.mlperf_log: the lines of whole runs by MLPerf's rules, before any of the data is read, and of runs that are killed, stopped, resumed, evaluated again; and the tools that lay results out and check them.

BASCULE_MLPERF_PYTHON names a Python that has mlperf-logging: then its own checkers are asked, too.
"""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

from bascule_run import PROGRAM, ROOT, FolderTest, run, run_ok, wait_for
from drawing import drawing
from rank_runs import preloaded
from small_run import ROWS, small_settings, write_rows
from test_killed_families import HEADS, prepared

PREFIX = ":::MLLOG "
# What compliance_checker/training_6.1.0/common.yaml of mlperf-logging 4.1.68 asks for, and the keys of the rules for the open division.
ONCE = """submission_org submission_platform submission_division submission_benchmark init_stop run_start run_stop train_samples eval_samples
lowest_numerical_precision_in_linear lowest_numerical_precision_in_attn lowest_numerical_precision_in_comm tensor_parallelism
pipeline_parallelism context_parallelism expert_parallelism micro_batch_size config_filename gradient_accumulation_steps
global_batch_size opt_name opt_base_learning_rate seed""".split()
OFTEN = "cache_clear init_start block_start block_stop eval_start eval_stop eval_accuracy".split()
MEMBERS = ["namespace", "time_ms", "event_type", "key", "value", "metadata"]


def lines_of(folder):
    text = (pathlib.Path(folder) / "run" / "mlperf_log.txt").read_text()
    return [json.loads(line[len(PREFIX):]) for line in text.splitlines() if line.startswith(PREFIX)]


def keys_of(folder):
    return [line["key"] for line in lines_of(folder)]


def status_of(folder):
    return [line["metadata"]["status"] for line in lines_of(folder) if line["key"] == "run_stop"]


class MlperfLog(FolderTest):
    def settings(self, **changes):
        rows = write_rows(self.folder / "validation.jsonl", ROWS[:5])
        return small_settings(self.folder, **{"data__validation_file": rows, "training__eval_steps": "2", "report__mlperf_log": '"Example"', **changes})

    def check_lines(self, lines):
        keys = [line["key"] for line in lines]
        for key in ONCE:
            self.assertEqual(keys.count(key), 1, key)
        for key in OFTEN:
            self.assertIn(key, keys)
        order = [keys.index(key) for key in ("init_start", "submission_division", "init_stop", "run_start", "train_samples", "block_start", "eval_start", "eval_accuracy", "run_stop")]
        self.assertEqual(order, sorted(order), keys)
        times = [line["time_ms"] for line in lines]
        self.assertEqual(times, sorted(times))
        for line in lines:
            self.assertEqual(list(line), MEMBERS)
            if line["key"] in ("block_start", "block_stop", "eval_start", "eval_stop", "eval_accuracy"):
                self.assertIsInstance(line["metadata"]["samples_count"], int)
        for begin, end in (("block_start", "block_stop"), ("eval_start", "eval_stop")):  # by turns
            turns = [key for key in keys if key in (begin, end)]
            self.assertEqual(turns, [begin, end] * (len(turns) // 2))

    def test_a_whole_run_has_what_the_rules_ask_for(self):
        train = write_rows(self.folder / "train.jsonl", ROWS[:9])
        run_ok("run", self.settings(data__train_file=train, training__gradient_accumulation_steps="2", training__per_device_train_batch_size="2", training__warmup_steps="1"))
        lines = lines_of(self.folder)
        self.check_lines(lines)
        values = {line["key"]: line["value"] for line in lines}
        expected = {"submission_org": "Example", "submission_division": "open", "submission_benchmark": "bridgetower_contrastive", "cache_clear": False,
                    "global_batch_size": 4, "micro_batch_size": 2, "gradient_accumulation_steps": 2, "train_samples": 9, "eval_samples": 5, "seed": 42, "max_steps": 3,
                    "opt_name": "adamw", "opt_base_learning_rate": 1e-3, "opt_end_learning_rate": 0, "opt_learning_rate_decay_schedule": "linear",
                    "opt_learning_rate_warmup_steps": 1, "opt_learning_rate_training_steps": 3, "opt_gradient_clip_norm": 1, "opt_adamw_beta_1": 0.9, "opt_adamw_beta_2": 0.999,
                    "opt_adamw_epsilon": 1e-8, "opt_adamw_weight_decay": 0, "lowest_numerical_precision_in_linear": "fp32", "lowest_numerical_precision_in_attn": "fp32",
                    "lowest_numerical_precision_in_comm": "fp32", "tensor_parallelism": 1, "config_filename": str(self.folder / "run.toml")}
        self.assertEqual({key: values.get(key) for key in expected}, expected)
        self.assertEqual(status_of(self.folder), ["success"])
        # An epoch of 9 samples is three updates: 4 + 4 + 1.
        places = [(line["key"], line["metadata"]["step_num"], line["metadata"]["samples_count"]) for line in lines if line["key"] in ("block_start", "block_stop", "eval_accuracy")]
        self.assertEqual(places, [("block_start", 0, 0), ("block_stop", 2, 8), ("eval_accuracy", 2, 8), ("block_start", 2, 8), ("block_stop", 3, 9), ("eval_accuracy", 3, 9)])
        log = [json.loads(line) for line in (self.folder / "run" / "log.jsonl").read_text().splitlines()]
        found = [(line["value"], line["metadata"]["metric"]) for line in lines if line["key"] == "eval_accuracy"]
        self.assertEqual(found, [(line[f"eval_{found[0][1]}"], found[0][1]) for line in log if "eval_loss" in line])

    def test_the_value_of_an_evaluation_is_the_figure_that_decides_on_the_best(self):
        run_ok("run", self.settings(training__metric_for_best_model='"loss"', model__precision='"bf16"', training__optimizer='"lamb"', training__weight_decay="0.01"))
        lines = lines_of(self.folder)
        self.check_lines(lines)
        values = {line["key"]: line["value"] for line in lines}
        self.assertEqual((values["lowest_numerical_precision_in_linear"], values["lowest_numerical_precision_in_attn"], values["lowest_numerical_precision_in_comm"]), ("bfloat16", "bfloat16", "fp32"))
        self.assertEqual((values["opt_name"], values["opt_lamb_weight_decay_rate"]), ("lamb", 0.01))
        log = [json.loads(line) for line in (self.folder / "run" / "log.jsonl").read_text().splitlines()]
        self.assertEqual([line["value"] for line in lines if line["key"] == "eval_accuracy"], [line["eval_loss"] for line in log if "eval_loss" in line])

    def test_the_run_starts_before_the_first_byte_of_the_data_is_read(self):
        """Opening the manifest never ends; by then the log has run_start, and nothing that needs the data."""
        rows = write_rows(self.folder / "stuck.jsonl", ROWS)
        process = subprocess.Popen([str(PROGRAM), "run", str(self.settings(data__train_file=rows))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "LD_PRELOAD": preloaded("stuck_open")})
        log = self.folder / "run" / "mlperf_log.txt"
        try:
            wait_for(lambda: log.exists() and "run_start" in log.read_text())
            self.assertIsNone(process.poll())
        finally:
            process.kill()
            process.wait()
        self.assertEqual(keys_of(self.folder)[-1], "run_start")
        run_ok("run", self.settings())  # begins anew, in the folder that is its own
        self.check_lines(lines_of(self.folder))

    def test_a_killed_run_that_resumes_is_no_result(self):
        toml = self.settings(training__max_steps="60", training__save_steps="1", training__eval_steps="30", machine__step_seconds="0.03")
        process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: (self.folder / "run" / "checkpoint-2").exists())
        process.kill()
        process.wait()
        run_ok("run", toml)
        keys = keys_of(self.folder)
        self.assertEqual([keys.count(key) for key in ("init_start", "run_start", "bascule_resumed", "run_stop")], [1, 1, 1, 1])
        self.assertEqual(status_of(self.folder), ["aborted"])
        self.assertRegex(self.results().stderr, r"the run was resumed after update [0-9]+: that is no MLPerf result; train it from the beginning")

    def test_a_stopped_run_is_aborted(self):
        toml = self.settings(training__max_steps="100000", training__save_steps="2", training__eval_steps="50000")
        process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: (self.folder / "run" / "checkpoint-2").exists())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)
        self.assertEqual(status_of(self.folder), ["aborted"])

    def test_a_finished_run_that_is_evaluated_again_keeps_its_log(self):
        self.assertEqual(run("run", self.settings()).returncode, 0)
        before = (self.folder / "run" / "mlperf_log.txt").read_bytes()
        again = run_ok("run", self.settings(data__max_eval_samples="4"))
        self.assertIn("evaluating it again", again.stderr)
        self.assertEqual((self.folder / "run" / "mlperf_log.txt").read_bytes(), before)

    def test_two_ranks_write_one_log(self):
        run_ok("run", self.settings(distributed__world_size="2", training__per_device_train_batch_size="2"))
        lines = lines_of(self.folder)
        self.check_lines(lines)
        values = {line["key"]: line["value"] for line in lines}
        self.assertEqual((values["global_batch_size"], values["micro_batch_size"]), (4, 2))

    def test_without_the_key_there_is_no_log(self):
        self.assertEqual(run("run", self.settings(report__mlperf_log=None)).returncode, 0)
        self.assertFalse((self.folder / "run" / "mlperf_log.txt").exists())

    def test_a_log_that_cannot_be_written_stops_no_run(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "bascule.json").write_text('{"finished": false, "settings_digest": "", "format": 1}')
        (self.folder / "run" / "mlperf_log.txt").symlink_to("/dev/full")
        done = run_ok("run", self.settings())
        self.assertIn("bascule: mlperf_log.txt could not be written; lines are missing\n", done.stderr)

    def test_what_cannot_have_a_log_is_refused(self):
        cases = {"report.mlperf_log needs evaluations, but data.validation_file is missing or training.do_eval = false": self.settings(data__validation_file=None, training__eval_steps=None)}
        self.assert_refused(cases)
        self.assert_refused({"report.mlperf_log needs training, but data.train_file is missing or training.do_train = false": self.settings(training__do_train="false", training__max_steps=None)})
        self.assert_refused({"report.mlperf_log has no effect in a run that draws": drawing(self.folder, tables='[report]\nmlperf_log = "Example"\n')})

    def assert_refused(self, cases):
        for words, toml in cases.items():
            with self.subTest(words=words):
                done = run("plan", toml)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                self.assertIn(words, done.stderr)

    def results(self, *options, runs=None):
        shutil.rmtree(self.folder / "laid_out", ignore_errors=True)
        words = [sys.executable, ROOT / "tools/mlperf_results", *(runs or [self.folder / "run"]), self.folder / "laid_out", *options]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def test_results_are_laid_out(self):
        toml, second = self.settings(), self.folder / "second"
        self.assertEqual(run("run", toml).returncode, 0)
        self.assertEqual(run("run", toml, "training.seed=7", f"training.output_dir={second}").returncode, 0)
        done = self.results("--system", "lab", "--set", "cooling=air", runs=[self.folder / "run", second / "bascule.json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = self.folder / "laid_out"
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        place = "bridgetower_contrastive"
        self.assertEqual(files, [f"benchmarks/{place}/implementations/bascule/lab/README.md", f"benchmarks/{place}/implementations/bascule/lab/settings.toml",
                                 f"results/lab/{place}/result_0.txt", f"results/lab/{place}/result_1.txt", "systems/lab.json"])
        self.assertEqual((folder / "results/lab" / place / "result_1.txt").read_bytes(), (second / "mlperf_log.txt").read_bytes())
        system = json.loads((folder / "systems/lab.json").read_text())
        self.assertEqual((system["submitter"], system["system_name"], system["cooling"], system["accelerators_per_node"]), ("Example", "lab", "air", "0"))
        self.assertTrue(all(isinstance(value, str) for value in system.values()))
        machine = json.loads((self.folder / "run" / "bascule.json").read_text())["record"]["machine"]
        self.assertEqual((system["host_processor_model_name"], system["host_processor_vcpu_count"]), (machine["processor"]["name"], str(len(machine["cores"]))))
        self.assertIn("training.seed` of the results: 42, 7", (folder / f"benchmarks/{place}/implementations/bascule/lab/README.md").read_text())

        again = self.results(runs=[self.folder / "run", self.folder / "run"])
        self.assertIn("have the same training.seed: they are the same run twice; train each with a seed of its own", again.stderr)
        third = self.folder / "third"
        self.assertEqual(run("run", toml, "training.seed=8", "training.max_steps=2", f"training.output_dir={third}").returncode, 0)
        self.assertIn("its settings differ from those of", self.results(runs=[self.folder / "run", third]).stderr)
        self.assertIn("max_steps", self.results(runs=[self.folder / "run", third]).stderr)
        for wrong, words in ((self.folder, "it has no bascule.json"), (second, "has no mlperf_log.txt")):
            (second / "mlperf_log.txt").unlink(missing_ok=True)
            self.assertIn(words, self.results(runs=[wrong]).stderr)
        self.assertIn("has no such field", self.results("--set", "colour=red").stderr)

    def test_the_checker_is_run_on_its_rules_less_one_call(self):
        loader = importlib.machinery.SourceFileLoader("check_mllog", str(ROOT / "tools/check_mllog"))
        tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_mllog", loader))
        loader.exec_module(tool)
        rules = "# enqueue_config is described here\n- BEGIN:\n- KEY:\n    POST:  \" enqueue_config('training_6.1.0/{}_common.yaml'.format(v['value'])); s['compile_time_mins'] = 240 if v['value'] == 'open' else 30 \"\n"
        self.assertIn("POST:  \" s['compile_time_mins'] = 240 if", tool.without_call(rules))
        with self.assertRaises(SystemExit):
            tool.without_call(rules + "    POST:  \" enqueue_config('training_6.1.0/open_bert.yaml') \"\n")

    def test_mlperfs_own_checkers_pass(self):
        python = os.environ.get("BASCULE_MLPERF_PYTHON")
        if not python:
            self.skipTest("BASCULE_MLPERF_PYTHON names no Python with mlperf-logging")
        runs = []
        for head in ("token", "masked_lm", "sequence_classification", "conditional_generation", "contrastive"):
            place = self.folder / head
            place.mkdir()
            changes = {} if head == "contrastive" else {**HEADS[head], "training__max_steps": "6", "training__eval_steps": "3"}
            validation = {"data__validation_file": write_rows(place / "validation.jsonl", ROWS[:5])} if head == "contrastive" else {}
            toml = small_settings(place, **validation, report__mlperf_log='"Example"') if head == "contrastive" else prepared(place, {**changes, "report__mlperf_log": '"Example"'})
            run_ok("run", toml)
            self.check_lines(lines_of(place))
            runs.append(place / "run")
        self.assertEqual(self.results(runs=runs).returncode, 0)
        check = [python, ROOT / "tools/check_mllog", "--werror"]
        done = subprocess.run([*check, self.folder / "laid_out"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"(?m): passed$", done.stdout)), 5 * 3 + 2)
        log = self.folder / "token" / "run" / "mlperf_log.txt"
        log.write_text("".join(line for line in log.read_text().splitlines(True) if '"train_samples"' not in line))
        done = subprocess.run([*check, log], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 7, done.stdout)
        self.assertIn("train_samples", done.stdout)
