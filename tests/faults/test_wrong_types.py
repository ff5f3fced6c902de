# SPDX-License-Identifier: Apache-2.0
"""A value of another type in a JSON file from outside is ignored or refused in one line that names the file: never a bug, never a crash."""
import copy
import json
import os
import random
import shutil
import subprocess

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, patient, settings, run_ok

OTHER = [None, True, 7, 1.5, "x", [], [1], ["x"], {}, {"a": 1}]
CASES = 25  # of each file


def places(value, depth=0, at=()):
    """Where the values of a document are, those of long lists and objects being left out."""
    yield at
    inner = list(value.items())[:25] if isinstance(value, dict) else list(enumerate(value))[:2] if isinstance(value, list) else []
    for key, part in inner if depth < 4 else []:
        yield from places(part, depth + 1, (*at, key))


def put(document, at, value):
    if not at:
        return value
    changed = copy.deepcopy(document)
    place = changed
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = value
    return changed


class WrongTypes(FolderTest):
    def setUp(self):
        super().setUp()
        seed = int(os.environ.get("BASCULE_TEST_SEED", random.randrange(1 << 30)))
        print(f"BASCULE_TEST_SEED={seed}")
        self.draw = random.Random(seed)

    def attack(self, path, *command, read_from=""):
        original = path.read_text()
        document = json.loads(original)
        cases = [(at, value) for at in places(document) for value in OTHER]
        for at, value in self.draw.sample(cases, min(CASES, len(cases))):
            path.write_text(json.dumps(put(document, at, value)))
            done = subprocess.run([str(PROGRAM), *map(str, command)], input=read_from, capture_output=True, text=True, timeout=patient(60), check=False)
            with self.subTest(file=path.name, at=at, value=value):
                self.assertIn(done.returncode, (0, 2, 3), done.stderr)
                self.assertNotIn("bug", done.stderr)
                if done.returncode != 0 and not done.stdout:  # else a case that failed
                    self.assertIn("bascule: ", done.stderr.splitlines()[-1])
        path.write_text(original)

    def test_of_a_model_folder(self):
        model = self.folder / "model"
        shutil.copytree(EMOJI / "model", model)
        shutil.copytree(EMOJI / "tokenizer", model, dirs_exist_ok=True)
        self.attack(model / "config.json", "plan", settings(self.folder, model__model_name_or_path='"model"'))
        picture = EMOJI / "images" / "1f004.jpg"
        self.attack(model / "preprocessor_config.json", "decode", "--preprocessing", "processor", "--model", model, "--output", self.folder / "pixels", picture)
        for name in ("tokenizer.json", "special_tokens_map.json", "tokenizer_config.json"):
            self.attack(model / name, "tokenize", "--model", model, read_from='["a cat"]')
        (model / "tokenizer.json").unlink()
        self.attack(model / "vocab.json", "tokenize", "--model", model, read_from='["a cat"]')

    def test_of_a_finished_run(self):
        run_ok("run", settings(self.folder, training__max_steps="1", data__validation_file=f'"{EMOJI}/validation.jsonl"'))
        for name in ("bascule.json", "config.json"):
            self.attack(self.folder / "run" / name, "search", self.folder / "run", "a cat")
        self.attack(self.folder / "run/bascule.json", "run", settings(self.folder, training__max_steps="1", data__validation_file=f'"{EMOJI}/validation.jsonl"'))

    def test_of_a_reference_case(self):
        case = self.folder / "case"
        shutil.copytree(ROOT / "tests/data/goldens/itc_add", case)
        for name in ("case.json", "float32_error.json"):
            self.attack(case / name, "verify", case)
