# SPDX-License-Identifier: Apache-2.0
"""data.validation_share with every form of data of every family: rows are divided once, all of them, and the run says how many."""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import tarfile

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, digest, run, run_ends, run_ok, settings, wait_for

DATA = ROOT / "tests" / "data"
ROWS = [json.loads(line) for line in (EMOJI / "train.jsonl").read_text().splitlines()][:120]
NOTE = re.compile(r"data\.validation_share = 0\.25: ([\d,]+) of ([\d,]+) (rows|documents|lines) of .* are held out \(([\d.]+) %\)")
COMMON = {"data__train_file": None, "data__max_seq_length": None, "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "2", "training__save_steps": "0",
          "training__logging_steps": "1", "data__validation_share": "0.25", "model__tokenizer_name": None}
PICTURES = {**COMMON, "model__model_name_or_path": f'"{DATA}/emoji-classes/model"', "data__preprocessing": '"training"'}
TEXTS = {**COMMON, "model__model_name_or_path": f'"{DATA}/text-corpus/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "data__max_seq_length": "32"}
CORPUS = {**TEXTS, "data__train_file": f'"{DATA}/text-corpus/validation.txt"'}
TARGETS = {**COMMON, "model__model_name_or_path": f'"{DATA}/emoji-keywords/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/unigram"', "data__text_column": '"text"', "data__summary_column": '"summary"',
           "data__train_file": f'"{DATA}/emoji-keywords/test.jsonl"', "data__max_source_length": "32", "data__max_target_length": "40"}
CAPTIONS = {"data__validation_share": "0.25", "training__max_steps": "2", "training__save_steps": "0", "training__logging_steps": "1"}


class ValidationShare(FolderTest):
    def manifest(self, rows, name="rows.jsonl"):
        (self.folder / name).write_text("".join(json.dumps({**row, "image": str(EMOJI / row["image"])}) + "\n" for row in rows))
        return f'"{self.folder}/{name}"'

    def class_folder(self):
        for row in [json.loads(line) for line in (DATA / "emoji-classes" / "test.jsonl").read_text().splitlines()]:
            folder = self.folder / "classes" / str(row["label"])
            folder.mkdir(parents=True, exist_ok=True)
            source = (DATA / "emoji-classes" / row["image"]).resolve()
            shutil.copy(source, folder / source.name)
        return f'"{self.folder}/classes"'

    def table(self, ending):
        path = self.folder / f"rows.{ending}"
        rows = [(str(EMOJI / row["image"]), row["caption"]) for row in ROWS]
        if ending == "json":
            path.write_text(json.dumps([{"image": image, "caption": caption} for image, caption in rows]))
        else:
            with path.open("w", newline="") as file:
                csv.writer(file, delimiter="," if ending == "csv" else "\t").writerows([("image", "caption"), *rows])
        return f'"{path}"'

    def folder_with_metadata(self):
        folder = self.folder / "pictures"
        folder.mkdir()
        for row in ROWS:
            shutil.copy(EMOJI / row["image"], folder)
        (folder / "metadata.jsonl").write_text("".join(json.dumps({"file_name": pathlib.Path(row["image"]).name, "caption": row["caption"]}) + "\n" for row in ROWS))
        return f'"{folder}"'

    def texts(self):
        """A text classifier of two words, each text twice."""
        (self.folder / "texts.jsonl").write_text("".join(json.dumps({"text": f"sentence {i // 2} of many", "label": ("no", "yes")[i % 2]}) + "\n" for i in range(80)))
        return f'"{self.folder}/texts.jsonl"'

    def shard(self):
        with tarfile.open(self.folder / "shard.tar", "w") as tar:
            for i, row in enumerate(ROWS):
                text = self.folder / "caption.txt"
                text.write_text(row["caption"])
                tar.add(EMOJI / row["image"], f"{i:06}.jpg")
                tar.add(text, f"{i:06}.txt")
        return f'"{self.folder}/shard.tar"'

    def finished(self, *arguments):
        done = run_ok(*arguments)
        return done

    def forms(self):
        yield "manifest", {**CAPTIONS, "data__train_file": self.manifest(ROWS)}
        for ending in ("json", "csv", "tsv"):
            yield ending, {**CAPTIONS, "data__train_file": self.table(ending)}
        yield "folder with metadata", {**CAPTIONS, "data__train_file": self.folder_with_metadata()}
        yield "shard", {**CAPTIONS, "data__train_file": self.shard()}
        yield "class folder", {**PICTURES, "data__train_file": self.class_folder()}
        yield "corpus in blocks", {**CORPUS, "model__head": '"masked_lm"'}
        yield "corpus in lines", {**CORPUS, "model__head": '"masked_lm"', "data__text_layout": '"lines"'}
        yield "corpus in pairs", {**CORPUS, "model__head": '"pretraining"', "data__dupe_factor": "1"}
        yield "texts of classes", {**TEXTS, "model__head": '"sequence_classification"', "data__train_file": self.texts(), "data__text_column": '"text"', "data__label_column": '"label"'}
        yield "sources and targets", TARGETS

    def test_every_form_of_data(self):
        for form, changes in self.forms():
            with self.subTest(form=form):
                toml = settings(self.folder, **{**changes, "training__output_dir": f'"{self.folder}/{form}"'})
                plan = self.finished("plan", toml, "--json", "--inputs")
                done = self.finished("run", toml)
                held_out, total, unit, percent = NOTE.search(done.stderr).groups()
                self.assertIn(NOTE.search(done.stderr).group(0), plan.stderr)
                self.assertEqual(done.stderr.count("are held out"), 1)
                held_out, total = int(held_out.replace(",", "")), int(total.replace(",", ""))
                self.assertTrue(0 < held_out < total)
                self.assertAlmostEqual(held_out / total, float(percent) / 100, places=2)
                results = json.loads((self.folder / form / "all_results.json").read_text())
                if unit == "rows" or form == "corpus in lines":
                    self.assertEqual((results["validation_samples"], results["train_samples"]), (held_out, total - held_out))
                else:
                    self.assertGreater(results["validation_samples"], 0)
                self.assertIn("nothing differs", self.finished("reproduce", "--check", self.folder / form).stdout)

    def test_the_bits_are_those_of_two_files_with_these_rows(self):
        toml = settings(self.folder, **{**PICTURES, "data__train_file": f'"{DATA}/emoji-classes/test.jsonl"', "data__label_column": '"label"', "training__output_dir": f'"{self.folder}/whole"'})
        self.finished("run", toml)
        listed = [line.split("  ", 2) for line in (self.folder / "whole" / "pictures.xxh3").read_text().splitlines()]
        held_out = {pathlib.Path(json.loads(path)).name for _, split, path in listed if split == "validation"}
        rows = {True: [], False: []}
        for row in map(json.loads, (DATA / "emoji-classes" / "test.jsonl").read_text().splitlines()):
            picture = (DATA / "emoji-classes" / row["image"]).resolve()
            rows[picture.name in held_out].append(json.dumps({**row, "image": str(picture)}) + "\n")
        for name, is_held_out in (("train", False), ("validation", True)):
            (self.folder / f"{name}.jsonl").write_text("".join(rows[is_held_out]))
        toml = settings(self.folder, **{**PICTURES, "data__validation_share": None, "data__train_file": f'"{self.folder}/train.jsonl"', "data__validation_file": f'"{self.folder}/validation.jsonl"',
                                        "data__label_column": '"label"', "training__output_dir": f'"{self.folder}/divided"'})
        self.finished("run", toml)
        self.assertEqual(*(digest(self.folder / name / "model.safetensors") for name in ("whole", "divided")))
        losses = [json.loads((self.folder / name / "all_results.json").read_text())["validation_loss"] for name in ("whole", "divided")]
        self.assertEqual(*losses)

    def refused(self, toml, line, *keys):
        for command in ("run", "plan", "bench"):
            done = run(command, toml, *keys)
            self.assertEqual((done.returncode, done.stderr), (2, f"bascule: {line}\n"))

    def test_bad_shares_are_one_line(self):
        toml = settings(self.folder, data__train_file=self.manifest(ROWS[:3]), training__max_steps="1")
        self.refused(toml, "command line: data.validation_share and data.validation_file are both set; remove one", "data.validation_share=0.5", f"data.validation_file={EMOJI}/validation.jsonl")
        self.refused(toml, "command line: data.validation_share = 1 is out of range; write a number from 0.0 to less than 1.0", "data.validation_share=1")
        self.refused(toml, "command line: data.validation_share is set, but data.train_file is missing; set it, or name a data.validation_file", "data.validation_share=0.5", "data.train_file=", f"data.test_file={EMOJI}/test.jsonl")
        for share, words in (("1e-09", "none"), ("0.999999999", "all")):
            self.refused(toml, f"command line: data.validation_share = {share} holds out {words} of the 3 rows of {self.folder}/rows.jsonl; set another share, or name a data.validation_file", f"data.validation_share={share}")

    def test_missing_pictures_are_told_once(self):
        rows = [*ROWS[:40], {"image": str(self.folder / "missing.jpg"), "caption": "a picture that is missing"}]
        done = self.finished("plan", settings(self.folder, data__train_file=self.manifest(rows), data__on_bad_sample='"skip"', data__validation_share="0.3"))
        self.assertEqual(done.stderr.count("is missing, and its rows are skipped: "), 1, done.stderr)

    def test_a_text_without_empty_lines_is_one_document(self):
        (self.folder / "text.txt").write_text("It has no empty line.\nSo no part can be held out.\n")
        toml = settings(self.folder, **{**CORPUS, "data__train_file": f'"{self.folder}/text.txt"', "model__head": '"masked_lm"'})
        for command in ("run", "plan"):
            done = run(command, toml, "data.validation_share=0.5")
            self.assertEqual((done.returncode, done.stderr), (2, f"bascule: command line: {self.folder}/text.txt is one document, of which data.validation_share = 0.5 can hold out no part; separate documents with empty lines, or name a data.validation_file\n"))

    def test_runs_that_are_killed_and_runs_of_ranks_divide_in_the_same_way(self):
        toml = settings(self.folder, **{**CAPTIONS, "data__train_file": self.manifest(ROWS), "training__max_steps": "8", "training__save_steps": "2"})
        whole, killed = self.folder / "run", self.folder / "killed"
        note = NOTE.search(self.finished("run", toml).stderr).group(0)
        process = subprocess.Popen([str(PROGRAM), "run", str(toml), f"training.output_dir={killed}"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for(lambda: (killed / "checkpoint-2").exists() or process.poll() is not None)
        process.kill()
        process.wait()
        self.assertIn("data.validation_share", run_ends(2, "run", toml, f"training.output_dir={killed}", "data.validation_share=0.5").stderr)
        self.finished("run", toml, f"training.output_dir={killed}")
        self.assertEqual(*(digest(folder / "model.safetensors") for folder in (whole, killed)))
        ranks = self.finished("run", toml, f"training.output_dir={self.folder}/ranks", "distributed.world_size=2", "training.per_device_train_batch_size=4", "training.max_steps=2")
        self.assertIn(note, ranks.stderr)
        self.assertEqual(*(json.loads((self.folder / name / "all_results.json").read_text())["validation_samples"] for name in ("run", "ranks")))

    def test_evaluation_alone_and_the_first_samples(self):
        toml = settings(self.folder, **{**CAPTIONS, "data__train_file": self.manifest(ROWS)})
        done = self.finished("run", toml)
        held_out = int(NOTE.search(done.stderr).group(1))
        self.finished("run", toml, "training.do_train=false", "training.max_steps=1", f"training.output_dir={self.folder}/evaluated", "data.max_eval_samples=3")
        results = json.loads((self.folder / "evaluated" / "all_results.json").read_text())
        self.assertEqual(results["validation_samples"], min(3, held_out))
        measured = self.finished("bench", toml, "--use", "evaluate", "--steps", "1", "--warmup", "0")
        self.assertIn("are held out", measured.stderr)
        self.assertEqual(self.finished("plan", toml, "--json", "--inputs").stdout.count("train.jsonl"), 0)
        self.assertEqual(self.finished("plan", toml, "--json", "--inputs").stdout.count("rows.jsonl"), 1)
