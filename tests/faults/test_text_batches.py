# SPDX-License-Identifier: Apache-2.0
"""Training sentence embeddings: batches without duplicates whatever loads them, ranks that share their negatives, what a plan and the doctor say, and rows that are refused."""
import json

from bascule_run import ROOT, FolderTest, digest, run, settings, run_ok

DATA = ROOT / "tests" / "data"
BASE = {"model__model_name_or_path": f'"{DATA}/text-corpus/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/wordpiece"', "model__head": '"sentence_embedding"',
        "data__preprocessing": None, "media_engine__memory_mib": None, "data__train_file": '"rows.jsonl"', "data__text_column": '"anchor"', "data__text_pair_column": '"positive"',
        "training__max_steps": "6", "training__save_steps": None, "training__logging_steps": "1"}
NEGATIVES = {"data__negative_columns": '["negative"]'}


def write_rows(folder, rows=90):
    """Names and keywords of emoji; every third positive is another row's too."""
    pairs = [json.loads(line) for line in (DATA / "emoji-keywords" / "train.jsonl").read_text().splitlines()][:rows]
    lines = [{"anchor": pair["text"], "positive": pairs[i - i % 3]["summary"], "negative": pairs[(i + 40) % len(pairs)]["summary"], "score": (i % 7) / 6} for i, pair in enumerate(pairs)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


class TextBatches(FolderTest):
    def setUp(self):
        super().setUp()
        self.rows = write_rows(self.folder)

    def trained(self, name, *keys, **changes):
        toml = settings(self.folder, **{**BASE, "training__output_dir": f'"{self.folder}/{name}"', **changes})
        done = run_ok("run", toml, *keys)
        history = json.loads((self.folder / name / "trainer_state.json").read_text())["log_history"]
        return digest(self.folder / name / "model.safetensors"), [line["loss"] for line in history if "loss" in line], done.stderr

    def refusal(self, command="run", **changes):
        done = run(command, settings(self.folder, **{**BASE, **changes}))
        self.assertIn(done.returncode, (2, 3), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        return done.stderr

    def test_bits_do_not_depend_on_what_loads_or_computes(self):
        weights, losses, said = self.trained("one", **NEGATIVES)
        self.assertIn("plan: no batch has a text twice: ", said)
        self.assertTrue(all(loss > 0 for loss in losses))
        for name, changes in {"workers": {"data__dataloader_num_workers": "3", "data__ring_slots": "5"}, "none": {"data__dataloader_num_workers": "0"},
                              "recomputed": {"training__gradient_checkpointing": '"full"'}, "threads": {"machine__threads": "1"}}.items():
            with self.subTest(name=name):
                self.assertEqual(self.trained(name, **NEGATIVES, **changes)[:2], (weights, losses))
        self.assertNotEqual(self.trained("duplicates", **NEGATIVES, training__batch_sampler='"batch_sampler"')[0], weights)

    def test_ranks_that_share_their_negatives_have_the_loss_of_one_batch(self):
        _, losses, _ = self.trained("one", **NEGATIVES)
        for ranks in (2, 4):
            _, shared, _ = self.trained(f"ranks{ranks}", **NEGATIVES, distributed__world_size=str(ranks), training__per_device_train_batch_size=str(8 // ranks), training__gather_negatives="true")
            for one, other in zip(losses, shared):
                self.assertAlmostEqual(one, other, delta=2e-5 * max(1.0, one))

    def test_every_loss_learns_in_both_precisions(self):
        scores = {"data__label_column": '"score"'}
        for loss, changes in {"multiple_negatives_symmetric_ranking": NEGATIVES, "cosent": scores, "cosine_similarity": scores}.items():
            for precision in ("float32", "bf16"):
                with self.subTest(loss=loss, precision=precision):
                    _, losses, _ = self.trained(loss + precision, training__loss=f'"{loss}"', model__precision=f'"{precision}"', training__max_steps="20", **changes)
                    self.assertLess(sum(losses[-5:]), sum(losses[:5]))

    def test_a_run_reproduces_itself(self):
        self.trained("one", **NEGATIVES, training__gradient_accumulation_steps="2", data__validation_file='"rows.jsonl"')
        run_ok("reproduce", self.folder / "one")

    def test_the_doctor_counts_texts_that_rows_share(self):
        self.rows[4]["positive"] = self.rows[4]["anchor"]
        self.rows[7]["negative"] = self.rows[7]["positive"]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        done = run("doctor", settings(self.folder, **{**BASE, **NEGATIVES, "data__max_seq_length": "6"}), "--json")
        found = {finding["check"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(found["equal_pairs"]["count"], 1)
        self.assertIn("rows.jsonl:5", found["equal_pairs"]["examples"][0]["text"])
        self.assertEqual(found["false_negatives"]["count"], 1)
        self.assertEqual(found["shared_texts"]["level"], "note")
        self.assertGreater(found["shared_texts"]["count"], 60)
        self.assertIn("texts of \"", found["cut_texts"]["what"])

    def test_rows_and_settings_that_do_not_fit_are_refused_in_a_line(self):
        self.assertIn("needs the second text of each row", self.refusal(data__text_pair_column=None))
        self.assertIn("data.prompts has 1 text, but a row has 3 text columns", self.refusal(**NEGATIVES, data__prompts='["query: "]'))
        good = (self.folder / "rows.jsonl").read_text()
        for change, said in (({"negative": None}, 'rows.jsonl:91: column "negative" is null, not a string'), ({"score": "nan"}, 'rows.jsonl:91: label "score" is "nan"')):
            row = {**self.rows[0], **change}
            (self.folder / "rows.jsonl").write_text(good + json.dumps(row) + "\n")
            changes = {"training__loss": '"cosent"', "data__label_column": '"score"'} if "score" in change else NEGATIVES
            self.assertIn(said, self.refusal(**changes))
