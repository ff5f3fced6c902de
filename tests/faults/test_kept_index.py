# SPDX-License-Identifier: Apache-2.0
"""The kept index of a large manifest: whatever is done to its file, a run trains on what the manifest says, or says why not."""
import json
import os
import subprocess

from bascule_run import EMOJI, PROGRAM, SharedFolderTest, digest, run_ends, run_ok, settings

ROWS = 100_000  # the fewest that are kept
LONG = "a smiling face with hearts"
DAMAGED = "?.!,;:?.!,;:?.!,;:?.!,;:?."  # as many bytes, more tokens


class KeptIndex(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment = {**os.environ, "XDG_CACHE_HOME": str(cls.folder / "cache")}
        pictures = sorted((EMOJI / "images").glob("*.jpg"))[:50]
        with open(cls.folder / "rows.jsonl", "w") as file:
            for row in range(ROWS):
                file.write(json.dumps({"image": str(pictures[row % len(pictures)]), "caption": LONG if row % 7 == 0 else "a tile"}) + "\n")
        cls.whole = cls.trained("whole")
        cls.index = next((cls.folder / "cache/bascule").glob("*.index"))
        cls.good = cls.index.read_bytes()

    @classmethod
    def settings(cls, name):
        (cls.folder / name).mkdir()
        return settings(cls.folder / name, data__train_file=f'"{cls.folder}/rows.jsonl"', training__max_steps="40", training__save_steps="0",
                        training__logging_steps="1")

    @classmethod
    def trained(cls, name):
        cls.said = run_ok("run", cls.settings(name), env=cls.environment).stderr
        return digest(cls.folder / name / "run/model.safetensors")

    def forget_lengths(self):
        for lengths in self.index.parent.glob("*.lengths"):
            lengths.unlink()

    def test_that_is_damaged_before_the_plan_is_made_anew_and_leaves_no_wrong_lengths(self):
        self.forget_lengths()
        self.index.write_bytes(self.good.replace(LONG.encode(), DAMAGED.encode()))
        self.assertEqual(self.trained("damaged"), self.whole)
        self.assertIn("rebuilding the damaged index of", self.said)
        self.assertEqual(self.trained("after"), self.whole)
        self.assertNotIn("index", self.said)

    def test_that_is_found_damaged_at_the_seal_stops_the_run_once(self):
        self.index.write_bytes(self.good.replace(LONG.encode(), DAMAGED.encode()))
        self.assertIn("its cached index is damaged", run_ends(3, "run", self.settings("sealed"), env=self.environment).stderr)
        self.assertEqual(self.trained("sealed-again"), self.whole)

    def changed_during_a_run(self, name, change):
        toml = self.settings(name)
        with subprocess.Popen([str(PROGRAM), "run", str(toml)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=self.environment) as process:
            for line in process.stderr:
                if " step " in line:
                    break
            change()
            rest = process.stderr.read()
        self.assertEqual(process.returncode, 0, rest)
        self.index.unlink()
        self.assertEqual(digest(self.folder / name / "run/model.safetensors"), self.whole)

    def test_that_is_cut_short_during_a_run_changes_nothing(self):
        self.trained("cut-before")
        self.changed_during_a_run("cut", lambda: os.truncate(self.index, 4096))

    def test_that_is_overwritten_during_a_run_changes_nothing(self):
        self.trained("overwritten-before")

        def overwrite():
            with open(self.index, "r+b") as file:
                file.write(b"\xff" * len(self.good))
        self.changed_during_a_run("overwritten", overwrite)
