# SPDX-License-Identifier: Apache-2.0
"""`bascule search --texts`: the texts that are found, what is embedded again, the index that is kept, and what is refused."""
import json
import pathlib
import shutil
import subprocess
import tempfile

from bascule_run import PROGRAM, SharedFolderTest, run, run_ends, run_ok, settings
from relatives import DATA, SETTINGS, write_relatives

KEYWORDS = DATA / "emoji-keywords"
TEXTS = ["a cat with tears", "two dogs", "", "red car", "two dogs", "an old house"]


class TextSearch(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_relatives(cls.folder)
        names = {f"model__{key}": value.replace('"bert"', f'"{cls.folder}/bert"') for key, value in SETTINGS["bert"].items()}
        (cls.folder / "made").mkdir()
        run_ok("run", settings(cls.folder / "made", **{**names, "model__head": '"masked_lm"', "data__train_file": f'"{KEYWORDS}/train.jsonl"', "data__text_column": '"text"',
                                                       "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "1", "training__save_steps": "0"}))
        cls.model = cls.folder / "made/run"

    def setUp(self):
        self.own = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        self.file = self.own / "texts.txt"
        self.file.write_text("\n".join(TEXTS) + "\n")

    def search(self, *arguments, code=0):
        done = run_ends(code, "search", self.model, "--texts", self.file, "--html", self.own / "search.html", *arguments)
        return done

    def test_finds_the_text_itself_first_and_keeps_the_vectors(self):
        done = self.search("two dogs", "--json", "--top", "3")
        document = json.loads(done.stdout)
        self.assertEqual(document["candidates"], 4)
        self.assertEqual(document["searched"], str(self.file))
        self.assertEqual({key: document["results"][0][key] for key in ("text", "name")}, {"text": "two dogs", "name": "texts.txt:2"})
        self.assertAlmostEqual(document["results"][0]["score"], 1.0, places=6)
        self.assertEqual(len(document["results"]), 3)
        self.assertIn("4 texts embedded, 0 texts of before", done.stderr)
        page = (self.own / "search.html").read_text()
        self.assertIn("two dogs", page)
        self.assertIn("texts.txt:2", page)
        again = self.search("two dogs", "--json", "--top", "3")
        self.assertNotIn("embedded", again.stderr)
        self.assertEqual(again.stdout, done.stdout)
        self.assertIn("two dogs", self.search("two dogs").stdout.splitlines()[1])

    def test_embeds_what_changed_with_the_same_bits(self):
        self.search("two dogs")
        self.file.write_text("two dogs\na new text\nred car\n")
        self.assertIn("1 text embedded, 2 texts of before, 2 texts gone", self.search("two dogs").stderr)
        grown = (self.own / "texts.txt.index.safetensors").read_bytes()
        self.search("two dogs", "--index", self.own / "whole.safetensors")
        self.assertEqual((self.own / "whole.safetensors").read_bytes(), grown)
        other = self.own / "model"
        shutil.copytree(self.model, other)
        config = json.loads((other / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "layer_norm_eps": 1e-6}))
        done = run("search", other, "--texts", self.file, "two dogs")
        self.assertIn("3 texts embedded", done.stderr)

    def test_refuses_what_does_not_go_together(self):
        for arguments, message in [(["x", "--images", self.own], "texts are searched with a text"),
                                   ([], "nothing to search for"),
                                   (["x", "--prompt", "none"], "none"),
                                   (["x", "--index", self.file], "--index")]:
            self.assertIn(message, self.search(*arguments, code=2).stderr)
        self.file.write_text("\n")
        self.assertIn("has no texts", self.search("x", code=3).stderr)
        self.file.unlink()
        self.assertIn("texts.txt", self.search("x", code=3).stderr)
        (self.own / "texts.txt").write_text("a\n")
        (self.own / "texts.txt.index.safetensors").write_bytes((self.model / "model.safetensors").read_bytes())
        done = self.search("x", code=3)
        self.assertIn("it is no index", done.stderr)
        self.assertEqual((self.own / "texts.txt.index.safetensors").read_bytes(), (self.model / "model.safetensors").read_bytes())
        done = subprocess.run([str(PROGRAM), "search", str(self.model), "x", "--prompt", "query"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--texts", done.stderr)
