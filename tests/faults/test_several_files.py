# SPDX-License-Identifier: Apache-2.0
"""Several files for one split, as a list or a glob: the bits of the same rows in one file, stopped or not; whatever is wrong is named by file and line."""
import csv
import json
import os
import resource

from bascule_run import FolderTest, run, run_ends, run_ok, settings
from rank_runs import some_rows
from small_run import DATA, ROWS, outcome, small_settings
from test_going_on import tree

COUNTS = (6, 4, 5)  # rows of the three parts
GLOB = '"part-*"'
LIST = '["part-0.jsonl", "part-1.csv", "part-2.json"]'
FOLDERS = '["part-0.jsonl", "below/part-1.csv", "below/folder"]'


class SeveralFiles(FolderTest):
    def setUp(self):
        super().setUp()
        self.assertEqual(sum(COUNTS), len(ROWS))

    def place(self, name):
        """A folder with the rows in one file and in three, and with the last two of those in other folders too."""
        place = self.folder / name
        (place / "below/folder").mkdir(parents=True)
        first, second = COUNTS[0], COUNTS[0] + COUNTS[1]
        self.write(place / "rows.jsonl", ROWS)
        self.write(place / "part-0.jsonl", ROWS[:first])
        for path in (place / "part-1.csv", place / "below/part-1.csv"):
            self.write(path, ROWS[first:second])
        self.write(place / "part-2.json", ROWS[second:])
        self.write(place / "below/folder/metadata.jsonl", ROWS[second:], "file_name")
        return place

    def write(self, path, rows, image="image"):
        rows = [{image: os.path.relpath(DATA / "run_goldens" / row["image"], path.parent), "caption": row["caption"]} for row in rows]
        if path.suffix == ".csv":
            with open(path, "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        elif path.suffix == ".json":
            path.write_text(json.dumps(rows))
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def outcome(self, name, files, **changes):
        place = self.folder / name
        if not place.exists():
            self.place(name)
        found = outcome(place, data__train_file=files, training__lr_scheduler_type='"constant"', **changes)
        self.assertEqual(found["exit"], 0, found["stderr"])
        return found

    def history(self, name):
        return [(entry["key"], entry["to"]) for entry in json.loads((self.folder / name / "run/bascule.json").read_text())["history"]]

    def refused(self, code, said, **changes):
        place = self.folder / "refused"
        if not place.exists():
            self.place("refused")
        self.assertIn(said, run_ends(code, "plan", small_settings(place, **changes), cwd=place).stderr.splitlines()[-1])

    def test_no_pattern_matches_what_a_run_writes(self):
        rows = some_rows(self.folder, 16)
        self.assertEqual(run("run", settings(self.folder, data__train_file=rows, data__validation_file=rows, data__test_file=rows, training__ema_decay="0.5",
                                             training__max_steps="1", report__hash_steps="1", training__lr_schedule_steps="2")).returncode, 0)
        output = self.folder / "run"
        written = [path.relative_to(output) for path in output.rglob("*") if path.is_file() or path.parent == output]
        self.assertGreater(len(written), 30)
        for path in written:
            name = "events.out.*" if path.name.startswith("events.out.") else path.name  # ends with the time and the host
            done = run("plan", settings(self.folder, data__train_file=f'"run/{path.parent}/{name[0]}[{name[1]}]{name[2:]}"'))
            self.assertIn('training.output_dir = ', done.stderr, path)
            self.assertIn('lies in the data of data.train_file = "run/', done.stderr, path)
        (output / "data").mkdir()
        (self.folder / "rows.jsonl").rename(output / "data/rows.jsonl")
        done = run_ok("run", settings(self.folder, data__train_file='"run/data/*.jsonl"', training__ema_decay="0.5", training__max_steps="2", report__hash_steps="1",
                                      training__lr_schedule_steps="2"))

    def test_give_the_bits_of_the_same_rows_in_one_file(self):
        same = {"training__max_steps": "5", "training__eval_steps": "2"}
        one = self.outcome("one", '"rows.jsonl"', data__validation_file='"rows.jsonl"', data__test_file='"rows.jsonl"', **same)
        self.assertGreater(len(one["evaluation"]), 3)
        for name, files in (("list", LIST), ("glob", GLOB), ("folders", FOLDERS)):
            with self.subTest(name):
                found = self.outcome(name, files, data__validation_file=files, data__test_file=files, **same)
                self.assertEqual(found["parameters"], one["parameters"])
                self.assertEqual(found["evaluation"], one["evaluation"])
        card = (self.folder / "list/run/README.md").read_text()
        self.assertIn("on `part-0.jsonl, part-1.csv, part-2.json`", card)
        self.assertIn("<code>part-*</code>", (self.folder / "glob/run/report.html").read_text())
        printed = run("settings", self.folder / "list/run.toml").stdout
        self.assertIn(f"\ntrain_file = {LIST}\n", printed)

    def test_give_two_ranks_their_rows(self):
        same = {"distributed__world_size": "2", "training__per_device_train_batch_size": "2"}
        self.assertEqual(self.outcome("list", LIST, **same)["parameters"], self.outcome("one", '"rows.jsonl"', **same)["parameters"])

    def test_go_on_from_one_file_and_back_but_not_with_another_file_behind(self):
        whole = self.outcome("whole", '"rows.jsonl"', training__max_steps="9")
        for step, files in ((3, '"rows.jsonl"'), (5, LIST), (7, GLOB), (9, FOLDERS)):
            found = self.outcome("parts", files, training__max_steps=str(step))
        self.assertEqual(found["parameters"], whole["parameters"])
        self.assertEqual([to for key, to in self.history("parts") if key == "data.train_file"], [LIST, GLOB, FOLDERS])
        self.write(self.folder / "parts/part-3.jsonl", ROWS[:2])
        before = tree(self.folder / "parts/run")
        for files, code in ((GLOB, 2), (FOLDERS[:-1] + ', "part-3.jsonl"]', 2)):
            found = outcome(self.folder / "parts", data__train_file=files, training__max_steps="11", training__lr_scheduler_type='"constant"')
            self.assertEqual(found["exit"], code, found["stderr"])
            self.assertIn("it has 17 rows instead of 15", found["stderr"].splitlines()[-1])
        self.assertEqual(tree(self.folder / "parts/run"), before)

    def test_another_match_of_the_same_glob_is_refused_when_a_run_goes_on(self):
        self.outcome("a", GLOB)
        self.write(self.folder / "a/part-3.jsonl", ROWS[:2])
        found = outcome(self.folder / "a", data__train_file=GLOB, training__max_steps="5", training__lr_scheduler_type='"constant"')
        self.assertEqual(found["exit"], 3, found["stderr"])
        self.assertRegex(found["stderr"].splitlines()[-1], "data.train_file differs from what .* was trained with: it has 17 rows instead of 15")

    def test_are_refused_by_name(self):
        place = self.place("refused")
        (place / "bad.csv").write_text('image,caption\n"a.jpg","b"\n"a.jpg"\n')
        (place / "s.tar").write_bytes(b"")
        for code, files, said in ((3, '["part-0.jsonl", "bad.csv"]', "bascule: bad.csv:3: 1 field"),
                                  (3, '["part-0.jsonl", "gone.csv"]', "bascule: gone.csv: cannot be read: No such file"),
                                  (3, '"nothing-*.jsonl"', "bascule: nothing-*.jsonl: no file matches"),
                                  (3, '["part-0.jsonl", "nothing-[0-9].jsonl"]', "bascule: nothing-[0-9].jsonl: no file matches"),
                                  (2, '["part-0.jsonl", "part-*"]', "bascule: part-0.jsonl: is listed twice for one split"),
                                  (2, '["part-0.jsonl", "s.tar"]', "bascule: s.tar: tar shards and other files are mixed in one split"),
                                  (2, '"**/part-0.jsonl"', "bascule: **/part-0.jsonl: ** for folders of any depth is not supported"),
                                  (2, "[]", "data.train_file is an empty list"),
                                  (2, '["part-0.jsonl", ""]', "data.train_file contains an empty path"),
                                  (2, '["~/part-0.jsonl"]', '"~" is not expanded')):
            with self.subTest(files):
                self.refused(code, said, data__train_file=files)

    def test_a_bad_picture_of_the_second_file_is_named_with_its_line(self):
        place = self.place("bad")
        (place / "below/bad.jpg").write_bytes(b"\xff\xd8\xff")
        with open(place / "below/part-1.csv", "a") as file:
            file.write("bad.jpg,a bad one\n")
        self.assertIn("below/part-1.csv:6: below/bad.jpg: ", run_ends(3, "run", small_settings(place, data__train_file=FOLDERS, training__per_device_train_batch_size="16"), cwd=place).stderr)

    def test_hundreds_need_no_more_open_files_than_one(self):
        place = self.place("many")
        for number in range(300):
            self.write(place / f"many-{number:03}.jsonl", [ROWS[number % len(ROWS)]])
        run_ok("run", small_settings(place, data__train_file='"many-*.jsonl"', data__dataloader_num_workers="2"),
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)))
