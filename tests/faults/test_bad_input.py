# SPDX-License-Identifier: Apache-2.0
"""Contract 5: bad input gets one clear line and the right exit code, and nothing is lost."""
import json
import re
import shutil
import struct
import unicodedata

from bascule_run import EMOJI, ROOT, FolderTest, run, settings, run_ok

GOLDEN = ROOT / "tests" / "data" / "goldens" / "itc_add"
SETTINGS, DATA, MEMORY = 2, 3, 4
# What a run says of itself before the error.
INFORMATION = re.compile(r"bascule: (plan|start|memory|seal|resume|train): |bascule: weights: (\d+ tensors?|initialised|not used|.* missing from the checkpoint)")


class BadInput(FolderTest):
    def refused(self, code, *words, toml=None, cwd=None, **changes):
        done = run("run", toml if toml is not None else settings(self.folder, **changes), cwd=cwd)
        errors = [line for line in done.stderr.splitlines() if not INFORMATION.match(line)]
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(len(errors), 1, done.stderr)
        for word in words:
            self.assertIn(word, errors[0])
        self.assertNotIn("bug", errors[0])

    def manifest(self, *rows):
        path = self.folder / "rows.jsonl"
        path.write_bytes(b"".join((json.dumps(row).encode() if isinstance(row, dict) else row) + b"\n" for row in rows))
        return f'"{path}"'

    def good_row(self, name="1f004.jpg"):
        return {"image": str(EMOJI / "images" / name), "caption": "a tile"}

    def weights(self, change):
        """A copy of a small checkpoint with model.safetensors passed through `change`; returns settings that use it."""
        model = self.folder / "model"
        shutil.copytree(GOLDEN, model)
        shutil.copy(EMOJI / "tokenizer" / "vocab.json", model)
        shutil.copy(EMOJI / "tokenizer" / "merges.txt", model)
        config = json.loads((model / "config.json").read_text())
        config["text_config"]["max_position_embeddings"] = 20
        (model / "config.json").write_text(json.dumps(config))
        data = change((model / "model.safetensors").read_bytes())
        (model / "model.safetensors").write_bytes(data)
        # The tokenizer has more tokens than this model; the captions of this manifest need none of them.
        return {"model__model_name_or_path": f'"{model}"', "model__from_scratch": None, "data__max_seq_length": "18",
                "data__train_file": self.manifest({"image": str(EMOJI / "images" / "1f004.jpg"), "caption": ""})}

    def test_unknown_key_names_the_nearest(self):
        self.refused(SETTINGS, "run.toml:", "learning_rat", "learning_rate", training__learning_rat="1e-3")

    def test_wrong_type_and_range(self):
        self.refused(SETTINGS, "max_steps", training__max_steps='"many"')
        self.refused(SETTINGS, "adam_beta1", training__adam_beta1="1.5")
        self.refused(SETTINGS, "adam_epsilon", training__adam_epsilon="1e-45")

    def test_missing_files(self):
        self.refused(DATA, "nowhere.jsonl", data__train_file='"nowhere.jsonl"')
        self.refused(DATA, "nowhere: there is no such folder", model__model_name_or_path='"nowhere"')
        self.refused(DATA, "rows.jsonl:2", "gone.jpg", data__train_file=self.manifest(self.good_row(), {"image": "gone.jpg", "caption": "x"}))
        self.refused(SETTINGS, "nowhere.toml", toml="nowhere.toml")

    def test_paths_are_those_that_work_where_the_user_stands(self):
        (self.folder / "rows.jsonl").write_text('{"image": "gone.jpg", "caption": "x"}\n')
        (self.folder / "config").mkdir()
        (self.folder / "config" / "run.toml").write_text(settings(self.folder, data__train_file='"../rows.jsonl"', training__output_dir='"../run"').read_text())
        for stands, toml, way in ((self.folder, "config/run.toml", ""), (self.folder / "config", "run.toml", "../")):
            self.refused(DATA, f"bascule: {way}rows.jsonl:1: {way}gone.jpg: No such file", toml=toml, cwd=stands)
        (self.folder / "run").mkdir(exist_ok=True)
        (self.folder / "run" / "thesis.tex").write_text("mine")
        self.refused(SETTINGS, "run.toml:", ": run contains other files", toml="config/run.toml", cwd=self.folder)

    def test_a_name_in_another_unicode_form_is_said(self):
        form = "but the same name exists in another Unicode form; rename the file, or copy its name from a list of the folder"
        other = lambda name: unicodedata.normalize("NFD", name)
        shutil.copy(EMOJI / "images" / "1f004.jpg", self.folder / other("caf\u00e9.jpg"))
        row = {"image": "caf\u00e9.jpg", "caption": "x"}
        rows = self.manifest(row, row)
        self.refused(DATA, "rows.jsonl:1: ", "No such file or directory, " + form, data__train_file=rows)
        self.refused(DATA, "rows.jsonl:1: ", "No such file or directory, but the same name exists in another Unicode form, and no other picture",
                     data__train_file=rows, data__on_bad_sample='"skip"')
        diagnosis = run("doctor", "--json", settings(self.folder, data__train_file=self.manifest(self.good_row(), row))).stdout
        self.assertIn("the file is missing, but the same name exists in another Unicode form", diagnosis)
        (self.folder / other("h\u00e9") / "\u304c").mkdir(parents=True)  # one character of two differs
        (self.folder / other("h\u00e9") / "\u304c" / "rows.jsonl").touch()
        self.refused(DATA, "rows.jsonl: cannot be ", "No such file or directory, " + form, data__train_file=f'"{self.folder}/h\u00e9/\u304c/rows.jsonl"')
        shutil.copy(settings(self.folder), self.folder / other("r\u00fcn.toml"))
        self.refused(SETTINGS, form, toml=self.folder / "r\u00fcn.toml")
        self.assertNotIn("Unicode", run("run", settings(self.folder, data__train_file=f'"{self.folder}/h\u00eb.jsonl"')).stderr)

    def test_paths_that_a_shell_would_expand(self):
        self.refused(SETTINGS, "run.toml:", 'training.output_dir = "~/runs": "~" is not expanded', training__output_dir='"~/runs"')
        self.refused(SETTINGS, "run.toml:", '"$SCRATCH" is not expanded', training__output_dir='"$SCRATCH/run"')
        self.assertFalse((self.folder / "~").exists() or (self.folder / "$SCRATCH").exists())

    def test_a_name_of_the_hub_is_not_downloaded(self):
        self.refused(DATA, "run.toml:", "Bascule downloads nothing", "`hf download BridgeTower/bridgetower-base --local-dir ",
                     model__model_name_or_path='"BridgeTower/bridgetower-base"')
        self.assertNotIn("hf download my", run("run", settings(self.folder, model__model_name_or_path='"my models/base"')).stderr)

    def test_manifest_rows(self):
        self.refused(DATA, "rows.jsonl:2", "caption", data__train_file=self.manifest(self.good_row(), {"image": "a.jpg"}))
        self.refused(DATA, "rows.jsonl", data__train_file=self.manifest())
        self.refused(DATA, "rows.jsonl:1", "UTF-8", data__train_file=self.manifest(b'{"image": "a.jpg", "caption": "\xff"}'))

    def test_pictures(self):
        whole = (EMOJI / "images" / "1f004.jpg").read_bytes()
        (self.folder / "cut.jpg").write_bytes(whole[: len(whole) // 2])
        (self.folder / "really.jpg").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
        for name in ("cut.jpg", "really.jpg"):
            rows = self.manifest(*[self.good_row()] * 7, {"image": str(self.folder / name), "caption": "x"})
            self.refused(DATA, "rows.jsonl:8", name, data__train_file=rows)
            shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_a_bad_picture_is_skipped_where_that_is_asked_for(self):
        (self.folder / "cut.jpg").write_bytes(b"\xff\xd8\xff")
        rows = self.manifest(*[self.good_row()] * 15, {"image": str(self.folder / "cut.jpg"), "caption": "x"})
        run_ok("run", settings(self.folder, data__train_file=rows, data__on_bad_sample='"skip"'))

    def test_a_bad_validation_picture_is_named_by_its_own_manifest(self):
        (self.folder / "cut.jpg").write_bytes(b"\xff\xd8\xff")
        good = self.good_row()
        rows = "\n".join([json.dumps(good)] * 16 + [json.dumps({"image": str(self.folder / "cut.jpg"), "caption": "x"})])
        (self.folder / "validation.jsonl").write_text(rows + "\n")
        self.refused(DATA, "validation.jsonl:17", "cut.jpg", data__train_file=self.manifest(*[good] * 16),
                     data__validation_file=f'"{self.folder}/validation.jsonl"', training__eval_steps="2")

    def test_a_folder_with_a_run_is_not_taken_by_another(self):
        self.assertEqual(run("run", settings(self.folder)).returncode, 0)
        before = (self.folder / "run" / "bascule.json").read_bytes()
        self.refused(SETTINGS, "already holds a run", training__resume='"never"')
        validation = f'"{EMOJI}/validation.jsonl"'
        self.refused(SETTINGS, "does not train", data__validation_file=validation, training__do_train="false")
        self.assertEqual((self.folder / "run" / "bascule.json").read_bytes(), before)

    def test_the_results_of_an_evaluation_are_not_overwritten_by_a_training(self):
        changes = {"data__validation_file": f'"{EMOJI}/validation.jsonl"'}
        self.assertEqual(run("run", settings(self.folder, training__do_train="false", **changes)).returncode, 0)
        before = (self.folder / "run" / "validation_results.json").read_bytes()
        self.refused(SETTINGS, "holds the results of an evaluation", **changes)
        self.assertEqual((self.folder / "run" / "validation_results.json").read_bytes(), before)

    def test_checkpoints(self):
        huge = struct.pack("<Q", 100_000_000_000)
        overlap = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}).encode()
        beyond = json.dumps({"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
        changes = {
            "cut": lambda data: data[: len(data) // 2],
            "a header length of 100 GB": lambda data: huge + data[8:],
            "a header length of 100 MB": lambda data: struct.pack("<Q", 100_000_000) + data[8:],
            "overlapping offsets": lambda data: struct.pack("<Q", len(overlap)) + overlap + bytes(12),
            "huge offsets": lambda data: struct.pack("<Q", len(beyond)) + beyond + bytes(12),
            "no tensor that is needed": lambda data: struct.pack("<Q", 2) + b"{}",
        }
        for name, change in changes.items():
            with self.subTest(name):
                self.refused(DATA, "model", **self.weights(change))
                shutil.rmtree(self.folder / "model")
                shutil.rmtree(self.folder / "run", ignore_errors=True)

    def test_output_folder_that_holds_something_else(self):
        (self.folder / "run").mkdir()
        (self.folder / "run" / "thesis.tex").write_text("mine")
        self.refused(SETTINGS, "contains other files")
        self.assertEqual((self.folder / "run" / "thesis.tex").read_text(), "mine")
        (self.folder / "nowhere").symlink_to(self.folder / "gone")
        for above, what in (("run/thesis.tex", "not a folder"), ("nowhere", "a dangling symbolic link")):
            self.refused(SETTINGS, "run.toml:", f"lies below {self.folder}/{above}, which is {what}; choose an empty folder", training__output_dir=f'"{self.folder}/{above}/x/y"')

    def test_other_settings_on_resume_name_the_key(self):
        self.assertEqual(run("run", settings(self.folder)).returncode, 0)
        self.refused(SETTINGS, "training.learning_rate is 0.002", training__learning_rate="2e-3")

    def test_too_little_memory(self):
        self.refused(MEMORY, "machine.memory_limit_gib allows 10.2 MiB", machine__memory_limit_gib="0.01")
