# SPDX-License-Identifier: Apache-2.0
"""Classes by name: from manifests and from folders into config.json, and what is refused."""
import json
import os
import shutil

from bascule_run import ROOT, FolderTest, digest, run, run_ends, settings
from run_files import tensors

CLASSES = ROOT / "tests" / "data" / "emoji-classes"
NAMES = list(json.loads((CLASSES / "model/config.json").read_text())["id2label"].items())
NAMES = [name for _, name in sorted(NAMES, key=lambda item: int(item[0]))]
ROWS = [json.loads(line) for line in (CLASSES / "train.jsonl").read_text().splitlines()][:200]  # of all classes
PICTURES = {row["image"]: (CLASSES / row["image"]).resolve() for row in ROWS}


class NamedClasses(FolderTest):
    def start(self, name, train, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return run("run", settings(folder, **{
            "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__train_file": f'"{train}"', "data__max_seq_length": None,
            "data__label_column": '"label"', "data__preprocessing": '"training"', "training__max_steps": "3", "training__save_steps": "0", **changes}))

    def config(self, name):
        return json.loads((self.folder / name / "run/config.json").read_text())

    def manifest(self, name, label, rows=ROWS):
        path = self.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps({"image": str(PICTURES[row["image"]]), "label": label(row["label"])}) + "\n" for row in rows))
        return path

    def class_folder(self, name, label, rows=ROWS):
        root = self.folder / name
        for row in rows:
            place = root / label(row["label"]) / "more"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(PICTURES[row["image"]], place)
        return root

    def done(self, name, *arguments, **changes):
        done = self.start(name, *arguments, **changes)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_the_folders_own_names_keep_its_numbers(self):
        self.done("numbers", self.manifest("numbers", lambda label: label))
        said = self.done("names", self.manifest("names", lambda label: NAMES[label]))
        self.assertNotIn("classes of the training data", said)
        self.assertEqual(digest(self.folder / "numbers/run/model.safetensors"), digest(self.folder / "names/run/model.safetensors"))
        self.assertEqual(self.config("names"), self.config("numbers"))

    def test_a_picture_whose_name_is_not_utf8_is_in_valid_json_and_in_the_record(self):
        train = self.class_folder("train", lambda label: NAMES[label], ROWS[:40])
        first = sorted(train.rglob("*.*"))[0]
        odd = first.rename(os.fsdecode(os.path.join(os.fsencode(first.parent), b"caf\xe9" + os.fsencode(first.suffix))))
        self.done("run", train, data__test_file=f'"{train}"', training__do_predict="true", training__per_device_eval_batch_size="8")
        lines = (self.folder / "run/run/predictions.jsonl").read_bytes().decode("utf-8").splitlines()
        self.assertEqual(sum("caf\ufffd" in json.loads(line)["image"] for line in lines), 1)
        record = ["reproduce", "--check", self.folder / "run/run"]
        self.assertEqual(run(*record).returncode, 0)
        content = bytearray(odd.read_bytes())
        content[len(content) // 2] ^= 1
        odd.write_bytes(content)
        self.assertIn("its content differs", run_ends(7, *record, errors="replace").stdout)

    def test_other_names_make_the_classifier_anew(self):
        self.done("first", self.manifest("first", lambda label: label))
        start = self.folder / "first/run"
        changes = {"model__model_name_or_path": f'"{start}"', "model__from_scratch": "false"}
        said = self.done("second", self.manifest("second", lambda label: ["thing", "being", "sign"][label % 3]), **changes, training__learning_rate="0.0",
                         data__validation_file=f'"{self.manifest("held", lambda label: "sign", ROWS[:9])}"')
        self.assertEqual(said.count("using the 3 classes of the training data (being, sign, thing) and a new classifier in place of the folder's 10 classes"), 1, said)
        config = self.config("second")
        self.assertEqual(config["id2label"], {"0": "being", "1": "sign", "2": "thing"})
        self.assertEqual(config["label2id"], {"being": 0, "sign": 1, "thing": 2})
        before, after = tensors(start / "model.safetensors"), tensors(self.folder / "second/run/model.safetensors")
        self.assertEqual({name for name in after if after[name] != before[name]}, {"classifier.weight", "classifier.bias"})
        self.assertEqual(len(after["classifier.bias"]), 3)
        # As many classes with other names are other classes.
        same = self.done("third", self.manifest("third", lambda label: f"x{label}"), **changes, training__learning_rate="0.0")
        self.assertIn("using the 10 classes of the training data (x0, x1, x2, ...) and a new classifier in place of the folder's 10", same)

    def test_a_run_goes_on_with_its_names(self):
        train = self.manifest("train", lambda label: f"x{label}")
        self.done("whole", train, training__max_steps="6", training__lr_schedule_steps="6")
        self.done("parts", train, training__lr_schedule_steps="6")
        self.done("parts", train, training__max_steps="6", training__lr_schedule_steps="6")
        self.assertEqual(digest(self.folder / "whole/run/model.safetensors"), digest(self.folder / "parts/run/model.safetensors"))

    def test_folders_are_classes(self):
        name = lambda label: NAMES[label] + " s"
        train, held = self.class_folder("train", name), self.class_folder("held", name, ROWS[:20])
        for label, picture in ((0, "lossy_90.webp"), (1, "lossless_alpha.webp")):
            shutil.copy(ROOT / "tests/data/images/webp" / picture, train / name(label))
        said = self.done("folders", train, data__label_column=None, data__validation_file=f'"{held}"', training__max_steps="7", training__per_device_train_batch_size="32")
        self.assertIn("10 classes of the training data", said)
        self.assertEqual(sorted(self.config("folders")["label2id"]), sorted({name(row["label"]) for row in ROWS}))
        read = (self.folder / "folders/run/pictures.xxh3").read_text()  # in an epoch, all
        self.assertEqual((read.count("lossy_90.webp"), read.count("lossless_alpha.webp")), (1, 1))
        numbers = [number for _, number in sorted(self.config("folders")["label2id"].items())]
        self.assertEqual(numbers, list(range(10)))

    def test_pictures_that_are_not_read_are_counted(self):
        train = self.class_folder("train", lambda label: NAMES[label])
        self.assertNotIn("not read", self.done("all", train, data__label_column=None))
        a_class = next(path for path in sorted(train.iterdir()) if path.is_dir())
        for path in (a_class / "one.bmp", a_class / "more" / "two.GIF", train / "beside.jpg", a_class / "notes.txt"):
            path.write_bytes(b"")
        shutil.copy(next(iter(PICTURES.values())), a_class / "without-an-ending")
        said = self.done("some", train, data__label_column=None)
        self.assertEqual(said.count(f"index: {train}: 4 pictures not read: their names do not end in .jpg, .jpeg, .png or .webp, or they are not in the folder of a class\n"), 1, said)
        self.assertEqual(digest(self.folder / "all/run/model.safetensors"), digest(self.folder / "some/run/model.safetensors"))

    def test_a_folders_faults_are_named_once(self):
        train = self.class_folder("train", lambda label: NAMES[label], ROWS[:20])
        a_class = next(path for path in sorted(train.iterdir()) if path.is_dir())

        def said(where):
            done = self.start("refused", train, data__label_column=None)
            self.assertEqual(done.returncode, 3, done.stderr)
            line = done.stderr.splitlines()[-1]
            self.assertEqual(line.count(where), 1, line)
            shutil.rmtree(self.folder / "refused")
            return line

        link = a_class / "link"
        link.symlink_to(train)
        self.assertIn("is a link to a folder that it lies in; remove the link", said("link:"))
        link.unlink()
        (train / "link").symlink_to(train)
        self.assertIn("is a link to a folder that it lies in", said("link:"))
        (train / "link").unlink()
        (a_class / "away.jpg").symlink_to("/nowhere.jpg")
        self.assertIn("No such file or directory", said("away.jpg"))
        (a_class / "away.jpg").unlink()
        (a_class / "broken.jpg").write_bytes(b"no picture")
        self.assertIn("is text, not a picture", said("broken.jpg"))

    def bare(self):
        """A model folder that says nothing of its classes."""
        model = self.folder / "bare"
        model.mkdir(exist_ok=True)
        shutil.copy(CLASSES / "model/preprocessor_config.json", model)
        config = {key: value for key, value in json.loads((CLASSES / "model/config.json").read_text()).items() if key not in ("id2label", "label2id", "num_labels")}
        (model / "config.json").write_text(json.dumps(config))
        return model

    def test_a_folder_that_says_nothing_takes_the_numbers_of_the_data(self):
        self.done("bare-run", self.manifest("rows", lambda label: label), model__model_name_or_path=f'"{self.bare()}"')
        self.assertEqual(self.config("bare-run")["id2label"], {str(number): f"LABEL_{number}" for number in range(10)})

    def test_the_output_folder_is_not_among_the_pictures(self):
        train, apart = self.class_folder("dd", lambda label: NAMES[label], ROWS[:40]), self.manifest("rows", lambda label: NAMES[label])
        (self.folder / "link").symlink_to(train)
        before = sorted(self.folder.rglob("*"))
        for key, data, output, changes in (("train_file", train, train / "out", {}), ("train_file", "dd", "dd/more/out", {}), ("train_file", train, "link/out", {}),
                                           ("train_file", "dd/*", train / "out", {}), ("validation_file", "link", train / "out", {"data__train_file": f'"{apart}"'}),
                                           ("test_file", train, train, {"data__train_file": f'"{apart}"'})):
            for command in ("run", "plan"):
                with self.subTest(key=key, data=data, output=output, command=command):
                    toml = settings(self.folder, **{
                        "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": None,
                        "data__preprocessing": None, **changes, f"data__{key}": f'"{data}"', "training__output_dir": f'"{output}"'})
                    done = run(command, toml)
                    toml.unlink()
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, r"^bascule: .*run.toml:\d+:\d+: .*; choose a folder outside of the data\n$")
                    self.assertIn(f'training.output_dir = "{output}" lies in the data of data.{key} = "{data}"', done.stderr)
                    self.assertEqual(sorted(self.folder.rglob("*")), before)

    def test_the_output_folder_is_not_where_a_link_of_a_class_leads(self):
        train = self.class_folder("dd", lambda label: NAMES[label], ROWS[:40])
        elsewhere, apart = self.folder / "else", self.folder / "apart"
        apart.mkdir()
        a_class = next(path for path in sorted(train.iterdir()) if path.is_dir())
        shutil.copytree(a_class, elsewhere / "c9")
        shutil.copytree(a_class, elsewhere / "deep")
        (train / "z9").symlink_to(elsewhere / "c9")
        (a_class / "linked").symlink_to("../../else/deep")
        (elsewhere / "deep" / "back").symlink_to(apart)
        before = sorted(self.folder.rglob("*"))
        model = {"model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": None, "data__preprocessing": None}
        for data, output in ((train, elsewhere / "c9/run"), ("dd", "else/c9"), ("d*", "else/c9/run"), ("dd", "else/deep/run"), ("dd", "apart/run"), ("dd", "dd/z9/run")):
            for command in ("run", "plan"):
                with self.subTest(data=data, output=output, command=command):
                    toml = settings(self.folder, **model, data__train_file=f'"{data}"', training__output_dir=f'"{output}"')
                    done = run(command, toml)
                    toml.unlink()
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn(f'training.output_dir = "{output}" lies in the data of data.train_file = "{data}"', done.stderr)
                    self.assertEqual(sorted(self.folder.rglob("*")), before)
        done = run("plan", settings(self.folder, **model, data__train_file='"dd"', training__output_dir='"else/run"'))
        self.assertNotIn("lies in the data", done.stderr)

    def test_a_store_of_tracked_runs_is_no_class(self):
        self.class_folder("dd", lambda label: NAMES[label], ROWS[:40])
        model = {"model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": None, "data__preprocessing": None}
        toml = settings(self.folder, **model, data__train_file='"dd"', report__tracking='"mlflow"', report__tracking_dir='"dd/store"')
        for command in ("run", "plan"):
            self.assertRegex(run_ends(2, command, toml).stderr, r'^bascule: .*run.toml:\d+:\d+: report.tracking_dir = "dd/store" lies in the data of data.train_file = "dd"; choose a folder outside of the data\n$')
        self.assertNotIn("lies in the data", run("plan", toml, "report.tracking=none").stderr)

    def test_data_that_is_not_read_may_be_where_the_run_writes(self):
        self.class_folder("dd", lambda label: NAMES[label], ROWS[:40])
        apart = self.manifest("rows", lambda label: NAMES[label])
        model = {"model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": None,
                 "data__preprocessing": None, "training__output_dir": '"dd/out"', "training__max_steps": None, "training__save_steps": None}
        for file, does in (("train_file", "do_train"), ("validation_file", "do_eval"), ("test_file", "do_predict")):
            for reads in (False, True):
                with self.subTest(file=file, reads=reads):
                    other = "data__validation_file" if file == "train_file" else "data__train_file"
                    toml = settings(self.folder, **{**model, "data__train_file": None, "data__label_column": '"label"', other: f'"{apart}"', f"data__{file}": '"dd"',
                                                    f"training__{does}": str(reads).lower()})
                    done = run_ends(2 if reads else 0, "plan", toml)
                    self.assertEqual("lies in the data" in done.stderr, reads)

    def test_what_cannot_be_classes_is_refused_in_one_line(self):
        names = lambda label: NAMES[label]
        train = self.manifest("train", names)
        numbers = self.manifest("numbers", lambda label: label)
        empty = self.class_folder("empty", names)
        (empty / "nothing").mkdir()
        few = self.folder / "few"
        shutil.copytree(CLASSES / "model", few)
        config = json.loads((few / "config.json").read_text())
        (few / "config.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b", "2": "c"}, "label2id": {}}))
        (self.folder / "many.csv").write_text("image,label\n" + "".join(f"{PICTURES[ROWS[0]['image']]},c{number}\n" for number in range(70000)))
        for data, changes, said in (
                (train, {"data__validation_file": f'"{self.manifest("other", lambda label: "dragon" if label == 3 else NAMES[label])}"'}, 'unknown class "dragon"; the model\'s 10 classes are '),
                (self.manifest("one", lambda label: "all"), {}, "all rows have the same class"),
                (self.folder / "many.csv", {}, "many.csv:65538: more than 65536 classes"),
                (self.manifest("mixed", lambda label: label if label == 3 else NAMES[label]), {}, "use names or numbers throughout"),
                (train, {"data__validation_file": f'"{numbers}"'}, "labels are numbers, but those of"),
                (numbers, {"data__validation_file": f'"{train}"'}, "labels are names, but those of"),
                (empty, {"data__label_column": None}, "nothing: has no pictures"),
                (few, {"data__label_column": None}, "few: is a folder with neither metadata.jsonl, metadata.csv nor a folder for each class"),
                (self.manifest("one-number", lambda label: 3), {"model__model_name_or_path": f'"{self.bare()}"'}, "all rows have the same class"),
                (self.manifest("all-zero", lambda label: 0), {}, "all rows have the same class"),
                (self.manifest("low", lambda label: label % 3), {"model__model_name_or_path": f'"{self.bare()}"', "data__validation_file": f'"{numbers}"'}, "is out of range: the model has classes 0 to 2"),
                (numbers, {"model__model_name_or_path": f'"{few}"'}, "use a class number from 0 to 2, or names in every row")):
            with self.subTest(said):
                done = self.start("refused", data, **changes)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1])
                shutil.rmtree(self.folder / "refused")
