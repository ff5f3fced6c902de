# SPDX-License-Identifier: Apache-2.0
"""`bascule doctor`: finds every fault that is planted in pictures, and none that is not there; memory and time of a run."""
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import unittest

from bascule_run import EMOJI, PROGRAM, ROOT, has_mpi, patient, run, run_ends, run_ok, settings
from doctor_runs import DATA, DATA_ERROR, MEMORY, SETTINGS_ERROR, DoctorTest, grey_16, png, png_file, rows_of, write_rows

CLASSES, IMAGES = DATA / "emoji-classes", EMOJI / "images"


class Doctor(DoctorTest):
    def test_healthy_pictures_and_captions_have_none(self):
        document = self.doctor(self.captions())
        self.assertEqual([finding for finding in document["findings"] if finding["level"] != "note"], [])
        self.assertEqual([split["rows"] for split in document["splits"]], [48, 16])
        self.assertEqual(document["false_negatives"]["equal_pairs"], 0)

    def test_every_fault_of_pictures_and_captions_is_found(self):
        images = self.folder / "images"

        def plant(rows):
            train, validation = rows["train"], rows["validation"]
            first = (images / pathlib.Path(train[0]["image"]).name).read_bytes()
            second = images / pathlib.Path(train[1]["image"]).name
            (images / "cut.jpg").write_bytes(first[: len(first) // 2])
            (images / "text.jpg").write_text("no picture")
            (images / "empty.jpg").write_bytes(b"")
            (images / "copy.jpg").write_bytes(first)
            (images / "again.jpg").write_bytes(second.read_bytes())
            # Of 16 bits and in colour: it does not turn white.
            (images / "tiny.png").write_bytes(png_file(9, 8, 16, 2, b"".join(b"\0" + b"".join(bytes((28 * x, 0, 30 * y, 0, 99, 0)) for x in range(9)) for y in range(8))))
            (images / "long.png").write_bytes(png(40, 10, lambda x, y: (6 * x, 20 * y, 9)))
            (images / "longer.png").write_bytes(png(130, 30, lambda x, y: (x, 7 * y, 99)))
            (images / "too long.png").write_bytes(png(200, 10))
            (images / "huge.png").write_bytes(png(2100, 2000))
            # The same picture in another file: nearest pixels, twice as large.
            square = png(24, 24, lambda x, y: (10 * x, 5 * y, 200))
            (images / "small.png").write_bytes(square)
            (images / "large.png").write_bytes(png(96, 96, lambda x, y: (10 * (x // 4), 5 * (y // 4), 200)))
            (images / "grey.png").write_bytes(grey_16(24, 24))
            train += [{"image": f"images/{name}", "caption": f"a picture named {name}"} for name in
                      ("grey.png", "cut.jpg", "text.jpg", "empty.jpg", "again.jpg", "tiny.png", "long.png", "longer.png", "too long.png", "huge.png", "small.png", "gone.jpg")]
            validation += [{"image": "images/copy.jpg", "caption": "a copy"}, {"image": "images/large.png", "caption": "large"}]
            train += [{"image": train[2]["image"], "caption": train[3]["caption"]}]  # both are there already
            train += [{"image": train[4]["image"], "caption": "one two three four five six seven eight nine ten " * 4}]
            train += [{"image": train[5]["image"], "caption": " "}]
            validation += [{"image": validation[0]["image"], "caption": train[6]["caption"]}]

        document = self.doctor(self.captions(plant, data__preprocessing='"training"'), code=DATA_ERROR)
        findings = self.findings(document)
        self.assert_found(
            findings, ("missing_pictures", "train", "fails", 1), ("damaged_pictures", "train", "fails", 4), ("huge_pictures", "train", "warning", 1),
            ("grey_16_bit_pictures", "train", "warning", 1), ("tiny_pictures", "train", "warning", 2), ("elongated_pictures", "train", "warning", 1), ("pictures_in_two_splits", "validation", "warning", 1),
            ("repeated_pictures", "train", "note", 1), ("alike_pictures_in_two_splits", "validation", "warning", 1), ("cut_texts", "train", "warning", 1),
            ("empty_texts", "train", "warning", 1), ("repeated_texts", "train", "note", 1), ("texts_in_two_splits", "validation", "note", 1))
        self.assert_says(findings, {
            ("missing_pictures", "train"): ("1 of 60 pictures is missing", 'correct the paths, remove the rows, or set data.on_bad_sample = "skip"'),
            ("damaged_pictures", "train"): ("4 of 60 pictures cannot be used", 'repair them, remove the rows, or set data.on_bad_sample = "skip"'),
            ("grey_16_bit_pictures", "train"): ("1 of 60 pictures is a grey PNG of 16 bits, of which every value above 255 is read as white, as by Transformers", "convert them to 8 bits"),
            ("huge_pictures", "train"): ("1 of 60 pictures has more than 256 times the pixels of the 64 x 64 that the model reads", "scale them down once: every epoch decodes them anew"),
            ("tiny_pictures", "train"): ("2 of 60 pictures are less than a quarter as large as the 64 x 64 pixels that the model reads", "find larger ones: scaled up, they show little"),
            ("elongated_pictures", "train"): ("1 of 60 pictures is more than four times as long as it is wide", "cut them: the model reads a square, which has a part of them or squeezes them"),
            ("repeated_pictures", "train"): ("1 of 60 pictures repeats an earlier one, the same file byte for byte", ""),
            ("empty_texts", "train"): ("1 of 63 captions has no words", "write a text, or remove the row"),
            ("repeated_texts", "train"): ("1 of 63 captions repeats an earlier one", "")})
        reasons = " ".join(example["text"] for example in findings["damaged_pictures", "train"]["examples"])
        for name, words in (("cut.jpg", "truncated"), ("text.jpg", "is text"), ("empty.jpg", "empty"), ("too long.png", "elongated")):
            self.assertIn(name, reasons)
            self.assertIn(words, reasons)
        self.assertNotIn("run_refused", [check for check, _ in findings])  # it would name a missing picture, which is told
        batches = document["false_negatives"]
        self.assertGreater(batches["equal_pairs"], 0)
        self.assertGreater(batches["loss_floor"], 0)
        self.assertIn("without dropout and random changes of pictures it cannot fall below", next(finding["what"] for finding in document["findings"] if finding["check"] == "false_negatives"))
        # The run itself refuses the same data, and with bad samples skipped trains.
        self.assertEqual(run("plan", self.folder / "run.toml").returncode, DATA_ERROR)
        skipping = self.findings(self.doctor(self.folder / "run.toml", 'data.on_bad_sample="skip"'))
        self.assert_found(skipping, ("missing_pictures", "train", "warning", 1), ("damaged_pictures", "train", "warning", 4))
        for check in ("missing_pictures", "damaged_pictures"):
            self.assertIn("data.on_bad_sample", findings[check, "train"]["what_to_do"])
            self.assertNotIn("data.on_bad_sample", skipping[check, "train"]["what_to_do"])  # it is set

    def test_the_page_has_the_pictures_and_every_thread_count_the_same_answer(self):
        toml = self.captions(lambda rows: rows["validation"].append({**rows["train"][0], "caption": "<b>"}))
        page = self.folder / "doctor.html"
        before = sorted(self.folder.rglob("*"))
        whole = run_ok("doctor", toml, "--html", page)
        self.assertEqual(sorted(self.folder.rglob("*")), sorted([*before, page]))
        self.assertNotIn("cannot fall below", whole.stdout)  # no row is like another
        text = page.read_text()
        self.assertEqual(text.count('<img src="data:image/png;base64,'), 2)
        self.assertIn("is in train too", text)
        self.assertNotIn("<b>", text)
        documents = [json.loads(subprocess.run([*cores, str(PROGRAM), "doctor", str(toml), "--json"], capture_output=True, text=True, timeout=patient(100)).stdout) for cores in ([], ["taskset", "-c", "0"])]
        for document in documents:
            del document["training"]  # the memory of a thread for each core
        self.assertEqual(*documents)

    def test_a_page_replaces_no_file_but_such_a_page(self):
        toml = self.captions()
        picture, link, other = self.folder / rows_of(self.folder / "train.jsonl")[3]["image"], self.folder / "link.html", self.folder / "other.html"
        link.symlink_to(picture)
        other.write_text("<!DOCTYPE html>\n<html lang=\"en\">\n<p>of somebody else")
        (self.folder / "train.jsonl").write_text("so no picture of this split is known\n")
        before = [picture.read_bytes(), other.read_bytes()]
        for page in (picture, link, other):
            done = run("doctor", toml, "--html", page)
            self.assertEqual((done.returncode, done.stdout), (SETTINGS_ERROR, ""), done.stderr)
            self.assertIn("exists and was not written by `bascule doctor`; choose another file, or remove it", done.stderr)
            self.assertEqual([picture.read_bytes(), other.read_bytes()], before)
        page = self.folder / "page.html"
        page.write_bytes(b"")  # as mktemp makes one
        for _ in range(2):
            self.assertEqual(run("doctor", toml, "--html", page).returncode, DATA_ERROR)
        link.unlink()
        link.symlink_to(page)
        self.assertEqual(run("doctor", toml, "--html", link).returncode, SETTINGS_ERROR)  # before the data are read

    def test_pictures_that_others_alone_join_are_not_alike(self):
        def plant(rows):
            for split, greys in (("train", (100,)), ("validation", (102, 104, 106))):
                for grey in greys:
                    (self.folder / f"images/{grey}.png").write_bytes(png(24, 24, lambda x, y: 3 * (grey,)))
                    rows[split].append({"image": f"images/{grey}.png", "caption": f"grey of {grey}"})

        findings = self.findings(self.doctor(self.captions(plant)))
        self.assert_found(findings, ("alike_pictures_in_two_splits", "validation", "warning", 1), ("alike_pictures", "validation", "note", 2))
        pairs = [[pathlib.Path(picture).name for picture in example["pictures"]] for example in findings["alike_pictures", "validation"]["examples"]]
        self.assertEqual(pairs, [["104.png", "102.png"], ["106.png", "104.png"]])

    def test_a_picture_that_a_run_would_stumble_over_later(self):
        def plant(rows):
            path = self.folder / rows["train"][7]["image"]
            path.write_bytes(path.read_bytes()[:-300])

        toml = self.captions(plant)
        self.assertEqual(run("plan", toml).returncode, 0)
        self.assert_found(self.findings(self.doctor(toml, code=DATA_ERROR)), ("damaged_pictures", "train", "fails", 1))
        self.doctor(toml, 'data.on_bad_sample="skip"')

    def test_a_row_that_names_a_folder_costs_no_other_row(self):
        toml = self.captions(lambda rows: rows["train"].insert(3, {"image": "images", "caption": "a folder"}))
        findings = self.findings(document := self.doctor(toml, code=DATA_ERROR))
        self.assert_found(findings, ("unreadable_pictures", "train", "fails", 1))
        self.assertEqual(document["splits"][0]["rows"], 49)
        self.assertEqual([finding["check"] for finding in document["findings"] if finding["level"] == "fails"], ["unreadable_pictures"])
        self.assertEqual(run("plan", toml, 'data.on_bad_sample="skip"').returncode, DATA_ERROR)
        self.assert_found(self.findings(self.doctor(toml, 'data.on_bad_sample="skip"', code=DATA_ERROR)), ("unreadable_pictures", "train", "fails", 1))

    def test_a_list_has_every_row(self):
        def plant(rows):
            rows["train"] += [{"image": f"images/gone{number}.jpg", "caption": f"gone {number}"} for number in range(9)] + rows["train"][:10]
            rows["train"] += [{"image": 1, "caption": "refused"}] * 8

        toml, listed = self.captions(plant), self.folder / "rows.jsonl"
        document = self.doctor(toml, "--list", listed, code=DATA_ERROR)
        by_check = {}
        for row in rows_of(listed):
            by_check.setdefault((row["check"], row["level"]), []).append(row["text"])
        self.assertEqual({check: len(texts) for check, texts in by_check.items()}, {("refused_rows", "fails"): 8, ("missing_pictures", "fails"): 9, ("repeated_texts", "note"): 10})
        self.assertTrue(all(text.startswith(f"{self.folder}/images/gone{number}.jpg: ") for number, text in enumerate(by_check["missing_pictures", "fails"])))
        self.assertTrue(all(text.startswith(f"{self.folder}/train.jsonl:{number + 58}: ") for number, text in enumerate(by_check["repeated_texts", "note"])), by_check)
        self.assertTrue(all(len(finding["examples"]) <= 6 for finding in document["findings"]))
        self.doctor(toml, "--list", listed, code=DATA_ERROR)  # a list may be replaced, another file not
        (self.folder / "notes.txt").write_text("of somebody")
        for file in ("train.jsonl", "notes.txt"):
            run_ends(SETTINGS_ERROR, "doctor", toml, "--list", self.folder / file)

    def test_pictures_of_shards(self):
        names = sorted(IMAGES.iterdir())[:6]
        for split, chosen in (("train", names), ("validation", [names[2], EMOJI / rows_of(EMOJI / "validation.jsonl")[0]["image"]])):
            with tarfile.open(self.folder / f"{split}-000.tar", "w") as tar:
                for number, path in enumerate(chosen):
                    tar.add(path, f"{number:03}.jpg")
                    caption = tarfile.TarInfo(f"{number:03}.txt")
                    caption.size = 9
                    tar.addfile(caption, io.BytesIO(b"caption %d" % number))
                if split == "train":
                    tar.add(names[0], "no. 7.jpg")
        toml = settings(self.folder, **{"data__train_file": f'"{self.folder}/train-{{000..000}}.tar"', "data__validation_file": f'"{self.folder}/validation-{{000..000}}.tar"', "training__per_device_train_batch_size": "2"})
        findings = self.findings(self.doctor(toml))
        self.assert_found(findings, ("unread_pictures", "train", "warning", 1))
        self.assert_says(findings, {("unread_pictures", "train"): ("1 picture not read: a sample's name ends at its first dot, and what follows it in \"no. 7.jpg\" is none of .jpg, .jpeg, .png or .webp",
                                                                   "rename the members of such samples so that their names have one dot")})
        self.assertIn(findings["unread_pictures", "train"]["what"].removeprefix("train: "), run("plan", toml).stderr)
        found = findings["pictures_in_two_splits", "validation"]
        self.assertEqual(found["examples"][0]["pictures"], [f"{self.folder}/validation-000.tar/000.jpg", f"{self.folder}/train-000.tar/002.jpg"])
        self.assertEqual(run("doctor", toml, "--html", self.folder / "page.html").returncode, 0)
        self.assertEqual((self.folder / "page.html").read_text().count("<img "), 2)

    def test_rows_that_are_held_out_for_evaluation(self):
        toml = self.captions(lambda rows: rows["train"].append({**rows["train"][0], "caption": "another one"}), data__validation_file=None, data__validation_share="0.25")
        document = self.doctor(toml)
        self.assertEqual([split["name"] for split in document["splits"]], ["train", "validation"])
        self.assertEqual(sum(split["rows"] for split in document["splits"]), 49)
        self.assertNotIn("pictures_in_two_splits", [finding["check"] for finding in document["findings"]])  # rows of one picture stay together
        with (self.folder / "train.jsonl").open("a") as train:
            train.write("no row\n")
        for split, trains in (("train", "true"), ("validation", "false")):  # once, and where there is no other split
            found = [finding["what"] for finding in self.doctor(toml, f"training.do_train={trains}", code=DATA_ERROR)["findings"] if finding["check"] == "refused_rows"]
            self.assertEqual(found, [f"{split}: 1 row cannot be read, and is left out of the other checks"])
        few = self.doctor(toml, "data.validation_share=0.001", code=DATA_ERROR)  # of the rows that are left
        self.assertIn("refused_rows", [finding["check"] for finding in few["findings"]])

    @unittest.skipUnless(has_mpi(), "one process only")
    def test_the_negatives_of_a_row_are_those_of_its_rank_or_of_all(self):
        toml = self.captions(training__per_device_train_batch_size="40")  # 48 rows
        for gathers, batch in (("false", 12), ("true", 48)):
            self.assertEqual(self.doctor(toml, "distributed.world_size=4", f"training.gather_negatives={gathers}")["false_negatives"]["batch"], batch)

    def test_a_run_that_only_evaluates(self):
        document = self.doctor(self.captions(), "training.do_train=false")
        self.assertEqual([split["name"] for split in document["splits"]], ["validation"])
        self.assertNotIn("false_negatives", document)

    # Pictures and classes.
    def test_every_fault_of_classes_of_pictures_is_found(self):
        train, validation = rows_of(CLASSES / "train.jsonl"), rows_of(CLASSES / "validation.jsonl")
        for row in train + validation:
            row["image"] = str((CLASSES / row["image"]).resolve())
        few = [row for row in train if row["label"] == 0][:40] + [row for row in train if row["label"] == 1][:3]
        few.append({**few[0], "label": 1})
        write_rows(self.folder / "train.jsonl", few)
        write_rows(self.folder / "validation.jsonl", [row for row in validation if row["label"] == 0][:8] + [{**train[-1], "label": 2}])
        toml = settings(self.folder, **{
            "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__train_file": f'"{self.folder}/train.jsonl"', "data__max_seq_length": None,
            "data__validation_file": f'"{self.folder}/validation.jsonl"', "data__label_column": '"label"', "data__preprocessing": '"training"'})
        document = self.doctor(toml)
        self.assert_found(self.findings(document), ("unbalanced_classes", "train", "warning", 2), ("classes_missing", "validation", "warning", 1),
                          ("classes_not_in_training", "validation", "warning", 1), ("conflicting_labels", "1 sample occurs with different labels", "warning", 1))
        self.assert_says(self.findings(document), {
            ("unbalanced_classes", "train"): ("the class 0 (animal) has 40 rows, the class 1 (body) 4; a model that always says 0 (animal) is right for 90.9 % of the rows",
                                              "judge by F1 or by the accuracy of each class, or add rows of the rare classes"),
            ("classes_missing", "validation"): ("no row is of the class 1 (body), which train has", "add rows: figures of this split say nothing about what they lack"),
            ("classes_not_in_training", "validation"): ("the class 2 (face) has no row in train", "add rows to the training data, or remove these")})
        self.assertEqual(document["splits"][0]["classes"], [{"name": "0 (animal)", "rows": 40}, {"name": "1 (body)", "rows": 4}])
        conflict = next(finding for finding in document["findings"] if finding["check"] == "conflicting_labels")
        self.assertEqual(conflict["examples"][0]["pictures"], [few[0]["image"]])
        self.assertEqual(conflict["examples"][0]["text"].replace(f"{self.folder}/", ""), "train.jsonl:1 is 0 (animal), and equal to train.jsonl:44, 1 (body)")

    def test_folders_of_classes(self):
        names = sorted(IMAGES.iterdir())[:12]
        for split, classes in (("train", ("cat", "dog")), ("validation", ("cat", "cow"))):
            for number, name in enumerate(classes):
                (self.folder / split / name).mkdir(parents=True)
                for path in names[6 * number : 6 * number + (6 if split == "train" else 2)]:
                    shutil.copy(path, self.folder / split / name)
        toml = settings(self.folder, **{
            "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__train_file": f'"{self.folder}/train"', "data__max_seq_length": None,
            "data__validation_file": f'"{self.folder}/validation"', "data__label_column": '"label"', "data__preprocessing": '"training"'})
        findings = self.findings(self.doctor(toml, code=DATA_ERROR))
        self.assert_found(findings, ("classes_not_in_training", "validation", "fails", 1), ("classes_missing", "validation", "warning", 1), ("pictures_in_two_splits", "validation", "warning", 4))

    # The whole.
    def test_the_demos_have_what_they_have(self):
        demos = {"demo": [], "vit_demo": [("warning", "classes_missing", "test", 1)],
                 "bert_demo": [("warning", "texts_in_two_splits", "test", 1257), ("note", "unknown_tokens", "train", 4)],  # its test file is its validation file
                 "t5_demo": [("note", "unknown_tokens", "validation", 3), ("note", "unknown_tokens", "test", 2)], "sd_demo": [],
                 # Both of its splits search the same documents.
                 "bert_embeddings_demo": [("note", "cut_texts", "train", 1), ("note", "unknown_tokens", "train", 2), ("note", "cut_texts", "validation", 1),
                                          ("note", "unknown_tokens", "validation", 1), ("note", "repeated_texts", "validation", 7), ("note", "repeated_texts", "test", 7)]}
        for name, wanted in demos.items():
            with self.subTest(demo=name):
                findings = self.doctor(ROOT / f"config/{name}.toml")["findings"]
                self.assertEqual([(finding["level"], finding["check"], finding["what"].split(":")[0], finding["count"]) for finding in findings], wanted)

    def test_what_does_not_fit_has_the_exit_code_of_memory(self):
        document = self.doctor(self.captions(), "machine.memory_limit_gib=0.01", code=MEMORY)
        self.assertIn(("too_large", "fails"), [(finding["check"], finding["level"]) for finding in document["findings"]])

    def profile(self, speed):
        """Of this machine, with products and memory of that speed."""
        path = self.folder / "machine.json"
        self.assertEqual(run("bringup", "--quick", "--only", "bits", "--save", path).returncode, 0)
        document = json.loads(path.read_text())
        taken = dict.fromkeys(("missing", "other_processes", "run_delay", "siblings", "stolen", "throttled"), 0.0)
        for item, name, unit, figure in (("products", "float32 768 x 768", "GFLOP/s", 100.0), ("products", "float32 3072 x 768", "GFLOP/s", 120.0), ("memory", "copy", "GB/s", 10.0)):
            for place, share in (("all cores", 1.0), ("core 0", 9.0)):
                document["figures"].append({"item": item, "name": name, "place": place, "unit": unit, "limit": 0.0, "more_is_better": True, "taken": taken,
                                            "median": share * speed * figure, "rounds": [0.1, share * speed * figure, 1e9]})
        path.write_text(json.dumps(document))
        return path

    def test_a_profile_gives_the_time_of_an_epoch(self):
        toml = self.captions(data__dataloader_num_workers="0")
        self.assertNotIn("epoch_seconds", self.doctor(toml)["training"])
        slow, fast = (self.doctor(toml, "--profile", self.profile(speed))["training"] for speed in (1.0, 2.0))
        self.assertAlmostEqual(fast["step_seconds"], slow["step_seconds"] / 2, delta=1e-9)
        self.assertAlmostEqual(slow["epoch_seconds"], 6 * (slow["step_seconds"] + slow["loading_seconds"]), delta=1e-9)  # 48 rows in batches of 8
        self.assertEqual((slow["updates_of_epoch"], slow["batch"], slow["largest_batch"]), (6, 8, 48))

    def test_the_time_is_that_of_mean_texts_not_of_the_longest(self):
        profile = self.profile(1.0)
        usual, with_a_long_one = (self.doctor(self.captions(plant), "--profile", profile)["training"]["step_seconds"]
                                  for plant in (lambda rows: None, lambda rows: rows["train"][0].update(caption="a cat and a dog " * 6)))
        self.assertAlmostEqual(with_a_long_one / usual, 1.0, delta=0.02)

    def test_a_profile_without_products_is_refused(self):
        path = self.profile(1.0)
        document = json.loads(path.read_text())
        document["figures"] = [figure for figure in document["figures"] if figure["item"] == "memory"]
        path.write_text(json.dumps(document))
        self.assertIn("has no figures of matrix products", run_ends(DATA_ERROR, "doctor", self.captions(), "--profile", path).stderr)
