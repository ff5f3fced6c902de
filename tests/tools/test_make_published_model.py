# SPDX-License-Identifier: Apache-2.0
"""tools/make_published_model: models of published size, and rows whose lengths in tokens are exact."""
import json
import subprocess
import sys
import unittest

from tool_modules import PROGRAM, ROOT, FolderTest

PARAMETERS = {"t5-small": 60_506_624, "t5-base": 222_903_552, "t5-large": 737_668_096, "t5-3b": 2_851_598_336, "t5-v1_1-small": 76_961_152,
              "flan-t5-xl": 2_849_757_184}


def parameters_of(config):
    """Of T5: norms, tables, feed-forward layers and attentions of both stacks, embeddings, and a head where it is not the embeddings."""
    width, inner, layers = config["d_model"], config["d_kv"] * config["num_heads"], config["num_layers"]
    gated = config.get("feed_forward_proj", "relu").startswith("gated-")
    feed = (3 if gated else 2) * width * config["d_ff"]
    stacks = layers * (3 * 4 * width * inner + 2 * feed + 5 * width) + 2 * width
    tables = 2 * config["relative_attention_num_buckets"] * config["num_heads"]
    return stacks + tables + (1 if config.get("tie_word_embeddings", True) else 2) * config["vocab_size"] * width


class MakePublishedModel(FolderTest):
    def setUp(self):
        super().setUp()
        self.folder /= "model"

    def make(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "tools/make_published_model", *map(str, arguments)], capture_output=True, text=True, check=False)

    def token_counts(self, texts):
        done = subprocess.run([PROGRAM, "tokenize", "--model", self.folder], input=json.dumps(texts), capture_output=True, text=True, check=True)
        return [len(ids) for ids in json.loads(done.stdout)]

    def test_each_kind_has_its_published_number_of_parameters(self):
        for kind, parameters in PARAMETERS.items():
            folder = self.folder / kind
            self.assertEqual(self.make(kind, folder).returncode, 0)
            self.assertEqual(parameters_of(json.loads((folder / "config.json").read_text())), parameters, kind)
            self.assertEqual(sorted(path.name for path in folder.iterdir()),
                             ["config.json", "generation_config.json", "spiece.model", "tokenizer.json", "tokenizer_config.json"])

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_lengths_are_exact_in_tokens(self):
        for spread, texts, summaries in (((), [512] * 4, [64] * 4), (("--spread",), [128, 256, 384, 512], [16, 32, 48, 64])):
            folder = self.folder
            self.assertEqual(self.make("t5-small", folder, "--rows", 4, "--source-tokens", 512, "--target-tokens", 64, *spread).returncode, 0)
            rows = [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]
            self.assertEqual(self.token_counts([row["text"] for row in rows]), texts)
            self.assertEqual(self.token_counts([row["summary"] for row in rows]), summaries)
            self.folder = self.folder.with_name("other")

    def test_the_same_command_writes_the_same_rows_and_another_seed_others(self):
        found = []
        for seed in (0, 0, 1):
            self.folder = self.folder.with_name(f"{len(found)}")
            self.make("t5-3b", self.folder, "--rows", 3, "--source-tokens", 9, "--target-tokens", 8, "--seed", seed)
            found.append((self.folder / "rows.jsonl").read_text())
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_pipelines_have_their_published_number_of_parameters(self):
        # UNet, text encoder and the decoder of the autoencoder.
        for kind, parameters in (("sd-v1", 859_520_964 + 123_060_480 + 49_490_199), ("sd-v2", 865_910_724 + 340_387_840 + 49_490_199)):
            folder = self.folder / kind
            self.assertEqual(self.make(kind, folder).returncode, 0)
            toml = self.folder / f"{kind}.toml"
            toml.write_text(f'[model]\nmodel_name_or_path = "{folder}"\n[draw]\noutput_dir = "{self.folder}/run"\nprompts = ["a cat"]\n')
            done = subprocess.run([PROGRAM, "plan", "--json", toml], capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            planned = json.loads(done.stdout)["categories"]["parameters, fixed"]
            self.assertAlmostEqual(planned / (4 * parameters), 1, delta=1e-6)  # padding between them

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_models_of_masked_words_have_their_published_number_of_parameters(self):
        for kind, parameters in (("roberta-base", 124_697_433), ("distilbert-base", 66_985_530)):
            folder = self.folder / kind
            self.assertEqual(self.make(kind, folder).returncode, 0)
            (self.folder / "rows.txt").write_text("a list of words\n\nand another\n" * 40)
            toml = self.folder / f"{kind}.toml"
            toml.write_text(f'[model]\nmodel_name_or_path = "{folder}"\nfrom_scratch = true\n[data]\ntrain_file = "{self.folder}/rows.txt"\nmax_seq_length = 16\n'
                            f'[training]\noutput_dir = "{self.folder}/run"\nper_device_train_batch_size = 2\n')
            done = subprocess.run([PROGRAM, "plan", "--json", toml], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            planned = json.loads(done.stdout)["categories"]["parameters, trained"]
            self.assertAlmostEqual(planned / (4 * parameters), 1, delta=1e-5)  # padding between them

    @unittest.skipUnless(PROGRAM.is_file(), f"needs {PROGRAM.name} in the build folder")
    def test_a_model_of_pictures_has_its_published_number_of_parameters(self):
        folder, rows = self.folder / "vit-base", ROOT / "tests/data/emoji-classes/train.jsonl"
        self.assertEqual(self.make("vit-base", folder).returncode, 0)
        keys = (f"model.model_name_or_path={folder}", "model.from_scratch=true", f"data.train_file={rows}", "data.validation_file=", "data.test_file=", "data.label_column=label")
        done = subprocess.run([PROGRAM, "plan", "--json", ROOT / "config/vit_base.toml", *keys], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertAlmostEqual(json.loads(done.stdout)["categories"]["parameters, trained"] / (4 * 86_567_656), 1, delta=1e-5)

    def test_nonsense_is_refused(self):
        self.folder.mkdir()
        other = self.folder / "other"
        for arguments in (("t5-small", self.folder), ("t5-11b", other), ("sd-v1", other, "--rows", 2, "--source-tokens", 9, "--target-tokens", 9), ("t5-small", other, "--rows", 3), ("t5-small", other, "--source-tokens", 9),
                          ("t5-small", other, "--rows", 2, "--source-tokens", 7, "--target-tokens", 9, "--spread"),
                          ("t5-small", other, "--rows", 2, "--source-tokens", 9, "--target-tokens", 1)):
            self.assertEqual(self.make(*arguments).returncode, 2, arguments)
            self.assertFalse(other.exists())
