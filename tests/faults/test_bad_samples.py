# SPDX-License-Identifier: Apache-2.0
"""on_bad_sample = "skip": every sample that was skipped is counted and named, in every split and over a stop of the run."""
import json
import shutil
import signal
import subprocess

from bascule_run import EMOJI, PROGRAM, FolderTest, digest, run, run_ends, run_ok, settings


class BadSamples(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "p").mkdir()
        pictures = sorted((EMOJI / "images").glob("*.jpg"))[:24]
        for number, picture in enumerate(pictures):
            shutil.copy(picture, self.folder / f"p/{number}.jpg")
        with open(self.folder / "p/7.jpg", "r+b") as file:
            file.truncate(300)
        (self.folder / "rows.jsonl").write_text("".join(
            json.dumps({"image": f"p/{number}.jpg", "caption": f"number {number}"}) + "\n" for number in range(24)))

    def settings(self, name, **changes):
        (self.folder / name).mkdir()
        return settings(self.folder / name, **{"data__train_file": f'"{self.folder}/rows.jsonl"', "data__on_bad_sample": '"skip"',
                                               "training__max_steps": "6", **changes})

    def results(self, name):
        return json.loads((self.folder / name / "run/all_results.json").read_text())

    def test_are_named_in_every_split(self):
        done = run_ok("run", self.settings("all", data__test_file=f'"{self.folder}/rows.jsonl"'))
        results = self.results("all")
        self.assertEqual(results["bad_samples_count"], 3)  # two epochs of training, and the test
        self.assertEqual(results["loader_bad_samples"], 2)
        self.assertEqual([bad["split"] for bad in results["bad_samples"]], ["train", "train", "test"])
        for bad in results["bad_samples"]:
            self.assertEqual(bad["row"], f"{self.folder}/rows.jsonl:8")
            self.assertEqual(bad["picture"], "p/7.jpg")
            self.assertEqual(bad["reason"], "the JPEG file is truncated")
        self.assertIsNone(results["bad_samples"][2]["replaced_by"])
        self.assertEqual((results["train_samples"], results["train_skipped_rows"], results["train_replaced_samples"]), (24, 1, 2))
        self.assertEqual((results["test_samples"], results["test_skipped_rows"]), (23, 1))
        notes = [line for line in done.stderr.splitlines() if "bad samples: train: 1 row skipped, 2 times in total" in line]
        self.assertEqual(len(notes), 1, done.stderr)
        self.assertIn("test: 1 row skipped, 23 evaluated", notes[0])
        self.assertIn("rows.jsonl:8: p/7.jpg: the JPEG file is truncated", notes[0])
        page = (self.folder / "all/run/report.html").read_text()
        self.assertIn("Skipped samples", page)
        self.assertIn("rows.jsonl:8", page)

    def test_may_be_missing_files(self):
        (self.folder / "p/3.jpg").unlink()
        changes = {"data__validation_file": f'"{self.folder}/rows.jsonl"', "data__test_file": f'"{self.folder}/rows.jsonl"'}
        toml = self.settings("missing", **changes)
        done = run_ok("plan", toml)
        self.assertIn("1 of 24 pictures", done.stderr)
        done = run_ok("run", toml)
        self.assertEqual(done.stderr.count(f"1 of 24 pictures of {self.folder}/rows.jsonl is missing, and its rows are skipped: "), 1, done.stderr)
        results = self.results("missing")
        self.assertEqual(results["bad_samples_count"], 8)  # two in each of two epochs, in the validation and in the test
        missing = [bad for bad in results["bad_samples"] if bad["picture"] == "p/3.jpg"]
        self.assertEqual([bad["split"] for bad in missing], ["train", "train", "validation", "test"])
        self.assertEqual({(bad["row"], bad["reason"]) for bad in missing}, {(f"{self.folder}/rows.jsonl:4", "the file is missing")})
        self.assertEqual((results["train_skipped_rows"], results["validation_samples"], results["test_samples"]), (2, 22, 22))
        # The same samples are skipped where the run goes on, and a file that is back again is read from then on.
        shorter = self.settings("parts", **changes, training__max_steps="3", training__lr_schedule_steps="6")
        self.assertEqual(run("run", shorter).returncode, 0)
        shorter.write_text(shorter.read_text().replace("max_steps = 3", "max_steps = 6"))
        run_ok("run", shorter)
        self.assertEqual(digest(self.folder / "parts/run/model.safetensors"), digest(self.folder / "missing/run/model.safetensors"))
        shutil.copy(self.folder / "p/4.jpg", self.folder / "p/3.jpg")
        shorter.write_text(shorter.read_text().replace("max_steps = 6", "max_steps = 9"))
        run_ok("run", shorter)
        self.assertEqual(self.results("parts")["validation_samples"], 23)

    def test_are_refused_where_missing_files_are_not_skipped(self):
        (self.folder / "p/3.jpg").unlink()
        done = run_ends(3, "run", self.settings("stops", data__on_bad_sample=None))
        self.assertIn('rows.jsonl:4: ', done.stderr)
        self.assertIn('p/3.jpg: No such file or directory; restore it, remove the row, or set data.on_bad_sample = "skip"', done.stderr)
        bad = self.folder / "p/3.jpg"
        for name, make, remove in (("folder", bad.mkdir, bad.rmdir), ("loop", lambda: bad.symlink_to(bad), bad.unlink)):
            make()
            self.assertRegex(run_ends(3, "run", self.settings(name)).stderr, 'rows.jsonl:4: .*p/3.jpg: .*; put a picture in its place, or remove the row: data.on_bad_sample = "skip" skips only files that are missing')
            remove()
        for number in range(24):
            (self.folder / f"p/{number}.jpg").unlink(missing_ok=True)
        self.assertIn("and no other picture was found either; check the paths", run_ends(3, "run", self.settings("empty")).stderr)

    def test_are_counted_also_where_the_run_was_stopped(self):
        changes = {"training__max_steps": "90", "training__save_steps": "0"}
        run_ok("run", self.settings("whole", **changes))
        toml = self.settings("stopped", **changes)
        steps = 0
        with subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if " step " in line:
                    steps += 1
                    if steps == 10:
                        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(run("run", toml).returncode, 0)
        for key in ("bad_samples", "bad_samples_count", "loader_bad_samples"):
            self.assertEqual(self.results("stopped")[key], self.results("whole")[key], key)
        self.assertEqual(self.results("whole")["bad_samples_count"], 30)
        self.assertEqual(digest(self.folder / "stopped/run/model.safetensors"), digest(self.folder / "whole/run/model.safetensors"))
