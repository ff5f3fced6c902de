# SPDX-License-Identifier: Apache-2.0
"""A BERT learns from a text corpus: the bits depend on the settings alone, the text is tokenised once, and what is no corpus is refused."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

from bascule_run import EMOJI, PROGRAM, ROOT, FolderTest, digest, instruction_sets, patient, run, run_ends, run_ok, settings
from rank_runs import preloaded

WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
DISK = 6
# A file system of its own below the folder, with less room than the tokens need.
FULL = 'mkdir -p {folder}/disk && mount -t tmpfs -o size=64k none {folder}/disk || exit 77; "{program}" run {toml}'


def write_text(path, documents=60):
    """Sentences of words that follow each other by a rule, so that there is something to learn."""
    words = [word for word in (WORD_PIECE / "vocab.txt").read_text().split("\n") if word.isalpha() and len(word) > 3][:200]
    lines, at = [], 0
    for document in range(documents):
        for sentence in range(3 + document % 5):
            lines.append(" ".join(words[(at := (at * 5 + 7 + sentence) % len(words))] for _ in range(4 + (document + sentence) % 9)) + ".")
        lines.append("")
    path.write_text("\n".join(lines))
    return path


PAIRS = {"model__head": '"pretraining"', "data__dupe_factor": "2"}


class Corpus(FolderTest):
    def setUp(self):
        super().setUp()
        self.text = write_text(self.folder / "train.txt")
        self.model = self.folder / "model"
        self.model.mkdir()
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, self.model)
        (self.model / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "max_position_embeddings": 40}))

    def settings(self, name="one", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return settings(folder, **{
            "model__model_name_or_path": f'"{self.model}"', "model__tokenizer_name": None, "data__train_file": f'"{self.text}"', "data__preprocessing": None,
            "media_engine__memory_mib": None, "training__per_device_train_batch_size": "8", "training__save_steps": "5", "data__max_seq_length": "24",
            "training__max_steps": None, "training__num_train_epochs": "1.5", **changes})

    def weights(self, name="one", **changes):
        run_ok("run", self.settings(name, **changes))
        return digest(self.folder / name / "run/model.safetensors")

    def test_the_first_samples_of_a_corpus_may_be_evaluated_alone(self):
        for name, changes in (("blocks", {}), ("lines", {"data__text_layout": '"lines"'}), ("pairs", PAIRS)):
            with self.subTest(name):
                files = {"data__validation_file": f'"{self.text}"', "data__test_file": f'"{self.text}"', "training__num_train_epochs": "0.1"}
                self.weights(name, **changes, **files, data__max_eval_samples="5", data__max_predict_samples="3")
                self.weights(f"{name}-all", **changes, **files)
                first, whole = (json.loads((self.folder / folder / "run/all_results.json").read_text()) for folder in (name, f"{name}-all"))
                self.assertEqual((first["validation_samples"], first["test_samples"], first["train_samples"]), (5, 3, whole["train_samples"]))
                self.assertGreater(whole["test_samples"], 5)
                rows, all_rows = ((self.folder / folder / "run/predictions.jsonl").read_text().splitlines() for folder in (name, f"{name}-all"))
                self.assertEqual(len(rows), 3)
                self.assertEqual(rows, all_rows[:3])

    def test_learns_in_either_layout_and_with_either_masking(self):
        for name, changes in (("blocks", {}), ("lines", {"data__text_layout": '"lines"'}), ("bernoulli", {"data__masking": '"bernoulli"'}), ("few", {"data__max_predictions_per_seq": "1"})):
            with self.subTest(name):
                self.weights(name, **changes, data__validation_file=f'"{self.text}"', data__test_file=f'"{self.text}"', training__learning_rate="3e-3", training__num_train_epochs="12")
                results = json.loads((self.folder / name / "run/all_results.json").read_text())
                self.assertLess(results["validation_loss"], 6.0)  # 8.3 at the start: the logarithm of 4,000
                self.assertEqual(results["validation_loss"], results["test_loss"])
                rows = [json.loads(line) for line in (self.folder / name / "run/predictions.jsonl").read_text().splitlines()]
                self.assertEqual(rows[0]["begins"], f"{self.text}:1")
                counts = {len(row["tokens"]) for row in rows}
                self.assertEqual(counts == {1}, name == "few")
                if name == "blocks":
                    self.assertEqual(counts, {4})  # round(0.15 x 24)
                if name == "bernoulli":
                    self.assertGreater(len(counts), 3)

    def test_learns_from_pairs_and_whether_they_belong_together(self):
        self.weights("pairs", **PAIRS, data__validation_file=f'"{self.text}"', data__test_file=f'"{self.text}"', training__learning_rate="3e-3", training__num_train_epochs="3")
        results = json.loads((self.folder / "pairs/run/all_results.json").read_text())
        self.assertLess(results["validation_masked_lm_loss"], 6.0)
        rows = [json.loads(line) for line in (self.folder / "pairs/run/predictions.jsonl").read_text().splitlines()]
        self.assertEqual(rows[0]["begins"], f"{self.text}:1")

    def test_evaluates_one_pass_over_each_document(self):
        samples = {}
        for factor in (1, 4):
            name = f"factor-{factor}"
            self.weights(name, model__head='"pretraining"', data__dupe_factor=str(factor), data__validation_file=f'"{self.text}"', data__test_file=f'"{self.text}"',
                         training__max_steps="1", training__num_train_epochs=None)
            results = json.loads((self.folder / name / "run/all_results.json").read_text())
            samples[factor] = [results[f"{split}_samples"] for split in ("train", "validation", "test")]
        train, validation, test = samples[4]
        self.assertEqual((validation, test), (samples[1][0], samples[1][0]))
        self.assertGreater(train, 3 * validation)

    def test_learns_which_text_follows_where_the_words_tell(self):
        words = [word for word in (WORD_PIECE / "vocab.txt").read_text().split("\n") if word.isalpha() and len(word) > 3][:24]
        for name, documents in (("topics", 600), ("held", 100)):  # a document has one word, and the next text has it too
            draw = random.Random(documents)
            topics = [draw.choice(words) for _ in range(documents)]
            (self.folder / f"{name}.txt").write_text("\n\n".join("\n".join(" ".join([topic] * draw.randint(2, 4)) for _ in range(6)) for topic in topics))
        self.weights("told", **{**PAIRS, "data__dupe_factor": "5"}, data__train_file=f'"{self.folder}/topics.txt"', data__validation_file=f'"{self.folder}/held.txt"',
                     model__model_name_or_path=f'"{ROOT}/tests/data/text-corpus/model"', model__tokenizer_name=f'"{WORD_PIECE}"', data__max_seq_length="16", training__max_steps="300",
                     training__num_train_epochs=None, training__per_device_train_batch_size="32", training__save_steps="0", training__learning_rate="1e-3", training__warmup_ratio="0.1",
                     training__seed="0")
        results = json.loads((self.folder / "told/run/all_results.json").read_text())
        self.assertGreater(results["validation_next_sentence_accuracy"], 0.9)

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        for masking, common in (("counted", {}), ("bernoulli", {"data__masking": '"bernoulli"'}), ("pairs", {**PAIRS, "training__num_train_epochs": "0.5"})):
            whole = self.weights(f"{masking}-whole", **common)
            for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("calls", {"data__dataloader_num_workers": "0", "data__ring_slots": "5"}),
                                  *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                self.assertEqual(self.weights(f"{masking}-{name}", **common, **changes), whole, name)
            ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
            self.assertEqual(self.weights(f"{masking}-ranks", **common, **ranks), self.weights(f"{masking}-sharded", **common, **ranks, distributed__distribution_strategy='"sharded"'))

    def test_goes_on_in_an_epoch_and_after_a_kill(self):
        self.go_on({"training__num_train_epochs": "3.5"}, "2.5")

    def test_goes_on_with_pairs(self):
        self.go_on({**PAIRS, "training__num_train_epochs": "0.8"}, "0.5")

    def go_on(self, long, part):
        whole = self.weights("whole", **long)
        steps = str(json.loads((self.folder / "whole/run/trainer_state.json").read_text())["global_step"])
        self.weights("parts", **{**long, "training__num_train_epochs": part}, training__lr_schedule_steps=steps)
        self.assertEqual(self.weights("parts", **long, training__lr_schedule_steps=steps), whole)
        toml = self.settings("killed", **long)
        checkpoint = self.folder / "killed/run/checkpoint-10"
        started = subprocess.Popen([PROGRAM, "run", toml], stderr=subprocess.PIPE, text=True)
        while started.poll() is None and not checkpoint.exists():
            time.sleep(0.001)
        started.send_signal(signal.SIGKILL)
        started.communicate()
        self.assertEqual(started.returncode, -signal.SIGKILL)
        self.assertFalse((self.folder / "killed/run/model.safetensors").exists())
        self.assertEqual(self.weights("killed", **long), whole)

    def test_is_tokenised_once(self):
        self.weights(training__num_train_epochs="0.5", training__lr_schedule_steps="30")
        kept = [path for path in (self.folder / "one/run").iterdir() if path.name.startswith(".tokens-")]
        self.assertEqual(len(kept), 1)
        text_is_unreadable = {**os.environ, "LD_PRELOAD": preloaded("failing_file"), "FAILING_CALL": "open", "FAILING_PATH": "train.txt", "FAILING_ERROR": "13"}
        longer = self.settings(training__num_train_epochs="1", training__lr_schedule_steps="30")
        run_ok("run", longer, env=text_is_unreadable)
        shutil.rmtree(self.folder / "one/run")
        self.assertIn("train.txt: cannot be read", run("run", longer, env=text_is_unreadable).stderr)

    def test_of_another_text_is_no_run_to_resume(self):
        self.weights(training__num_train_epochs="0.5", training__lr_schedule_steps="30")
        kept = sorted((self.folder / "one/run").iterdir())
        self.text.write_text(self.text.read_text().replace(".", "!"))
        self.assertIn("its text differs", run_ends(3, "run", self.settings(training__num_train_epochs="1", training__lr_schedule_steps="30")).stderr.splitlines()[-1])
        self.assertEqual(sorted((self.folder / "one/run").iterdir()), kept)  # without the tokens of the other text

    def test_a_plan_writes_nothing_and_has_no_memory_for_pictures(self):
        done = run_ok("plan", self.settings(), "--json")
        self.assertFalse((self.folder / "one/run").exists())
        self.assertLess(json.loads(done.stdout)["categories"]["loader"], 100_000)

    def test_a_full_disk_is_one_line(self):
        write_text(self.text, 5000)
        script = FULL.format(folder=self.folder, program=PROGRAM, toml=self.settings(training__output_dir=f'"{self.folder}/disk/run"'))
        done = subprocess.run(["unshare", "--mount", "--map-root-user", "sh", "-c", script], capture_output=True, text=True, timeout=patient(300))
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("no mount namespaces here")
        self.assertEqual(done.returncode, DISK, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("writing the tokens of the corpus: No space left on device; free space", done.stderr)

    def test_a_folder_in_the_way_of_the_tokens_is_one_line(self):
        self.weights()
        (kept,) = (self.folder / "one/run").glob(".tokens-*")
        output_dir = self.folder / "two/run"
        (output_dir / kept.name / "theirs").mkdir(parents=True)
        done = run("run", self.settings("two"))
        self.assertEqual((done.returncode, done.stderr.count(kept.name)), (DISK, 1), done.stderr)
        self.assertEqual([path.name for path in output_dir.iterdir()], [kept.name])
        self.assertTrue((output_dir / kept.name / "theirs").is_dir())

    def test_what_is_no_corpus_is_refused(self):
        texts = {}
        for name, content in (("bad", b"one\n\xff\n"), ("nul", b"a\0b c d e\n"), ("wide", "a b c\n".encode("utf-16-le")), ("empty", b"\n \n\n"), ("long", b"word " * 2_097_152), ("short", b"Few words.\n"), ("one", b"One document of a few words.\nAnother sentence.\n")):
            path = self.folder / f"{name}.txt"
            path.write_bytes(content)
            texts[name] = {"data__train_file": f'"{path}"'}
        other_model = {"model__model_name_or_path": f'"{EMOJI}/model"', "model__tokenizer_name": f'"{EMOJI}/tokenizer"', "model__head": '"masked_lm"'}
        for code, changes, said in ((3, texts["bad"], "bad.txt:2: byte 0 of the line is not UTF-8"), (3, texts["nul"], "nul.txt:1: has NUL bytes: it is not a text; remove them"), (3, texts["wide"], "wide.txt: is UTF-16"),
                                    (3, texts["empty"], "has no text"),
                                    (3, texts["long"], "long.txt:1: the line has more than 1048576 bytes"), (3, texts["short"], "fewer than one block of 24"),
                                    (3, {**PAIRS, **texts["one"]}, "has one document"), (2, {"data__dupe_factor": "2"}, "data.dupe_factor"), (2, {**PAIRS, "data__text_layout": '"lines"'}, "data.text_layout"), (2, other_model, "is a text corpus"), (2, {"data__max_seq_length": "4"}, "data.max_seq_length"), (2, {"data__max_predictions_per_seq": "0"}, "max_predictions_per_seq"),
                                    (2, {"data__masking": '"bernoulli"', "data__max_predictions_per_seq": "3"}, "max_predictions_per_seq"),
                                    (2, {"data__train_file": f'"{EMOJI}/train.jsonl"', "data__text_layout": '"lines"'}, "text_layout")):
            with self.subTest(said):
                self.assertIn(said, run_ends(code, "run", self.settings("refused", **changes)).stderr.splitlines()[-1])
                self.assertFalse([path.name for path in (self.folder / "refused").glob("run/.tmp-*")])
