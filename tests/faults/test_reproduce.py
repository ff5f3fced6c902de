# SPDX-License-Identifier: Apache-2.0
"""A finished run's record: `bascule reproduce` repeats it to the same bits, and `--check` names a single changed bit of program, libraries, settings, model, pictures and results.

BASCULE_FLIPS=n: so many random bits (default 6: one of each kind). BASCULE_TEST_SEED repeats a run of them.
"""
import json
import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import tempfile
import time
import unittest

from bascule_run import PROGRAM, SharedFolderTest, has_mpi, has_onednn, is_sanitized, patient, run, run_ends, run_ok
from flipped_bits import flip, flip_behind, tensors_of
from small_run import DATA, ROWS, TOKENIZER, small_settings

SEED = int(os.environ.get("BASCULE_TEST_SEED", time.time_ns() % 2**32))
FLIPS = int(os.environ.get("BASCULE_FLIPS", 6))
DATA_ERROR = 3  # exit code


def files_of_their_own(folder, rows):
    """Copies of model, tokenizer and pictures, and settings that name them."""
    shutil.copytree(DATA / "goldens" / "itc_add", folder / "model")
    shutil.copytree(TOKENIZER, folder / "tokenizer")
    (folder / "pictures").mkdir()
    own = []
    for number, row in enumerate(rows):
        name = f"pictures/{number}{pathlib.Path(row['image']).suffix}"
        shutil.copy(DATA / "run_goldens" / row["image"], folder / name)
        own.append({**row, "image": name})
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return small_settings(folder, model__model_name_or_path='"model"', model__tokenizer_name='"tokenizer"', data__train_file='"rows.jsonl"', data__validation_file='"rows.jsonl"',
                          training__output_dir='"run"', training__max_steps="6")


class Reproduce(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.toml = files_of_their_own(cls.folder, ROWS)
        run_ok("run", cls.toml)
        print(f"seed {SEED}")

    def check(self, program=PROGRAM, **environment):
        return subprocess.run([str(program), "reproduce", "--check", str(self.folder / "run")], capture_output=True, text=True, timeout=patient(600), env={**os.environ, **environment}, check=False)

    def test_a_record_agrees_with_what_it_was_made_of(self):
        done = self.check()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("nothing differs", done.stdout)
        record = json.loads((self.folder / "run" / "bascule.json").read_text())["record"]
        self.assertEqual(record["pictures"]["listed"], record["pictures"]["pictures"])
        self.assertEqual(len((self.folder / "run" / "pictures.xxh3").read_text().splitlines()), record["pictures"]["listed"])
        self.assertEqual([step[0] for step in record["steps"]], [1, 2, 3, 4, 5, 6])

    @unittest.skipUnless(has_onednn(), "built without oneDNN")
    def test_a_record_has_the_library_of_products_where_that_computes(self):
        with tempfile.TemporaryDirectory() as temporary:
            toml = small_settings(pathlib.Path(temporary), machine__products='"onednn"', training__max_steps="1")
            self.assertEqual(run("run", toml).returncode, 0)
            for folder, is_listed in ((self.folder, False), (pathlib.Path(temporary), True)):
                libraries = json.loads((folder / "run" / "bascule.json").read_text())["record"]["libraries"]
                self.assertGreater(len(libraries), 5)
                self.assertEqual(any("libdnnl." in library["path"] for library in libraries), is_listed)

    def test_the_repeated_run_has_the_same_bits(self):
        done = run_ok("reproduce", self.folder / "run" / "bascule.json", "--output", self.folder / "again")
        self.assertIn("equal bits: 6 logged intervals", done.stdout)
        self.assertRegex(done.stdout, "throughput: .* samples/s; recorded .* to .* by logged interval")

    @unittest.skipIf(is_sanitized(), "a sanitizer needs open files of its own")
    def test_too_many_open_files_are_no_difference(self):
        """At every limit the one line names it, or the check comes to its end; below the first, the program itself cannot be loaded."""
        for files in range(3, 24):
            done = run("reproduce", "--check", self.folder / "run", preexec_fn=lambda limit=files: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))
            if done.returncode == 0:
                break
            if done.returncode != 127:
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (DATA_ERROR, 1), (files, done.stdout, done.stderr))
                self.assertRegex(done.stderr, r"raise the limit of open files \(ulimit -n\)")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(files, 4)

    def test_of_many_pictures_that_differ_ten_are_named(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary).resolve()
            rows = (ROWS * 13)[:13]
            self.assertEqual(run("run", files_of_their_own(folder, rows)).returncode, 0)
            for picture in (folder / "pictures").iterdir():
                flip(picture, picture.stat().st_size - 1, 0)
            lines = [line for line in run("reproduce", "--check", folder / "run").stdout.splitlines() if "picture" in line]
            listed = json.loads((folder / "run/bascule.json").read_text())["record"]["pictures"]["listed"]
            self.assertEqual((len(lines), lines[-1]), (11, f"differs: and {listed - 10} more pictures (another input: nothing is promised)"), lines)

    def test_in_json(self):
        done = run_ok("reproduce", self.folder / "run", "--output", self.folder / "in json", "--json")
        said = json.loads(done.stdout)
        self.assertEqual(said, {**said, "as_recorded": True, "promise": "bits", "differences": [], "changes": [], "equal_bits": True, "first_difference": None, "equal_intervals": 6,
                                "equal_evaluations": 1, "equal_figures": True, "output": str(self.folder / "in json"), "record": str(self.folder / "run")})
        self.assertEqual(said["train_loss"], said["recorded_train_loss"])
        self.assertEqual(sorted(said["recorded_samples_per_second"]), ["least", "most", "whole_run"])
        self.assertIn("Time per step", done.stderr)  # what the repeated run prints
        with self.restored(self.folder / "run/model.safetensors") as path:
            flip(path, path.stat().st_size - 1, 0)
            done = run("reproduce", self.folder / "run", "--check", "--json")
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["as_recorded"], said["promise"], len(said["differences"])), (False, "bits", 1))
        self.assertIn("model.safetensors: its content differs", said["differences"][0]["what"])
        self.assertNotIn("equal_bits", said)

    def test_in_json_a_repeated_run_that_fails_is_an_error_document(self):
        for ranks in ("1", "2") if has_mpi() else ("1",):
            with self.subTest(ranks=ranks), tempfile.TemporaryDirectory() as temporary:
                folder = pathlib.Path(temporary).resolve()
                toml = files_of_their_own(folder, ROWS)
                toml.write_text(toml.read_text() + f"[distributed]\nworld_size = {ranks}\n")
                self.assertEqual(run("run", toml).returncode, 0)
                next((folder / "pictures").iterdir()).unlink()
                done = run_ends(DATA_ERROR, "reproduce", folder / "run", "--json", "--output", folder / "again")
                error = json.loads(done.stdout)["error"]
                self.assertEqual((error["exit_code"], error["kind"]), (DATA_ERROR, "data"))
                self.assertIn("/pictures/", done.stderr.splitlines()[-1])

    def test_a_reader_of_the_lines_that_goes_away_spoils_no_document(self):
        with open(self.folder / "document.json", "w+") as document:
            reader, lines = os.pipe()
            os.close(reader)
            done = subprocess.run([str(PROGRAM), "reproduce", self.folder / "run", "--output", self.folder / "unread", "--json"], stdout=document, stderr=lines, timeout=patient(600), check=False)
            os.close(lines)
            document.seek(0)
            self.assertEqual((done.returncode, json.load(document)["as_recorded"]), (0, True))

    def test_a_lengthened_run_is_compared_where_both_logged(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            changes = {"training__logging_steps": "2", "training__lr_schedule_steps": "6", "data__validation_file": f'"{self.folder}/rows.jsonl"'}
            for steps in ("3", "6"):  # the first process logs update 3 and evaluates after it
                run_ok("run", small_settings(folder, **changes, training__max_steps=steps))
            done = run("reproduce", folder / "run", "--output", folder / "again")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("equal bits: 2 logged intervals, 1 evaluation and the weights are as recorded", done.stdout)
        self.assertIn("changed on its way: after update 3: training.max_steps from 3 to 6", done.stdout)
        self.assertNotIn("nothing is promised", done.stdout)  # the schedule is the same

    def test_a_run_whose_schedule_was_stretched_is_not_promised_again(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            for steps in ("1", "2"):
                done = run_ok("run", small_settings(folder, training__max_steps=steps))
            done, said = run("reproduce", folder / "run", "--check"), json.loads(run("reproduce", folder / "run", "--check", "--json").stdout)
        self.assertEqual((done.returncode, said["as_recorded"], said["promise"], said["differences"]), (0, True, "nothing", []), done.stderr)
        self.assertIn("a repetition has the last settings from its first update on: nothing is promised", done.stdout)

    def test_a_repeated_run_that_differs_is_told_with_its_first_update(self):
        path = self.folder / "pictures" / "0.jpg" if (self.folder / "pictures" / "0.jpg").exists() else next((self.folder / "pictures").iterdir())
        other = next(one for one in sorted((self.folder / "pictures").iterdir()) if one != path and one.suffix == path.suffix and one.read_bytes() != path.read_bytes())
        with self.restored(path):
            path.write_bytes(other.read_bytes())
            done = run("reproduce", self.folder / "run", "--output", self.folder / "differs")
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertIn(f"{path.name}: its content differs (another input", done.stdout)
        self.assertRegex(done.stdout, "bits differ: update [1-6]: the mean loss is")

    class restored:
        """Puts a file back."""
        def __init__(self, path):
            self.path, self.data, self.mode = pathlib.Path(path), pathlib.Path(path).read_bytes(), pathlib.Path(path).stat().st_mode

        def __enter__(self):
            return self.path

        def __exit__(self, *_):
            self.path.unlink(missing_ok=True)
            self.path.write_bytes(self.data)
            self.path.chmod(self.mode)

    def flipped(self, kind, draw):
        """Changes a bit; returns what the check says of it, and whether bits are still promised."""
        if kind in ("weight", "result"):
            path = self.folder / ("model" if kind == "weight" else "run") / "model.safetensors"
            name, begin, end = draw.choice([tensor for tensor in tensors_of(path) if tensor[2] > tensor[1]])
            with self.restored(path):
                flip(path, draw.randrange(begin, end), draw.randrange(8))
                return self.check(), "model.safetensors", "another input" if kind == "weight" else "bits are still promised"
        if kind == "picture":
            path = draw.choice(sorted((self.folder / "pictures").iterdir()))
            with self.restored(path):
                flip_behind(path, 0, draw)
                return self.check(), path.name, "another input"
        if kind == "setting":
            with self.restored(self.toml) as path:
                flip_behind(path, 0, draw)
                return self.check(), "settings file", "promised"
        copies = self.folder / f"copies{draw.random()}"
        copies.mkdir()
        # In what the loader does not read: the end of the file, its table of sections.
        if kind == "program":
            shutil.copy(PROGRAM, copies / "bascule")
            flip_behind(copies / "bascule", -256, draw)
            (copies / "bascule").chmod(0o755)
            return self.check(copies / "bascule"), "program", "only figures"
        library = pathlib.Path(re.search(r"=> (\S*/libjpeg\S*)", subprocess.run(["ldd", str(PROGRAM)], capture_output=True, text=True, check=True).stdout)[1])
        shutil.copy(library, copies / library.name)
        flip_behind(copies / library.name, -256, draw)
        return self.check(LD_LIBRARY_PATH=str(copies)), "library", "only figures"

    def test_one_changed_bit_is_named(self):
        draw = random.Random(SEED)
        for number in range(FLIPS):
            kind = ("weight", "picture", "setting", "library", "program", "result")[number % 6]
            with self.subTest(kind=kind, number=number):
                done, name, promise = self.flipped(kind, draw)
                told = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
                self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
                self.assertTrue(any(name in line and promise in line for line in told), done.stdout)

    def test_changed_rows_and_a_changed_processor_are_named(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            toml = files_of_their_own(folder, ROWS)
            processor = folder / "model" / "preprocessor_config.json"
            shutil.copy(DATA / "emoji-captions" / "model" / processor.name, processor)
            self.assertEqual(run("run", toml).returncode, 0)
            rows = (folder / "rows.jsonl").read_text()
            for file, text, words in ((folder / "rows.jsonl", rows.replace(ROWS[0]["caption"], "something else", 1), "rows.jsonl: rows, or sizes of pictures, differ"),
                                      (processor, processor.read_text() + "\n", "preprocessor_config.json")):
                before = file.read_text()
                file.write_text(text)
                done = run("reproduce", "--check", folder / "run")
                file.write_text(before)
                told = [line for line in done.stdout.splitlines() if line.startswith("differs: ")]
                self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
                self.assertTrue(any(words in line for line in told), done.stdout)
            self.assertEqual(run("reproduce", "--check", folder / "run").returncode, 0)

    def test_pictures_that_were_not_read_are_not_listed(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            toml = files_of_their_own(folder, ROWS)
            toml.write_text(toml.read_text().replace("max_steps = 6", "max_steps = 1").replace('validation_file = "rows.jsonl"\n', ""))
            self.assertEqual(run("run", toml).returncode, 0)
            pictures = json.loads((folder / "run" / "bascule.json").read_text())["record"]["pictures"]
            self.assertEqual((pictures["pictures"], pictures["listed"]), (len(ROWS), 4))
            listed = (folder / "run" / "pictures.xxh3").read_text().splitlines()
            self.assertEqual(len(listed), 4)
            self.assertFalse([line for line in listed if line.startswith("0" * 16)], listed)

    def test_what_is_no_record_is_refused_in_one_line(self):
        with tempfile.TemporaryDirectory() as other:
            other = pathlib.Path(other)
            text = (self.folder / "run" / "bascule.json").read_text()
            cases = {"cut short": text[:len(text) // 2], "changed": text.replace('"train_loss": ', '"train_loss": 1', 1), "unfinished": json.dumps({**json.loads(text), "finished": False}),
                     "older": json.dumps({key: value for key, value in json.loads(text).items() if key != "record"})}
            for case, content in cases.items():
                with self.subTest(case=case):
                    (other / "bascule.json").write_text(content)
                    done = run("reproduce", "--check", other)
                    self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
            with self.subTest(case="without its files"):
                (other / "bascule.json").write_text(text)
                done = run_ends(7, "reproduce", "--check", other)
                self.assertIn("result ", done.stdout)
                self.assertIn("list of pictures", done.stdout)

    def test_pictures_are_known_after_a_kill(self):
        with tempfile.TemporaryDirectory() as other:
            other = pathlib.Path(other)
            toml = files_of_their_own(other, ROWS)
            toml.write_text(toml.read_text().replace("save_steps = 0", "save_steps = 1").replace("max_steps = 6", "max_steps = 12"))
            process = subprocess.Popen([str(PROGRAM), "run", str(toml)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            for line in process.stderr:
                if "saved checkpoint-8" in line:
                    break
            process.kill()
            process.communicate()
            self.assertEqual(run("run", toml).returncode, 0)
            self.assertEqual(run("reproduce", "--check", other / "run").returncode, 0)
            record = json.loads((other / "run" / "bascule.json").read_text())["record"]
            self.assertEqual(record["pictures"]["listed"], record["pictures"]["pictures"])
