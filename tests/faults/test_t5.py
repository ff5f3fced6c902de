# SPDX-License-Identifier: Apache-2.0
"""A T5 learns to write keywords of names: its figures, its bits, the folder that it leaves, and what it refuses."""
import array
import json
import math
import pathlib
import shutil
import struct
import tempfile
import unittest

from bascule_run import ROOT, FolderTest, digest, has_mpi, instruction_sets, run, run_ends, run_ok, settings
from run_files import rewrite, tensors
from serving import has_parser

UNIGRAM = ROOT / "tests" / "data" / "tokenizer" / "unigram"
KEYWORDS = ROOT / "tests" / "data" / "emoji-keywords"
PADDED = {"data__ignore_pad_token_for_loss": "false", "data__pad_to_max_length": "true"}


class T5(FolderTest):
    def model_with(self, **members):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in UNIGRAM.iterdir():
            shutil.copy(file, folder)
        config = {"model_type": "t5", "vocab_size": 2100, "d_model": 48, "d_kv": 10, "d_ff": 64, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3,
                  "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0, **members}
        (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
        return folder

    def settings(self, name="one", model=None, **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return settings(folder, **{
            "model__model_name_or_path": f'"{model or self.model_with()}"', "model__tokenizer_name": None, "data__train_file": f'"{KEYWORDS}/train.jsonl"',
            "data__text_column": '"text"', "data__summary_column": '"summary"', "data__source_prefix": '"keywords: "', "data__max_source_length": "32",
            "data__max_target_length": "40", "data__max_seq_length": None, "data__preprocessing": None, "media_engine__memory_mib": None,
            "training__max_steps": "9", "training__save_steps": "3", **changes})

    def weights(self, name="one", **changes):
        run_ok("run", self.settings(name, **changes))
        return digest(self.folder / name / "run/model.safetensors")

    def refusal(self, code, **changes):
        done = run_ends(code, "run", self.settings("refused", **changes))
        lines = [line for line in done.stderr.splitlines() if line.startswith("bascule: ")]
        return lines[-1]

    @unittest.skipUnless(has_parser(), "this program was built without Boost.Beast")
    def test_a_service_is_planned_with_the_head_that_the_folder_has(self):
        self.weights()
        weights = self.folder / "one" / "run" / "model.safetensors"
        data = weights.read_bytes()
        start = 8 + struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:start])
        begin, end = header["shared.weight"]["data_offsets"]
        head = array.array("f", [-value for value in array.array("f", data[start + begin:start + end])]).tobytes()
        header["lm_head.weight"] = {**header["shared.weight"], "data_offsets": [len(data) - start, len(data) - start + len(head)]}
        text = json.dumps(header).encode()
        weights.write_bytes(struct.pack("<Q", len(text)) + text + data[start:] + head)
        toml, served = self.settings("two", model=weights.parent, model__from_scratch="false"), self.folder / "serve.toml"
        toml.write_text(toml.read_text() + "[serve]\n")
        plan = run_ok("plan", toml, "--json", "machine.threads=1")
        self.assertEqual(run("run", toml).returncode, 0)
        self.assertIn("lm_head.weight", tensors(self.folder / "two" / "run" / "model.safetensors"))
        served.write_text(f'[model]\nmodel_name_or_path = "{self.folder}/two/run"\n[serve]\n')
        self.assertEqual(json.loads(run("plan", served, "--json", "machine.threads=1").stdout), json.loads(plan.stdout)["service"])

    def test_learns_and_leaves_a_folder_of_transformers(self):
        self.weights(training__max_steps="150", training__per_device_train_batch_size="32", training__learning_rate="3e-3", training__save_steps="0",
                     data__validation_file=f'"{KEYWORDS}/validation.jsonl"', data__test_file=f'"{KEYWORDS}/test.jsonl"')
        folder = self.folder / "one" / "run"
        results = json.loads((folder / "all_results.json").read_text())
        self.assertLess(results["validation_loss"], 5.0)  # 7.6 at the start: the logarithm of 2,100
        for split in ("validation", "test"):
            self.assertGreater(results[f"{split}_accuracy"], 0.1)
            self.assertAlmostEqual(results[f"{split}_perplexity"], math.exp(results[f"{split}_loss"]), 3)
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual(config["architectures"], ["T5ForConditionalGeneration"])
        self.assertTrue(config["tie_word_embeddings"])
        self.assertTrue((folder / "tokenizer.json").exists())
        self.assertNotIn("lm_head.weight", tensors(folder / "model.safetensors"))
        self.assertIn("import AutoTokenizer, T5ForConditionalGeneration", (folder / "README.md").read_text())

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        model = self.model_with(feed_forward_proj="gated-gelu")
        for form, changes in (("float32", {}), ("bf16", {"model__precision": '"bf16"'}), ("padded", PADDED)):
            common = {"model": model, "training__label_smoothing_factor": "0.1", **changes}
            whole = self.weights(f"{form}-whole", **common)
            with self.subTest(form):
                for name, other in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}),
                                    ("more-threads", {"machine__threads": "4", "data__dataloader_num_workers": "0"}),
                                    *((kind, {"training__gradient_checkpointing": f'"{kind}"'}) for kind in ("off", "fit", "full")),
                                    *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar" or form == "float32")):
                    self.assertEqual(self.weights(f"{form}-{name}", **common, **other), whole, name)
                self.weights(f"{form}-parts", **common, training__max_steps="4", training__lr_schedule_steps="9")
                self.assertEqual(self.weights(f"{form}-parts", **common, training__lr_schedule_steps="9"), whole)

    @unittest.skipUnless(has_mpi(), "built without MPI")
    def test_every_strategy_has_the_same_bits(self):
        model = self.model_with()
        for ranks, batch in (("2", "4"), ("4", "2")):
            common = {"model": model, "distributed__world_size": ranks, "training__per_device_train_batch_size": batch, "training__max_steps": "4"}
            found = {self.weights(f"{ranks}-{strategy}", **common, distributed__distribution_strategy=f'"{strategy}"')
                     for strategy in ("fast_ddp", "ddp", "sharded")}
            self.assertEqual(len(found), 1, ranks)

    def test_what_older_versions_wrote_changes_nothing_and_is_not_kept(self):
        self.weights("start")
        start, old = self.folder / "start/run", self.model_with()
        plain = self.weights("plain", model=start, model__from_scratch="false")
        copies = {name: "shared.weight" for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")}
        copies["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        rewrite(start / "model.safetensors", old / "model.safetensors", lambda name: name, copies)
        done = run_ok("run", self.settings("old", model=old, model__from_scratch="false"))
        self.assertNotIn("weights: not used", done.stderr)
        self.assertEqual(digest(self.folder / "old/run/model.safetensors"), plain)
        self.assertEqual(set(tensors(self.folder / "old/run/model.safetensors")), set(tensors(start / "model.safetensors")))

    def test_a_head_of_its_own_stays_one_through_saving(self):
        self.weights("start")
        start = self.folder / "start/run"
        for tie, scale in ((None, None), (False, None), (True, False), (False, True)):
            with self.subTest(tie=tie, scale=scale):
                name = f"own-{tie}-{scale}"
                model = self.model_with(tie_word_embeddings=tie, scale_decoder_outputs=scale)
                rewrite(start / "model.safetensors", model / "model.safetensors", lambda name: name, {"lm_head.weight": "shared.weight"}, {"lm_head.weight": 0.5})
                still = {"model__from_scratch": "false", "training__max_steps": "1", "training__learning_rate": "0.0", "data__validation_file": f'"{KEYWORDS}/validation.jsonl"'}
                done = run_ok("run", self.settings(name, model=model, **still))
                self.assertEqual("lm_head differs from the word table" in done.stderr, tie is not False, done.stderr)
                saved = self.folder / name / "run"
                self.weights(f"{name}-again", model=saved, **still)
                losses = [json.loads((folder / "all_results.json").read_text())["validation_loss"] for folder in (saved, self.folder / f"{name}-again/run")]
                self.assertEqual(losses[0], losses[1])
                self.assertIn("lm_head.weight", tensors(saved / "model.safetensors"))
                config = json.loads((saved / "config.json").read_text())
                self.assertFalse(config["tie_word_embeddings"])

    def test_bad_models_and_data_are_refused_in_one_line(self):
        rows = self.folder / "rows.jsonl"
        rows.write_text('{"text": "one", "summary": "two"}\n' * 12)
        for code, words, changes in (
                (3, "feed_forward_proj = \"gated-mish\"", {"model": self.model_with(feed_forward_proj="gated-mish")}),
                (3, "has no decoder_start_token_id", {"model": self.model_with(decoder_start_token_id=None)}),
                (3, "vocabulary", {"model": self.model_with(vocab_size=40)}),
                (3, "model_type = \"mt5\"", {"model": self.model_with(model_type="mt5")}),
                (3, "T5EncoderModel", {"model": self.model_with(architectures=["T5EncoderModel"])}),
                (3, "highlights", {"data__train_file": f'"{rows}"', "data__summary_column": '"highlights"'}),
                (2, "pad_to_max_length", {"data__ignore_pad_token_for_loss": "false"})):
            with self.subTest(words):
                self.assertIn(words, self.refusal(code, **changes))

    def test_weights_that_do_not_fit_config_json_are_refused(self):
        self.weights("start")
        other = self.model_with(d_model=32)
        shutil.copy(self.folder / "start/run/model.safetensors", other)
        self.assertIn("has shape", self.refusal(3, model=other, model__from_scratch="false"))
