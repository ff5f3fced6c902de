# SPDX-License-Identifier: Apache-2.0
"""Figures of whole runs: recall and loss recomputed from embeddings.safetensors, rows left out, times over a resume."""
import json
import math
import pathlib
import re
import shutil
import struct

from bascule_run import EMOJI, FolderTest, SharedFolderTest, run, run_ends, run_ok, settings

DATA = 3  # exit code
BATCH = 7
# Evaluations that take longer than the updates between them.
OFTEN = {"training__eval_steps": "1", "training__logging_steps": "1", "training__per_device_train_batch_size": "2"}


def tensors(path):
    """Header's metadata, and each float32 tensor as (shape, flat values)."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, tensor in header.items():
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        found[name] = (tensor["shape"], struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
    return metadata, found


def matrix(tensor):
    (rows, width), values = tensor
    return [values[row * width:(row + 1) * width] for row in range(rows)]


def dot(a, b):
    return math.fsum(x * y for x, y in zip(a, b))


def recalls(text, images, pictures):
    """R@1, 5, 10 of text to image over distinct pictures, and of image to text with any of a picture's captions."""
    first = {}
    for row, picture in enumerate(pictures):
        first.setdefault(picture, row)
    ranks_of_captions = []
    for row, caption in enumerate(text):
        scores = {picture: dot(caption, images[shown]) for picture, shown in first.items()}
        own = scores.pop(pictures[row])
        ranks_of_captions.append(sum(score >= own for score in scores.values()))
    ranks_of_pictures = []
    for picture, shown in first.items():
        scores = [dot(images[shown], caption) for caption in text]
        best = max(score for score, of_picture in zip(scores, pictures) if of_picture == picture)
        ranks_of_pictures.append(sum(score >= best for score, of_picture in zip(scores, pictures) if of_picture != picture))
    return {f"{way}_recall_at_{k}": sum(rank < k for rank in ranks) / len(ranks) for k in (1, 5, 10)
            for way, ranks in (("text_to_image", ranks_of_captions), ("image_to_text", ranks_of_pictures))}


def contrastive_loss(text, images, cross, scale):
    """The published head's loss of one batch."""
    def cross_entropy(queries, answers):
        total = 0.0
        for i, query in enumerate(queries):
            logits = [scale * dot(query, answer) for answer in answers]
            total += math.log(math.fsum(math.exp(logit - max(logits)) for logit in logits)) + max(logits) - logits[i]
        return total / len(queries)
    return (cross_entropy(text, images) + cross_entropy(text, cross) + cross_entropy(images, cross)) / 3


class Evaluation(FolderTest):
    def setUp(self):
        super().setUp()
        (self.folder / "p").mkdir()
        for number, picture in enumerate(sorted((EMOJI / "images").glob("*.jpg"))[:20]):
            shutil.copy(picture, self.folder / f"p/{number}.jpg")

    def rows(self, name, pictures, captions):
        """A file of pictures with so many captions each; the rows of a picture are not neighbours."""
        rows = [{"image": f"p/{picture}.jpg", "caption": f"picture {picture} {'once more ' * caption}"}
                for caption in range(captions) for picture in range(pictures)]
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return rows

    def break_picture(self, number):
        with open(self.folder / f"p/{number}.jpg", "r+b") as file:
            file.truncate(300)

    def trained(self, name, code=0, **changes):
        (self.folder / name).mkdir(exist_ok=True)
        done = run_ends(code, "run", settings(self.folder / name, **{"training__max_steps": "6", "training__per_device_eval_batch_size": str(BATCH),
                                                                     "training__save_steps": "0", **changes}))
        return done

    def results(self, name, file="all_results.json"):
        return json.loads((self.folder / name / "run" / file).read_text())

    def check_recomputed(self, name, rows, batches, split="validation"):
        """batches: the rows judged of each batch."""
        judged = [row for batch in batches for row in batch]
        metadata, embeds = tensors(self.folder / name / "run/embeddings.safetensors")
        self.assertEqual(json.loads(metadata["captions"]), [rows[row]["caption"] for row in judged])
        text, images, cross = (matrix(embeds[key]) for key in ("text_embeds", "image_embeds", "cross_embeds"))
        results = self.results(name)
        self.assertEqual(results[f"{split}_samples"], len(judged))
        for key, value in recalls(text, images, [rows[row]["image"] for row in judged]).items():
            self.assertAlmostEqual(results[f"{split}_{key}"], value, places=12, msg=key)
        scale = math.exp(tensors(self.folder / name / "run/model.safetensors")[1]["logit_scale"][1][0])
        loss, begin = 0.0, 0
        for batch in batches:
            part = slice(begin, begin + len(batch))
            if batch:
                loss += len(batch) * contrastive_loss(text[part], images[part], cross[part], scale)
            begin += len(batch)
        self.assertAlmostEqual(results[f"{split}_loss"], loss / len(judged), delta=1e-5)
        for key, count in (("samples", len(judged)), ("steps", len(batches))):
            self.assertAlmostEqual(results[f"{split}_{key}_per_second"] * results[f"{split}_runtime"], count, delta=0.05 * count)

    def check_rates(self, name, done, samples):
        """The time of an evaluation is in no rate: with it, every interval would be longer than the evaluation that fell into it."""
        lines = [json.loads(line) for line in (self.folder / name / "run/log.jsonl").read_text().splitlines()]
        seconds = {line["step"]: samples / line["samples_per_second"] for line in lines if "loss" in line}
        evaluated = {line["step"]: line["eval_runtime"] for line in lines if "eval_loss" in line}
        self.assertEqual(sorted(evaluated), sorted(seconds))
        self.assertLess(min(seconds[step + 1] - evaluated[step] for step in evaluated if step + 1 in seconds), 0, lines)
        stated = re.search(r"not included: evaluation ([0-9.]+) (ms|s), saving", done.stdout)
        share = float(stated[1]) * (1e-3 if stated[2] == "ms" else 1.0) / sum(evaluated.values())
        self.assertTrue(0.97 < share < 1.5, f"{share}: {done.stdout}")  # writing the results too, for which a busy machine takes its time

    def test_recall_and_loss_are_those_of_the_embeddings(self):
        for captions in (1, 3, 5):
            with self.subTest(captions=captions):
                rows = self.rows("rows.jsonl", 20 if captions == 1 else 8, captions)
                done = self.trained(f"captions{captions}", data__validation_file=f'"{self.folder}/rows.jsonl"', **(OFTEN if captions == 5 else {}))
                batches = [range(len(rows))[first:first + BATCH] for first in range(0, len(rows), BATCH)]
                self.check_recomputed(f"captions{captions}", rows, batches)
        self.check_rates("captions5", done, samples=2)

    def test_rows_that_are_skipped_are_left_out_and_not_replaced(self):
        rows = self.rows("rows.jsonl", 8, 3)
        self.break_picture(5)
        changes = {"data__validation_file": f'"{self.folder}/rows.jsonl"', "data__test_file": f'"{self.folder}/rows.jsonl"',
                   "data__on_bad_sample": '"skip"'}
        done = self.trained("one", **changes)
        batches = [[row for row in range(first, min(first + BATCH, len(rows))) if row % 8 != 5] for first in range(0, len(rows), BATCH)]
        for split in ("validation", "test"):
            self.check_recomputed("one", rows, batches, split)
            self.assertEqual(self.results("one")[f"{split}_skipped_rows"], 3)
        self.assertEqual(self.results("one", "validation_results.json")["eval_samples"], 21)
        self.assertIn("validation: 3 rows skipped, 21 evaluated", done.stderr)
        self.assertRegex(done.stdout, r"Errors +kept")
        self.trained("two", distributed__world_size="2", training__per_device_train_batch_size="4", **changes)
        self.check_recomputed("two", rows, batches, "test")
        one, two = (tensors(self.folder / name / "run/embeddings.safetensors")[0]["paths"] for name in ("one", "two"))
        self.assertEqual(one, two)

    def test_a_batch_without_a_good_picture_and_a_file_without_one(self):
        rows = self.rows("rows.jsonl", 16, 1)
        for picture in range(7, 14):  # the second batch
            self.break_picture(picture)
        changes = {"data__validation_file": f'"{self.folder}/rows.jsonl"', "data__on_bad_sample": '"skip"'}
        for head in ("contrastive", "image_text_matching", "masked_lm"):
            self.trained(head, model__head=f'"{head}"', **changes)
            self.assertEqual(self.results(head)["validation_samples"], 9)
            self.assertTrue(math.isfinite(self.results(head)["validation_loss"]))
        self.check_recomputed("contrastive", rows, [range(7), [], [14, 15]])
        for picture in range(16):
            if picture not in range(7, 14):
                self.break_picture(picture)
        done = self.trained("none", code=DATA, **changes)
        self.assertRegex(done.stderr, "rows.jsonl:1: .*/0.jpg: the JPEG file is truncated; no row of this file has a readable picture")


class Resume(SharedFolderTest):
    """From checkpoint 3 of 10 updates that are logged by fours: in the middle of an interval."""
    STEPS = {"training__max_steps": "10", "training__logging_steps": "4", "training__save_steps": "3",
             "training__save_total_limit": "0", "training__throughput_warmup_steps": "1", "machine__step_seconds": "0.02"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        (cls.folder / "whole").mkdir()
        cls.done = run("run", settings(cls.folder / "whole", **cls.STEPS))

    def resumed(self, name, change_state=None):
        source, target = self.folder / "whole/run/checkpoint-3", self.folder / name / "run/checkpoint-3"
        shutil.copytree(source, target)
        if change_state is not None:
            state = json.loads((target / "bascule_state.json").read_text())
            change_state(state)
            (target / "bascule_state.json").write_text(json.dumps(state))
        done = run_ok("run", settings(self.folder / name, **self.STEPS))
        self.assertIn("from checkpoint-3", done.stderr)
        return done

    def results(self, name, file):
        return json.loads((self.folder / name / "run" / file).read_text())

    def check_honest(self, done):
        self.assertRegex(done.stdout, r"Honest figures +kept")
        forward = re.search(r"forward +([0-9.]+) ms", done.stdout)
        self.assertIsNotNone(forward, done.stdout)
        self.assertGreaterEqual(float(forward.group(1)), 20.0)  # every step takes that long

    def check_logged(self, name):
        histories = [[entry for entry in self.results(run_name, "trainer_state.json")["log_history"] if "loss" in entry] for run_name in ("whole", name)]
        self.assertEqual(histories[0], histories[1])
        self.assertEqual([entry["step"] for entry in histories[0]], [4, 8, 10])

    def test_within_a_logging_interval_keeps_the_figures_honest(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        done = self.resumed("resumed")
        self.check_honest(self.done)
        self.check_honest(done)
        self.check_logged("resumed")

    def test_figures_of_this_process_and_of_the_whole_run_stand_apart(self):
        done = self.resumed("totals")
        whole, part = self.results("whole", "all_results.json"), self.results("totals", "all_results.json")
        self.assertEqual((whole["total_train_processes"], whole["total_train_steps"]), (1, 10))
        self.assertEqual(whole["total_train_runtime"], whole["train_runtime"])
        self.assertEqual(whole["total_train_samples_per_second"], whole["train_samples_per_second"])
        self.assertEqual((part["total_train_processes"], part["total_train_steps"]), (2, 10))
        self.assertGreater(part["total_train_runtime"], part["train_runtime"] + 3 * 0.02)
        for key in ("train_steps_per_second", "total_train_steps_per_second"):
            self.assertLessEqual(part[key], 1 / 0.02)
        self.assertAlmostEqual(part["total_flos"], whole["total_flos"], delta=1e-3 * whole["total_flos"])
        self.assertIn("throughput, this process", done.stdout)
        self.assertIn("throughput, whole run", done.stdout)
        self.assertNotIn("whole run", self.done.stdout)
        for results in (whole, part):
            self.assertGreaterEqual(results["loader_could_deliver_samples_per_second"], results["train_samples_per_second"])

    def test_a_checkpoint_without_the_newer_numbers_goes_on(self):
        def make_old(state):
            for number in [name for name in state["numbers"] if name.startswith("run_") or (name.startswith("interval_") and name.endswith("_seconds"))]:
                del state["numbers"][number]
            state["format"] = 2  # which had no checksums
            for key in ("resumed_from", "xxh3"):
                del state[key]
            state["files"] = {name: file["bytes"] for name, file in state["files"].items()}

        done = self.resumed("old", make_old)
        self.check_honest(done)
        self.check_logged("old")
        results = self.results("old", "all_results.json")
        self.assertEqual((results["total_train_processes"], results["total_train_steps"]), (1, 7))

    def test_parameters_are_numbers_not_tensors(self):
        results = self.results("whole", "all_results.json")
        said = re.search(r"([0-9,]+) parameters, ([0-9,]+) trained", self.done.stderr)
        self.assertIsNotNone(said, self.done.stderr)
        self.assertEqual([int(number.replace(",", "")) for number in said.groups()], [results["parameters"], results["trained_parameters"]])
        header = tensors(self.folder / "whole/run/model.safetensors")[1]
        of_model = sum(math.prod(shape) for shape, _ in header.values())
        self.assertLessEqual(results["trained_parameters"], results["parameters"])
        self.assertLessEqual(results["parameters"], of_model)
        self.assertGreater(results["parameters"], of_model // 2)
