# SPDX-License-Identifier: Apache-2.0
"""Keys of the settings on the command line count as if they stood in the file: in the results, the folder, the record, and in every rank."""
import json

from bascule_run import ROOT, FolderTest, digest, run, run_ends, run_ok
from small_run import DATA, ROWS, small_settings, write_rows

GIVEN = ["training.seed=7", "training.max_steps=2", "training.save_steps=1"]
WRITTEN = {"training__seed": "7", "training__max_steps": "2", "training__save_steps": "1"}


class CommandLineKeys(FolderTest):
    def settings(self, name, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return small_settings(folder, training__output_dir='"run"', model__model_name_or_path=f'"{DATA}/goldens/itc_add"', **changes)

    def finished(self, *arguments, **options):
        done = run_ok(*arguments, **options)
        return done

    def test_a_run_has_the_bits_and_the_digest_of_the_file_that_says_the_same(self):
        given, written = self.settings("given"), self.settings("written", data__train_file=f'"{self.folder}/rows.jsonl"', **WRITTEN)
        write_rows(self.folder / "rows.jsonl", ROWS)
        self.finished("run", given, *GIVEN, "training.output_dir=here", "data.train_file=rows.jsonl", cwd=self.folder)
        self.finished("run", written)
        ours, theirs = self.folder / "here", self.folder / "written" / "run"
        self.assertEqual(digest(ours / "model.safetensors"), digest(theirs / "model.safetensors"))
        marker, other = [json.loads((folder / "bascule.json").read_text()) for folder in (ours, theirs)]
        self.assertEqual(marker["settings_digest"], other["settings_digest"])
        self.assertIn(f'train_file = "{self.folder}/rows.jsonl"\n', marker["settings"])
        self.assertIn("\nseed = 7\n", marker["settings"])
        self.assertFalse((self.folder / "given" / "run").exists())
        # Its record knows the keys beside the file.
        check = self.finished("reproduce", "--check", ours)
        self.assertIn("nothing differs", check.stdout)
        given.write_text("# another file of the same settings\n" + given.read_text())
        check = run("reproduce", "--check", ours)
        self.assertIn("but no setting does (bits are still promised)", check.stdout)
        self.assertIn("equal bits", self.finished("reproduce", ours, "--output", self.folder / "again").stdout)

    def test_the_digest_that_resume_compares_has_them(self):
        toml = self.settings("run")
        self.finished("run", toml, "training.save_steps=1")
        self.assertIn("already finished", self.finished("run", toml, "training.save_steps=1").stderr)
        done = run_ends(2, "run", toml, "training.learning_rate=0.5", "training.max_steps=4")
        self.assertIn("command line: ", done.stderr)
        self.assertIn("training.learning_rate", done.stderr)
        self.finished("run", toml, "training.max_steps=4")
        history = json.loads((self.folder / "run" / "run" / "bascule.json").read_text())["history"]
        self.assertIn("training.max_steps", [entry["key"] for entry in history])

    def test_ranks_have_the_same_values(self):
        if "MPI: none" in run("--version").stdout:
            self.skipTest("built without MPI")
        given, written = self.settings("given"), self.settings("written", distributed__world_size="2", training__per_device_train_batch_size="2", **WRITTEN)
        write_rows(self.folder / "rows.jsonl", ROWS)
        self.finished("run", given, *GIVEN, "distributed.world_size=2", "training.per_device_train_batch_size=2", "data.train_file=rows.jsonl", "training.output_dir=here", cwd=self.folder)
        self.finished("run", written)
        self.assertEqual(digest(self.folder / "here" / "model.safetensors"), digest(self.folder / "written" / "run" / "model.safetensors"))

    def test_settings_plan_and_bench_take_them(self):
        given, written = self.settings("given"), self.settings("written", training__per_device_train_batch_size="6")
        key = "training.per_device_train_batch_size=6"
        for command in (["settings"], ["settings", "--json"], ["settings", "--resume"], ["plan", "--json"], ["plan", "--json", "--inputs"]):
            ours, theirs = [self.finished(command[0], *arguments, *command[1:]).stdout for arguments in ([given, key], [written])]
            self.assertEqual(ours.replace("given", "written"), theirs, command)
        unit = self.folder / "run.service"
        self.finished("plan", given, key, "--unit", unit)
        self.assertIn(f'run "{given}" "{key}"\n', unit.read_text())
        bench = json.loads(self.finished("bench", given, key, "--steps", "1", "--warmup", "0", "--json").stdout)
        self.assertIn("batch", json.dumps(bench))
        self.assertEqual(run("bench", given, "training.per_device_train_batch_size=0").returncode, 2)

    def test_of_a_run_that_draws(self):
        text = self.finished("settings", ROOT / "config" / "sd_demo.toml", "draw.seed=3", "draw.prompts_file=p.txt", "draw.prompts=[]", cwd=self.folder).stdout
        self.assertIn("\nseed = 3\n", text)
        self.assertIn(f'\nprompts_file = "{self.folder}/p.txt"\n', text)

    def test_what_is_wrong_is_one_line(self):
        toml = self.settings("run")
        for command in ("run", "plan", "doctor", "bench", "settings"):
            for arguments, line in {
                (toml, "training.sed=7"): 'command line: unknown key "sed" in [training]; did you mean "seed"?',
                (toml, "training.seed=7", "training.seed=8"): "command line: training.seed is given twice; give it once",
                (toml, "x"): 'command line: unexpected argument "x"; write a key of the settings as TABLE.KEY=VALUE, such as training.seed=7',
                ("training.seed=7", toml): "training.seed=7: cannot be read: No such file or directory; name the TOML file before keys of its settings",
            }.items():
                done = run_ends(2, command, *arguments, cwd=self.folder)
                self.assertEqual(done.stderr, f"bascule: {line}\n")
