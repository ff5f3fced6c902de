# SPDX-License-Identifier: Apache-2.0
"""`bascule list` of runs that are finished, running, stopped or missing."""
import json
import os
import pathlib
import signal
import subprocess
import time

from bascule_run import PROGRAM, SharedFolderTest, patient, run, run_ends, run_ok
from small_run import DATA, small_settings

ROWS = f'"{DATA}/run_goldens/rows.jsonl"'


class List(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.toml = small_settings(cls.folder, data__validation_file=ROWS, training__eval_steps="1", training__learning_rate="1e-3")
        for name, seed in (("a", 1), ("b", 2)):
            run_ok("run", cls.toml, f"training.seed={seed}", f"training.output_dir={cls.folder}/runs/{name}")

    def listed(self, *arguments):
        done = run_ok("list", *arguments, "--json")
        return json.loads(done.stdout)["runs"]

    def test_finished_runs_with_what_differs(self):
        runs = self.listed(self.folder / "runs")
        self.assertEqual([(one["run"], one["state"], one["step"], one["steps"]) for one in runs], [(f"{self.folder}/runs/{name}", "finished", 3, 3) for name in "ab"])
        self.assertEqual([one["settings"] for one in runs], [{"training.seed": "1"}, {"training.seed": "2"}])
        for one in runs:
            log = [json.loads(line) for line in (pathlib.Path(one["run"]) / "log.jsonl").read_text().splitlines()]
            self.assertEqual(one["loss"], [line["loss"] for line in log if "loss" in line][-1])
            best = min((line["eval_loss"], line["step"]) for line in log if "eval_loss" in line)
            self.assertEqual((one["best"]["figure"], one["best"]["value"], one["best"]["step"]), ("eval_loss", *best))
            self.assertGreater(one["seconds"], 0.0)
        text = run("list", "runs", cwd=self.folder).stdout
        self.assertRegex(text, r"(?m)^runs/a  finished     3 ")
        self.assertIn("    training.seed=2\n", text)

    def runs_until(self, end, name, *keys):
        """A run of many updates is listed while it is at work, and after `end` of its process."""
        folder = self.folder / name / "run"
        process = subprocess.Popen([str(PROGRAM), "run", str(self.toml), f"training.output_dir={folder}", "training.max_steps=1000000", "machine.step_seconds=0.05", "report.status_seconds=0.1", "data.validation_file=", "training.eval_steps=0", *keys],
                                   stderr=subprocess.PIPE, text=True)
        try:
            for _ in range(600):
                if (folder / "log.jsonl").exists() and (folder / "log.jsonl").read_text().count("\n") > 1:
                    break
                time.sleep(0.05)
            one, = self.listed(self.folder / name)
            self.assertEqual((one["state"], one["steps"]), ("running", 1000000))
            self.assertGreater(one["step"], 0)
        finally:
            process.send_signal(end)
            process.communicate(timeout=patient(60))
        one, = self.listed(self.folder / name)
        self.assertEqual(one["state"], "stopped")
        self.assertIsNone(one["best"])

    def test_a_run_at_work_and_one_that_was_killed(self):
        self.runs_until(signal.SIGKILL, "work")

    def test_a_run_of_two_ranks_at_work_and_one_that_was_stopped(self):
        if "MPI: none" in run("--version").stdout:
            self.skipTest("built without MPI")
        self.runs_until(signal.SIGTERM, "ranks", "distributed.world_size=2", "training.per_device_train_batch_size=2")

    def test_a_page_of_curves(self):
        page = self.folder / "page.html"
        run_ok("list", self.folder / "runs", "--html", page)
        text = page.read_text()
        for part in ("Validation: loss", "Learning rate", "training.seed", f"{self.folder}/runs/b"):
            self.assertIn(part, text)
        self.assertNotIn("<script", text)
        for i in range(9):  # a chart has eight colours
            copy = self.folder / "many" / str(i)
            copy.mkdir(parents=True)
            for name in ("bascule.json", "log.jsonl"):
                os.link(self.folder / "runs" / "a" / name, copy / name)
        done = run("list", self.folder / "many", "--html", page)
        self.assertEqual((done.returncode, done.stderr), (2, "bascule: --html: 9 runs have curves, and a chart shows at most 8; name the folders of the runs to compare\n"))
        done = run_ends(2, "list", self.folder / "runs", "--html", self.folder / "runs" / "a" / "report.html")

    def test_where_there_is_no_run(self):
        empty = self.folder / "empty"
        empty.mkdir()
        done = run("list", empty)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", f"bascule: list: no run in {empty}\n"))
        self.assertEqual(self.listed(empty), [])
        done = run_ends(2, "list", self.folder / "nowhere")
        self.assertEqual(done.stderr.count("\n"), 1)
