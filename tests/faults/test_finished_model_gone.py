# SPDX-License-Identifier: Apache-2.0
"""A finished run whose model is gone is not called finished: what is missing is named, and where the same weights are kept."""
import json
import shutil

from bascule_run import FolderTest, run, run_ok
from small_run import DATA, small_settings

IN_DATA = 3


class FinishedModelGone(FolderTest):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "run"

    def finished(self, **changes):
        toml = small_settings(self.folder, **changes)
        run_ok("run", toml)
        return toml

    def refused(self, toml, *words):
        before = sorted(self.output.rglob("*"))
        done = run("run", toml)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (IN_DATA, 1), done.stderr)
        for word in ("the weights of the finished run are gone", *words):
            self.assertIn(word, done.stderr)
        self.assertEqual(sorted(self.output.rglob("*")), before)

    def is_finished(self, toml):
        done = run_ok("run", toml)
        self.assertIn("already finished", done.stderr)

    def test_result_files_that_are_gone_are_named_and_come_back(self):
        toml = self.finished()
        names = ["all_results.json", "report.html", "README.md", "train_results.json", "trainer_state.json"]
        model = (self.output / "model.safetensors").read_bytes()
        for name in names:
            (self.output / name).unlink()
        said = run("run", toml).stderr.splitlines()
        self.assertEqual(said[1:], [f"bascule: run: {self.output} lacks {', '.join(names)}: to write them again, remove {self.output}/bascule.json and run the same command, which goes on from the newest checkpoint and trains nothing"])
        done = run("run", toml, "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual((done.returncode, error["what"]), (IN_DATA, "is missing"))
        self.assertIn(f"remove {self.output}/bascule.json", error["what_to_do"])
        (self.output / "bascule.json").unlink()
        self.assertEqual(run("run", toml).returncode, 0)
        self.assertEqual([name for name in names if not (self.output / name).exists()], [])
        self.assertEqual((self.output / "model.safetensors").read_bytes(), model)
        self.assertEqual(len(run("run", toml).stderr.splitlines()), 1)

    def test_a_checkpoint_with_the_same_weights_is_named_and_serves(self):
        toml = self.finished(training__save_steps="1")
        model = self.output / "model.safetensors"
        content = model.read_bytes()
        model.write_bytes(content[:-1])
        self.refused(toml, f"copy them back from {self.output}/checkpoint-3")
        model.unlink()
        self.refused(toml, f"copy them back from {self.output}/checkpoint-3")
        shutil.copy(self.output / "checkpoint-3/model.safetensors", model)
        self.assertEqual(model.read_bytes(), content)
        self.is_finished(toml)

    def test_the_best_checkpoint_is_named_where_the_run_ended_with_its_weights(self):
        best = {"training__load_best_model_at_end": "true", "data__validation_file": f'"{DATA}/run_goldens/rows.jsonl"', "training__eval_steps": "1", "training__save_steps": "1",
                "training__learning_rate": "10.0"}
        toml = self.finished(**best)
        model = self.output / "model.safetensors"
        content = model.read_bytes()
        same = [path.parent.name for path in self.output.glob("checkpoint-*/model.safetensors") if path.read_bytes() == content]
        self.assertNotIn("checkpoint-3", same)
        self.assertEqual(len(same), 1)
        model.unlink()
        self.refused(toml, f"copy them back from {self.output}/{same[0]}")

    def test_without_a_checkpoint_what_to_do_is_said(self):
        toml = self.finished(training__ema_decay="0.5")
        for checkpoint in self.output.glob("checkpoint-*"):
            shutil.rmtree(checkpoint)
        for model in (self.output / "ema/model.safetensors", self.output / "model.safetensors"):
            content = model.read_bytes()
            model.unlink()
            self.refused(toml, str(model.parent), "restore them, or choose another output_dir to train again")
            model.write_bytes(content)
        self.is_finished(toml)
