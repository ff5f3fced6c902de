# SPDX-License-Identifier: Apache-2.0
"""Random (start, change, resume): each goes on as `bascule settings --resume` says or is refused by name; none starts again, none deletes.

BASCULE_RESUMES sets how many there are (20); BASCULE_TEST_SEED repeats them.
"""
import json
import os
import random
import re
import shutil
import subprocess

from bascule_run import EMOJI, PROGRAM, FolderTest, run, settings
from test_going_on import tree

PICTURES = sorted((EMOJI / "images").glob("*.jpg"))
ROWS, BAD = 24, 7

# Other values of keys, as TOML. Keys that are not here are changed by a function below, or not at all.
OTHER = {
    "model.head": ['"image_text_matching"'], "model.from_scratch": ["false"], "model.freeze": ['["vision_model"]', "[]"],
    "model.precision": ['"bf16"'], "model.dropout": ['"off"'], "model.image_size": ["64"], "data.image_column": ['"picture"'], "data.caption_column": ['"text"'],
    "data.label_column": ['"label"'], "data.max_seq_length": ["16", "33"], "data.mlm_probability": ["0.3"], "data.masking": ['"bernoulli"'], "data.max_predictions_per_seq": ["2"], "data.text_layout": ['"lines"'], "data.dupe_factor": ["2"], "data.short_seq_probability": ["0.5"], "data.negative_fraction": ["0.25"],
    "data.preprocessing": ['"training"'], "data.augment": ['"crop_flip"'], "data.random_resized_crop_scale": ["[0.5, 1.0]"], "data.random_resized_crop_ratio": ["[1, 2]"],
    "data.rand_augment_num_ops": ["2"], "data.color_jitter_brightness": ["0.4"], "data.color_jitter_hue": ["0.1"], "data.random_erasing_probability": ["0.5"],
    "data.interpolation": ['"bilinear"'], "data.eval_crop_ratio": ["0.875"], "data.mixup_alpha": ["0.8"], "data.cutmix_alpha": ["1.0"], "data.dataloader_drop_last": ["true"], "media_engine.max_megapixels": ["20"],
    "media_engine.scale_in_decoder": ["true"], "training.seed": ["9", "43"], "training.per_device_train_batch_size": ["3", "8"],
    "training.weight_decay": ["0.125"], "training.optimizer": ['"lamb"'], "training.warmup_start_ratio": ["0.5"], "training.adam_beta1": ["0.8"], "training.adam_beta2": ["0.99"], "training.adam_epsilon": ["1e-6"],
    "training.max_grad_norm": ["0.5"], "training.label_smoothing_factor": ["0.1"], "training.ema_decay": ["0.5"], "training.ema_steps": ["2"], "training.lr_scheduler_type": ['"cosine"'], "training.warmup_steps": ["2"], "training.warmup_ratio": ["0.25"],
    "training.gather_negatives": ["true"], "distributed.wire_type": ['"bf16"'], "machine.step_seconds": ["0.01"],
    "data.dataloader_num_workers": ["0", "2"], "data.ring_slots": ["2", "5"], "media_engine.queue_depth": ["4"], "media_engine.memory_mib": ["64"],
    "media_engine.fallback": ["false"], "training.logging_steps": ["1", "3", "7"], "training.save_steps": ["0", "1", "5"],
    "training.eval_strategy": ['"epoch"'], "machine.isa": ['"avx2"'], "machine.products": ['"onednn"'],
    "training.eval_steps": ["2"], "training.save_total_limit": ["0", "1", "4"], "training.throughput_warmup_steps": ["0"],
    "distributed.bucket_mib": ["7"], "distributed.timeout_seconds": ["30"], "distributed.distribution_strategy": ['"ddp"', '"sharded"'],
    "machine.threads": ["1", "2"], "machine.memory_limit_gib": ["6.5"], "report.html": ["false"], "report.tensorboard": ["false"],
    "report.profile": ["true"], "report.hash_steps": ["1", "2"], "report.status_seconds": ["0"], "data.validation_file": ['"rows.jsonl"', f'"{EMOJI}/validation.jsonl"'], "data.test_file": [f'"{EMOJI}/test.jsonl"'],
    "data.on_bad_sample": ['"skip"'], "training.per_device_eval_batch_size": ["5"],
}
GOES_ON, DONE, REFUSED = "goes on", "is finished already", "is refused"


def toml_key(key):
    return key.replace(".", "__")


class Start:
    """A run that ended, to be copied and gone on with."""

    def __init__(self, folder, kind):
        self.folder, self.kind = folder, kind
        (folder / "p").mkdir(parents=True)
        for number in range(ROWS):
            shutil.copy(PICTURES[number], folder / f"p/{number}.jpg")
        if kind == "bad picture":
            with open(folder / f"p/{BAD}.jpg", "r+b") as file:
                file.truncate(300)
        write_rows(folder, [(f"p/{number}.jpg", f"number {number}") for number in range(ROWS)])
        self.settings = {"data__train_file": '"rows.jsonl"', "training__max_steps": "6", "training__save_steps": "2", "training__logging_steps": "2",
                         "training__per_device_train_batch_size": "4", "training__seed": "3"}
        if kind == "not finite":
            self.settings.update(training__learning_rate="1e3", training__weight_decay="1e3", training__save_steps="1", training__max_steps="40",
                                 training__lr_scheduler_type='"constant_with_warmup"')
        done = run("run", settings(folder, **self.settings))
        assert done.returncode == (0 if kind == "finished" else 3), done.stderr
        self.step = max(int(path.name.split("-")[1]) for path in (folder / "run").glob("checkpoint-*"))

    def copy(self, folder):
        """Checkpoints are written beside and renamed, so they may be shared; other files are copied."""
        def link(source, target):
            (os.link if "/checkpoint-" in source else shutil.copy2)(source, target)
        shutil.copytree(self.folder, folder, copy_function=link)


def read_rows(folder):
    return [(row["image"], row["caption"]) for row in map(json.loads, (folder / "rows.jsonl").read_text().splitlines())]


def write_rows(folder, rows, name="rows.jsonl"):
    (folder / name).write_text("".join(json.dumps({"image": image, "caption": caption}) + "\n" for image, caption in rows))


class Pair:
    """One change of one start: settings, files, and what is to become of it."""

    def __init__(self, draw, start, folder, rules):
        self.draw, self.start, self.folder = draw, start, folder
        self.changes, self.verdict, self.code, self.words = {}, GOES_ON, 0, []
        start.copy(folder)
        if start.kind == "bad picture":
            self.take_advice()
        self.key = draw.choice(sorted(key for key in rules if self.can_change(key)))
        getattr(self, "change_" + rules[self.key].replace(" ", "_"))()
        if start.kind == "finished" and self.verdict == GOES_ON and rules[self.key] in ("yes", "while training", "same product", "on one machine", "with our products"):
            self.verdict = DONE

    def can_change(self, key):
        if key == "model.model_name_or_path" or key in ("data.train_file", "training.max_steps", "training.learning_rate", "training.lr_schedule_steps",
                                                        "training.gradient_accumulation_steps"):
            return True
        return bool(self.other_values(key))

    def other_values(self, key):
        return [value for value in OTHER.get(key, []) if value != self.start.settings.get(toml_key(key))]

    def set(self, value, key=None):
        self.changes[toml_key(key or self.key)] = value

    def refuse(self, code, *words):
        self.verdict, self.code, self.words = REFUSED, code, [self.key, *words]

    def take_advice(self):
        advice = self.draw.choice(["mend", "take out", "skip"])
        if advice == "mend":
            shutil.copy(PICTURES[30], self.folder / f"p/{BAD}.jpg")
        elif advice == "take out":
            write_rows(self.folder, [row for number, row in enumerate(read_rows(self.folder)) if number != BAD])
        else:
            self.changes["data__on_bad_sample"] = '"skip"'

    def change_no(self):
        self.set(self.draw.choice(self.other_values(self.key)))
        self.refuse(2)

    def change_on_one_machine(self):
        self.set(self.draw.choice(self.other_values(self.key)))

    def change_yes(self):
        self.set(self.draw.choice(self.other_values(self.key)))

    def change_with_our_products(self):
        self.set(self.draw.choice(self.other_values(self.key)))

    def change_while_training(self):
        self.set(self.draw.choice(self.other_values(self.key)))

    def change_from_there_on(self):
        self.set(self.draw.choice(self.other_values(self.key)))

    def change_longer(self):
        steps = int(self.start.settings["training__max_steps"])
        other = steps + self.draw.choice([-2, -1, 1, 2, 3])
        self.set(str(other))
        if other < steps:
            self.refuse(2, str(other), str(steps))

    def change_lower(self):
        rate = self.start.settings.get("training__learning_rate", "1e-3")
        other = self.draw.choice(["1e-9", "999.0"])
        self.set(other)
        if self.start.kind != "not finite" or float(other) > float(rate):
            self.refuse(2, "was trained with")

    def change_same_content(self):
        shutil.copytree(EMOJI / "model", self.folder / "model")
        self.set('"model"')
        if self.draw.random() < 0.5:
            name = self.draw.choice(["config.json", "preprocessor_config.json"])
            path = self.folder / "model" / name
            path.write_text(json.dumps({**json.loads(path.read_text()), "other": 1}))
            self.refuse(2, '"model"', str(EMOJI / "model"), name)

    def change_same_rows(self):
        rows, kind = read_rows(self.folder), self.draw.choice(["moved", "csv", "list", "glob", "added", "edited", "gone", "swapped", "picture"])
        at = self.draw.choice([number for number in range(len(rows)) if rows[number][0] != f"p/{BAD}.jpg"])
        if kind == "moved":
            write_rows(self.folder, rows, "other.jsonl")
            self.set('"other.jsonl"')
        elif kind == "csv":
            (self.folder / "other.csv").write_text("image,caption\n" + "".join(f"./{image},{caption}\n" for image, caption in rows))
            self.set('"other.csv"')
        elif kind in ("list", "glob"):
            write_rows(self.folder, rows[:at], "part-1.jsonl")
            write_rows(self.folder, rows[at:], "part-2.jsonl")
            self.set('["part-1.jsonl", "part-2.jsonl"]' if kind == "list" else '"part-?.jsonl"')
        elif kind == "picture":
            shutil.copy(PICTURES[60], self.folder / rows[at][0])
            self.refuse(3, "picture size")
        else:
            changed = {"added": rows + [rows[at]], "edited": rows[:at] + [(rows[at][0], "edited")] + rows[at + 1:],
                       "gone": rows[:at] + rows[at + 1:], "swapped": [rows[at]] + rows[:at] + rows[at + 1:] if at else rows[1:] + rows[:1]}
            write_rows(self.folder, changed[kind])
            self.refuse(3, "differs from what")
        if self.start.kind == "finished" and not self.changes:
            self.verdict = DONE  # a finished run whose settings are the same reads no data

    def change_same_product(self):
        self.set("2", "training.gradient_accumulation_steps")
        self.verdict, self.code, self.words = REFUSED, 2, ["training.gradient_accumulation_steps is 2"]

    def __str__(self):
        return f"{self.start.kind}: {self.key}: {self.changes}: {self.verdict}"


class RandomResumes(FolderTest):
    def setUp(self):
        super().setUp()
        document = subprocess.run([str(PROGRAM), "settings", "--resume", "--json"], check=True, capture_output=True, text=True).stdout
        self.rules = {key["key"]: key["may_change"] for key in json.loads(document)["keys"]}

    def test_go_on_as_the_list_says_or_are_refused_by_name(self):
        seed = int(os.environ.get("BASCULE_TEST_SEED", "16"))
        draw = random.Random(seed)
        starts = [Start(self.folder / kind.replace(" ", "-"), kind) for kind in ("finished", "bad picture", "not finite")]
        verdicts = {}
        for number in range(int(os.environ.get("BASCULE_RESUMES", "20"))):
            pair = Pair(draw, draw.choice(starts), self.folder / str(number), self.rules)
            verdicts[pair.verdict] = verdicts.get(pair.verdict, 0) + 1
            with self.subTest(number=number, seed=seed, pair=str(pair)):
                self.check(pair)
            shutil.rmtree(pair.folder)
        if os.environ.get("BASCULE_RESUMES"):
            print(verdicts)

    def check(self, pair):
        output = pair.folder / "run"
        before = tree(output)
        toml = settings(pair.folder, **{**pair.start.settings, **pair.changes})
        done = run("run", toml)
        self.assertNotIn("weights: initialised", done.stderr)  # that would be a start
        if pair.verdict == REFUSED:
            self.assertEqual(done.returncode, pair.code, done.stderr)
            for word in pair.words:
                self.assertIn(word, done.stderr.splitlines()[-1])
            self.assertEqual(tree(output), before)
        elif pair.verdict == DONE:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("already finished", done.stderr)
            self.assertEqual(tree(output), before)
        else:
            self.assertIn(f"resume: from checkpoint-{pair.start.step}\n", done.stderr)
            self.assertTrue(done.returncode == 0 or "not finite" in done.stderr, done.stderr)
            steps = [int(step) for step in re.findall(r"step (\d+)/", done.stderr)]
            self.assertTrue(all(step > pair.start.step for step in steps), steps)
            newest = max(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))
            self.assertGreaterEqual(newest, pair.start.step)
            keys = [entry["key"] for entry in json.loads((output / "bascule.json").read_text())["history"]]
            for key in pair.changes:
                self.assertIn(key.replace("__", "."), keys)
