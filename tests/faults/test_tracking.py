# SPDX-License-Identifier: Apache-2.0
"""report.tracking = "mlflow": the store holds what log.jsonl holds, whatever kills the run, and several runs share it."""
import collections
import json
import signal
import subprocess

from bascule_run import EMOJI, PROGRAM, FolderTest, run, settings, wait_for, run_ok

TRACKED = {"report__tracking": '"mlflow"', "data__validation_file": f'"{EMOJI}/validation.jsonl"', "data__max_eval_samples": "8", "training__eval_steps": "3"}


def points_of_log(folder):
    """Per metric the lines that its file has."""
    points = collections.defaultdict(list)
    for line in map(json.loads, (folder / "log.jsonl").read_text().splitlines()):
        for key in set(line) - {"step", "time"}:
            points[key].append((int(line["time"] * 1000.0), float(line[key]), line["step"]))
    return points


class Tracking(FolderTest):
    def setUp(self):
        super().setUp()
        self.store = self.folder / "mlruns"

    def tracked(self, folder):
        """The run's folder in the store."""
        return self.store / "0" / (folder / ".mlflow-run").read_text().split()[0]

    def points(self, folder):
        return {file.name: [(int(time), float(value), int(step)) for time, value, step in map(str.split, file.read_text().splitlines())]
                for file in (self.tracked(folder) / "metrics").iterdir()}

    def meta(self, folder):
        return dict(line.split(": ", 1) for line in (self.tracked(folder) / "meta.yaml").read_text().splitlines())

    def finished(self, *arguments):
        done = run_ok(*arguments)
        return done

    def test_a_run_that_is_killed_and_stopped_has_each_point_once(self):
        toml, folder = settings(self.folder, **TRACKED, training__max_steps="40"), self.folder / "run"
        for end, state in ((signal.SIGKILL, "1"), (signal.SIGTERM, "5")):
            process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            seen = len((folder / "log.jsonl").read_text().splitlines()) if folder.exists() else 0
            wait_for(lambda: (folder / "log.jsonl").exists() and len((folder / "log.jsonl").read_text().splitlines()) > seen + 6 or process.poll() is not None)
            process.send_signal(end)
            process.communicate()
            self.assertEqual(self.meta(folder)["status"], state)
            identity = self.tracked(folder)
        with (identity / "metrics" / "loss").open("a") as torn:
            torn.write("17000")
        done = self.finished("run", toml)
        self.assertEqual(self.points(folder), points_of_log(folder))
        self.assertEqual(self.tracked(folder), identity)
        self.assertEqual(len(list((self.store / "0").iterdir())), 2)
        self.assertEqual((self.meta(folder)["status"], self.meta(folder)["run_name"]), ("3", '"run"'))
        self.assertIn(f"report: to watch, MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri file://{self.store}", done.stderr)
        results = {path.name for path in (identity / "artifacts").iterdir()}
        self.assertLessEqual({"README.md", "report.html", "all_results.json", "log.jsonl", "config.json"}, results)
        self.assertFalse([name for name in results if name.endswith(".safetensors")])
        self.assertEqual((identity / "params" / "training.learning_rate").read_text(), "0.001")
        self.assertEqual((identity / "params" / "data.train_file").read_text(), f"{EMOJI}/train.jsonl")
        # A repetition is no run of its own, and writes nothing.
        self.finished("reproduce", folder, "--output", self.folder / "again")
        self.assertEqual(len(list((self.store / "0").iterdir())), 2)
        self.assertFalse((self.folder / "again" / ".mlflow-run").exists())

    def test_runs_share_a_store_at_the_same_time(self):
        toml = settings(self.folder, **TRACKED, training__max_steps="6", report__tracking_dir=f'"{self.store}"')
        runs = [subprocess.Popen([str(PROGRAM), "run", str(toml), f"training.output_dir={self.folder}/{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for i in range(3)]
        for process in runs:
            self.assertEqual((process.wait(), process.communicate()[1])[0], 0)
        for i in range(3):
            self.assertEqual(self.points(self.folder / str(i)), points_of_log(self.folder / str(i)))
        self.assertEqual(len(list((self.store / "0").iterdir())), 4)

    def test_of_ranks_the_first_writes_and_a_store_may_be_named_when_the_run_is_finished(self):
        toml = settings(self.folder, **TRACKED, training__max_steps="4", distributed__world_size="2")
        self.finished("run", toml)
        self.assertEqual(self.points(self.folder / "run"), points_of_log(self.folder / "run"))
        self.assertEqual(len(list((self.store / "0").iterdir())), 2)
        self.store = self.folder / "later"
        for says in (True, False):
            done = self.finished("run", toml, f"report.tracking_dir={self.store}")
            self.assertEqual(f"report: to watch, MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri file://{self.store}" in done.stderr, says)
            self.assertEqual(self.points(self.folder / "run"), points_of_log(self.folder / "run"))
        self.assertEqual(self.meta(self.folder / "run")["status"], "3")
        self.assertIn("report.html", {path.name for path in (self.tracked(self.folder / "run") / "artifacts").iterdir()})

    def test_where_nothing_can_be_written(self):
        (self.folder / "file").write_text("")
        toml = settings(self.folder, **TRACKED, training__max_steps="4")
        done = run("run", toml, f"report.tracking_dir={self.folder}/file")
        self.assertEqual((done.returncode, done.stderr.splitlines()[-1]),
                         (6, f"bascule: {self.folder}/file: is not a folder; set report.tracking_dir to a folder that the run may write to, or report.tracking = \"none\""))
        unit = run("plan", toml, "--unit", self.folder / "a.service")
        self.assertEqual((unit.returncode, unit.stderr.splitlines()[-1]),
                         (2, f"bascule: {toml}:{self.line_of(toml, 'tracking')}: report.tracking writes to {self.store}, but a unit may write to training.output_dir alone; set report.tracking_dir to a folder in it"))
        self.finished("plan", toml, "--unit", self.folder / "a.service", f"report.tracking_dir={self.folder}/run/mlruns")
        self.finished("bench", toml, "--steps", "1", "--warmup", "0")
        self.assertFalse(self.store.exists())

    def line_of(self, toml, key):
        lines = toml.read_text().splitlines()
        number = next(i for i, line in enumerate(lines) if line.startswith(key + " "))
        return f"{number + 1}:{lines[number].index('=') + 3}"
