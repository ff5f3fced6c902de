# SPDX-License-Identifier: Apache-2.0
"""A bad picture stops a run with three pieces of advice: mend it, take its row out, or skip. Each goes on from the checkpoint saved at that stop."""
import json
import shutil

from bascule_run import EMOJI, FolderTest, digest, run, run_ends, run_ok, settings
from test_going_on import tree

ROWS, BAD = 24, 7
PICTURES = sorted((EMOJI / "images").glob("*.jpg"))


class MendedData(FolderTest):
    def data(self, name, rows=None):
        """A folder with pictures, of which one is bad, and a manifest of (picture, caption)."""
        folder = self.folder / name
        (folder / "p").mkdir(parents=True)
        for number in range(ROWS):
            shutil.copy(PICTURES[number], folder / f"p/{number}.jpg")
        with open(folder / f"p/{BAD}.jpg", "r+b") as file:
            file.truncate(300)
        self.write(name, rows or [(number, f"number {number}") for number in range(ROWS)])

    def write(self, name, rows):
        (self.folder / name / "rows.jsonl").write_text(
            "".join(json.dumps({"image": f"p/{picture}.jpg", "caption": caption}) + "\n" for picture, caption in rows))

    def rows(self, name):
        lines = [json.loads(line) for line in (self.folder / name / "rows.jsonl").read_text().splitlines()]
        return [(int(line["image"][2:-4]), line["caption"]) for line in lines]

    def mend(self, name):
        shutil.copy(PICTURES[30], self.folder / name / f"p/{BAD}.jpg")

    def settings(self, name, **changes):
        return settings(self.folder / name, **{"data__train_file": '"rows.jsonl"', "training__max_steps": "14", "training__save_steps": "0",
                                               "training__per_device_train_batch_size": "4", "training__seed": "3", **changes})

    def run_to_the_end(self, name, **changes):
        done = run_ok("run", self.settings(name, **changes))
        return done.stderr

    def stop(self, name, rows=None, **changes):
        self.data(name, rows)
        done = run_ends(3, "run", self.settings(name, **changes))
        self.assertIn('repair it, remove the row, or set data.on_bad_sample = "skip"', done.stderr)
        self.assertTrue(list((self.folder / name / "run").glob("checkpoint-*")), done.stderr)

    def model(self, name):
        return digest(self.folder / name / "run/model.safetensors")

    def picture_digests(self, name):
        return [line.split()[0] for line in (self.folder / name / "run/pictures.xxh3").read_text().splitlines()]

    def results(self, name):
        return json.loads((self.folder / name / "run/all_results.json").read_text())

    def history(self, name):
        return [(entry["key"], entry["to"]) for entry in json.loads((self.folder / name / "run/bascule.json").read_text())["history"]]

    def refused(self, name, code, *words, **changes):
        before = tree(self.folder / name / "run")
        done = run_ends(code, "run", self.settings(name, **changes))
        for word in words:
            self.assertIn(word, done.stderr.splitlines()[-1])
        self.assertEqual(tree(self.folder / name / "run"), before)

    def test_skipping_has_the_bits_of_a_run_that_skipped_from_the_start(self):
        self.data("skips")
        self.run_to_the_end("skips", data__on_bad_sample='"skip"')
        self.stop("a")
        self.run_to_the_end("a", data__on_bad_sample='"skip"')
        self.assertEqual(self.model("a"), self.model("skips"))
        self.assertEqual(self.history("a"), [("data.on_bad_sample", '"skip"')])
        for name in ("skips", "a"):
            self.assertEqual(self.results(name)["bad_samples_count"], 2, name)  # in epochs 0 and 1

    def test_a_row_that_was_taken_out_is_skipped_too(self):
        self.data("skips")
        self.run_to_the_end("skips", data__on_bad_sample='"skip"')
        self.stop("a")
        rows = self.rows("a")
        self.write("a", rows[:BAD + 1] + rows[BAD + 2:])
        self.refused("a", 3, "data.train_file differs from what ")
        self.write("a", rows[:BAD] + rows[BAD + 1:])
        self.run_to_the_end("a")
        self.assertEqual(self.model("a"), self.model("skips"))
        self.assertEqual(self.history("a")[0], (f"data.train_file, row {BAD + 1}", "taken out"))
        self.assertEqual([(bad["reason"], bad["picture"]) for bad in self.results("a")["bad_samples"]], 2 * [("its row was removed", "")])
        self.assertEqual(self.results("a")["train_samples"], ROWS - 1)
        # Again: the checkpoints since then know a row that the file lacks.
        self.run_to_the_end("skips", data__on_bad_sample='"skip"', training__max_steps="20")
        self.run_to_the_end("a", training__max_steps="20")
        self.assertEqual(self.model("a"), self.model("skips"))

    def test_a_picture_that_was_mended_is_used(self):
        self.data("good")
        self.mend("good")
        self.run_to_the_end("good")
        self.stop("a")
        self.mend("a")
        self.run_to_the_end("a")
        self.assertEqual(self.model("a"), self.model("good"))
        self.assertEqual(self.picture_digests("a"), self.picture_digests("good"))  # not that of the bad picture
        self.assertEqual(self.history("a")[0][0], f"data.train_file, row {BAD + 1}")
        # The list of pictures has the file that was used, not the one that was found bad.
        self.assertEqual(run("reproduce", "--check", self.folder / "a/run").returncode, 0)

    def test_a_picture_that_was_skipped_may_be_mended_later(self):
        self.data("a")
        self.run_to_the_end("a", data__on_bad_sample='"skip"')
        self.mend("a")
        self.run_to_the_end("a", data__on_bad_sample='"skip"', training__max_steps="20")
        self.assertIn(f"data.train_file, row {BAD + 1}", [key for key, _ in self.history("a")])
        self.assertEqual(self.results("a")["bad_samples_count"], 2)  # none after it was mended

    def test_a_missing_picture_may_be_restored_before_its_row_was_drawn(self):
        changes = {"data__on_bad_sample": '"skip"', "training__per_device_train_batch_size": "2", "training__lr_schedule_steps": "2"}
        for mend in (lambda: self.mend("a"), lambda: self.write("a", [row for row in self.rows("a") if row[0] != BAD])):
            with self.subTest():
                shutil.rmtree(self.folder / "a", ignore_errors=True)
                self.data("a")
                (self.folder / f"a/p/{BAD}.jpg").unlink()
                self.run_to_the_end("a", **changes, training__max_steps="1")
                self.assertEqual(self.results("a")["bad_samples_count"], 0)
                mend()
                self.run_to_the_end("a", **changes, training__max_steps="2")
                self.assertIn((f"data.train_file, row {BAD + 1}", "a missing or empty picture"),
                              [(entry["key"], entry["from"]) for entry in json.loads((self.folder / "a/run/bascule.json").read_text())["history"]])

    def test_the_advice_on_a_picture_that_is_lost_behind_a_checkpoint_holds(self):
        self.data("a")
        self.mend("a")
        length = {"training__lr_schedule_steps": "2", "training__max_steps": "2"}
        self.run_to_the_end("a", **{**length, "training__max_steps": "1"})
        lost = self.folder / f"a/p/{BAD}.jpg"
        lost.rename(self.folder / "kept.jpg")
        advice = "if the training data of a checkpoint had it, only restoring it or another output_dir helps"
        self.refused("a", 3, f"p/{BAD}.jpg: No such file or directory; ", advice, **length)
        skips = {"data__on_bad_sample": '"skip"', **length}
        self.refused("a", 3, f"row {BAD + 1} has a different text", "restore it, or choose another output_dir", **skips)
        self.run_to_the_end("a", training__output_dir=f'"{self.folder}/another"', **skips)
        (self.folder / "kept.jpg").rename(lost)
        self.run_to_the_end("a", **length)

    def test_all_rows_of_a_bad_picture_may_be_taken_out(self):
        rows = [(number, f"number {number}") for number in range(ROWS)] + [(BAD, "again"), (3, "and 3 again"), (BAD, "a third time")]
        self.stop("a", rows, training__seed="5")
        self.write("a", [row for row in rows if row[0] != BAD])
        self.run_to_the_end("a", training__seed="5")
        self.assertEqual([entry for entry in self.history("a") if entry[1] == "taken out"],
                         [(f"data.train_file, row {row}", "taken out") for row in (BAD + 1, ROWS + 1, ROWS + 3)])

    def test_other_data_is_refused_by_what_differs(self):
        self.stop("a")
        rows = self.rows("a")
        for changed, problem in ((rows + [(2, "one more")], "it has 25 rows instead of 24"),
                                 (rows[:-2], "it has 22 rows instead of 24"),
                                 (rows[:11] + [(11, "edited")] + rows[12:], "row 12 has a different text"),
                                 (rows[:3] + [rows[4], rows[3]] + rows[5:], "row 4 has a different text")):
            self.write("a", changed)
            self.refused("a", 3, "data.train_file differs from what ", problem)
        self.write("a", rows)
        shutil.copy(PICTURES[40], self.folder / "a/p/20.jpg")
        self.refused("a", 3, "row 21 has a different text, label, picture name or picture size")
        shutil.copy(PICTURES[20], self.folder / "a/p/20.jpg")
        self.mend("a")
        self.run_to_the_end("a")

    def test_data_may_move(self):
        self.stop("a")
        self.mend("a")
        (self.folder / "elsewhere").mkdir()
        shutil.move(self.folder / "a/p", self.folder / "elsewhere/p")
        rows = self.rows("a")
        (self.folder / "a/rows.jsonl").unlink()
        self.write("elsewhere", rows)
        self.run_to_the_end("a", data__train_file='"../elsewhere/rows.jsonl"')
        self.assertIn(("data.train_file", '"../elsewhere/rows.jsonl"'), self.history("a"))
        self.data("other", rows[::-1])
        self.refused("a", 2, 'data.train_file is "../other/rows.jsonl", but ', '"../elsewhere/rows.jsonl"', "row 1 has a different text",
                     data__train_file='"../other/rows.jsonl"')
