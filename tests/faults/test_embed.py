# SPDX-License-Identifier: Apache-2.0
"""`bascule embed`: the vectors of texts, the forms of a folder, the files that are written, and what is refused."""
import array
import json
import os
import random
import resource
import shutil
import subprocess

from bascule_run import PROGRAM, SharedFolderTest, run_ends, run_ok, settings
from relatives import DATA, SETTINGS, write_relatives
from run_files import rewrite, tensors

KEYWORDS = DATA / "emoji-keywords"
WIDTH = 64
CALL = "sentence_bert_config.json"
POOLING = "1_Pooling/config.json"
FACTS = "config_sentence_transformers.json"


def write_modules(folder, *modules, body=""):
    """Files of the old layout: mean pooling, and what comes behind it."""
    library = "sentence_transformers.models."
    listed = [("Transformer", body), ("Pooling", "1_Pooling"), *((module, f"2_{module}") for module in modules)]
    (folder / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": library + kind} for i, (kind, path) in enumerate(listed)]))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / POOLING).write_text(json.dumps({"word_embedding_dimension": WIDTH, "pooling_mode_mean_tokens": True}))
    (folder / body / CALL).write_text(json.dumps({"max_seq_length": 16, "do_lower_case": False}))


class Embed(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        write_relatives(cls.folder)
        for kind in ("bert", "roberta", "distilbert"):
            # An update of nothing: weights with the body's prefix, and a head that is not used.
            (cls.folder / f"of_{kind}").mkdir()
            names = {f"model__{key}": value.replace(f'"{kind}"', f'"{cls.folder}/{kind}"') for key, value in SETTINGS[kind].items()}
            run_ok("run", settings(cls.folder / f"of_{kind}", **{**names, "model__head": '"masked_lm"', "data__train_file": f'"{KEYWORDS}/train.jsonl"', "data__text_column": '"text"',
                                                                   "data__preprocessing": None, "media_engine__memory_mib": None, "training__max_steps": "1", "training__save_steps": "0"}))
        cls.lines = [row[key] for row in map(json.loads, (KEYWORDS / "train.jsonl").read_text().splitlines()[:150]) for key in ("text", "summary")]
        cls.lines[5] = ""
        cls.lines[9] = " ".join(cls.lines[:9])

    def copy(self, kind="bert", into=""):
        """A model's files in a folder of this test."""
        folder = self.folder / f"{self.id().rsplit('.', 1)[1]}{len(list(self.folder.iterdir()))}"
        (folder / into).mkdir(parents=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "vocab.txt"):
            if (self.folder / f"of_{kind}" / "run" / name).is_file():
                shutil.copy(self.folder / f"of_{kind}" / "run" / name, folder / into)
        return folder

    def sentence_model(self, kind="bert", *modules):
        folder = self.copy(kind)
        write_modules(folder, *modules)
        return folder

    def embed(self, folder, *arguments, code=0, **options):
        done = run_ends(code, "embed", folder, *arguments, **options)
        return done

    def vectors(self, folder, lines, *arguments, **options):
        """The rows of the file that is written for these lines, as bytes."""
        path = self.folder / "vectors.safetensors"
        self.embed(folder, "-", "--output", path, *arguments, input="".join(line + "\n" for line in lines), **options)
        found = tensors(path)
        self.assertEqual(list(found), ["embeddings"])
        values = found["embeddings"].tobytes()
        path.unlink()
        self.assertEqual(len(values), len(lines) * WIDTH * 4)
        return [values[i:i + WIDTH * 4] for i in range(0, len(values), WIDTH * 4)]

    def test_every_form_of_the_answer_has_the_same_bits(self):
        for kind in ("bert", "roberta", "distilbert"):
            folder = self.sentence_model(kind, "Normalize")
            rows = self.vectors(folder, self.lines)
            self.assertGreater(len(set(rows)), 250)
            printed = self.embed(folder, "-", input="".join(line + "\n" for line in self.lines[:40])).stdout.splitlines()
            self.assertEqual([array.array("f", map(float, line.split())).tobytes() for line in printed], rows[:40], kind)
            document = json.loads(self.embed(folder, *self.lines[4:12], "--json").stdout)
            self.assertEqual([array.array("f", text["embedding"]).tobytes() for text in document["texts"]], rows[4:12], kind)
            self.assertEqual([text["text"] for text in document["texts"]], self.lines[4:12])
            self.assertEqual([(text["tokens"], text["cut"]) for text in document["texts"]][1], (2, False))  # the empty text
            self.assertEqual([(text["tokens"], text["cut"]) for text in document["texts"]][5], (16, True))
            order = list(range(len(self.lines)))
            random.Random(3).shuffle(order)
            one_core = self.vectors(folder, [self.lines[i] for i in order], preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]))
            self.assertEqual(one_core, [rows[i] for i in order], kind)

    def test_what_is_done_with_texts_is_said(self):
        folder = self.sentence_model()
        said = self.embed(folder, self.lines[9], "a cat").stderr.splitlines()
        self.assertEqual(said[0], "bascule: embed: mean pooling, no norm, 16 tokens (max_seq_length of sentence_bert_config.json)")
        self.assertEqual(said[-1], "bascule: embed: 1 of 2 texts had more than 16 tokens and was cut")
        plain = self.embed(self.copy(), "a cat").stderr.splitlines()
        self.assertEqual(plain[0], "bascule: embed: mean pooling, no norm (no modules.json), 32 tokens (the positions of config.json)")

    def test_weights_without_the_bodys_prefix_and_a_body_below_give_the_same_bits(self):
        folder = self.sentence_model()
        rows = self.vectors(folder, self.lines[:20])
        bare = self.sentence_model()
        rewrite(folder / "model.safetensors", bare / "model.safetensors", lambda name: name.removeprefix("bert."), {})
        self.assertEqual(self.vectors(bare, self.lines[:20]), rows)
        below = self.copy(into="0_Transformer")
        write_modules(below, body="0_Transformer")
        (below / "config.json").write_text('{"__version__": "0.3.9"}')  # as old versions wrote it
        self.assertEqual(self.vectors(below, self.lines[:20]), rows)

    def test_prompts_are_put_before_texts(self):
        folder = self.sentence_model()
        (folder / FACTS).write_text(json.dumps({"prompts": {"query": "find a ", "passage": "here: "}, "default_prompt_name": "passage"}))
        plain = self.sentence_model()
        texts = ["cat", "red heart"]
        for arguments, prompt in ((("--prompt", "query"), "find a "), ((), "here: "), (("--prompt", ""), ""), (("--prompt", "document"), "")):
            self.assertEqual(self.vectors(folder, texts, *arguments), self.vectors(plain, [prompt + text for text in texts]), arguments)
        refused = self.embed(folder, "cat", "--prompt", "other", code=2).stderr
        self.assertIn('has no prompt "other"; it has "document", "passage" and "query"', refused)
        (folder / POOLING).write_text(json.dumps({"embedding_dimension": WIDTH, "pooling_mode": "mean", "include_prompt": False}))
        self.assertIn("include_prompt is false", self.embed(folder, "cat", code=3).stderr)
        self.assertEqual(self.vectors(folder, texts, "--prompt", ""), self.vectors(plain, texts))

    def test_texts_may_be_written_in_lower_case_first(self):
        plain, lower = self.sentence_model("roberta"), self.sentence_model("roberta")
        (lower / CALL).write_text(json.dumps({"max_seq_length": 16, "do_lower_case": True}))
        self.assertEqual(self.vectors(lower, ["A Red HEART"]), self.vectors(plain, ["a red heart"]))
        self.assertNotEqual(self.vectors(plain, ["A Red HEART"]), self.vectors(plain, ["a red heart"]))

    def test_a_file_is_written_whole_or_not_at_all(self):
        folder = self.sentence_model()
        path = self.folder / "whole" / "vectors.safetensors"
        self.assertIn("there is no folder", self.embed(folder, "cat", "--output", path, code=2).stderr)
        path.parent.mkdir()
        done = subprocess.run([PROGRAM, "embed", folder, "-", "--output", path], input=b"cat\n\xff\n", capture_output=True, check=False)
        self.assertEqual((done.returncode, list(path.parent.iterdir())), (3, []))
        self.assertIn(b"standard input: line 2: byte 0 is not UTF-8", done.stderr)
        self.assertIn("has no lines", self.embed(folder, "-", "--output", path, code=3, input="").stderr)
        self.embed(folder, "cat", "--output", path)
        self.assertEqual([file.name for file in path.parent.iterdir()], [path.name])
        for name in ("model.safetensors", "modules.json"):
            before = (folder / name).read_bytes()
            self.assertIn("a file of the model", self.embed(folder, "cat", "--output", folder / name, code=2).stderr)
            self.assertEqual((folder / name).read_bytes(), before)

    def test_where_a_late_vector_is_not_finite_there_is_neither_a_file_nor_a_document(self):
        folder = self.sentence_model()
        word, weights = "module", folder / "model.safetensors"
        number = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"][word]
        data = bytearray(weights.read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:start])
        place = start + next(entry["data_offsets"][0] for name, entry in header.items() if name.endswith("word_embeddings.weight")) + 4 * WIDTH * number
        data[place:place + 4] = b"\x00\x00\xc0\x7f"
        weights.write_bytes(data)
        path = self.folder / "late" / "vectors.safetensors"
        path.parent.mkdir()
        done = self.embed(folder, *["cat"] * 300, word, "--output", path, "--json", code=3)
        self.assertIn("text 301: its vector is not finite", done.stderr)
        self.assertEqual((list(json.loads(done.stdout)), list(path.parent.iterdir())), (["error"], []))

    def test_without_room_for_the_file_the_one_before_it_stays(self):
        folder = self.sentence_model()
        path = self.folder / "full" / "vectors.safetensors"
        path.parent.mkdir()
        self.embed(folder, "cat", "--output", path)
        before = path.read_bytes()
        done = self.embed(folder, *self.lines[:40], "--output", path, code=6, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertRegex(done.stderr.splitlines()[-1], f"^bascule: {path}: cannot be written: File too large; ")
        self.assertEqual(([file.name for file in path.parent.iterdir()], path.read_bytes()), ([path.name], before))

    def test_bf16_gives_the_same_bits_in_any_batch_and_almost_the_vectors_of_float32(self):
        for kind in ("bert", "roberta", "distilbert"):
            folder = self.sentence_model(kind, "Normalize")
            float32, bf16, reversed_order = (self.vectors(folder, lines, "--precision", precision)
                                             for lines, precision in ((self.lines, "float32"), (self.lines, "bf16"), (self.lines[::-1], "bf16")))
            self.assertEqual(reversed_order[::-1], bf16, kind)
            self.assertEqual(float32, self.vectors(folder, self.lines), kind)
            for one, other in zip(float32, bf16):
                self.assertNotEqual(one, other)
                self.assertGreater(sum(a * b for a, b in zip(array.array("f", one), array.array("f", other))), 0.9999)
        self.embed(folder, "cat", "--precision", "half", code=2)

    def test_lines_before_a_bad_one_are_answered(self):
        done = subprocess.run([PROGRAM, "embed", self.sentence_model(), "-", "--json"], input=b"cat\n\xff\ncat\n", capture_output=True, check=False)
        document = json.loads(done.stdout)
        self.assertEqual((done.returncode, len(document["texts"]), document["error"]["exit_code"]), (3, 1, 3))
        self.assertEqual(self.embed(self.sentence_model(), "-", input="").stdout, "")

    def test_folders_that_would_give_other_vectors_are_refused_in_one_line(self):
        def refusal(name, text, *modules):
            folder = self.sentence_model("bert", *modules)
            (folder / name).write_text(json.dumps(text))
            lines = self.embed(folder, "cat", code=3).stderr.splitlines()
            self.assertEqual(len(lines), 1, lines)
            return lines[0]
        mean = {"pooling_mode_mean_tokens": True}
        self.assertIn("but the rows of the model have 64 numbers", refusal(POOLING, {"word_embedding_dimension": 48, **mean}))
        self.assertIn("several poolings, max and mean", refusal(POOLING, {"word_embedding_dimension": WIDTH, **mean, "pooling_mode_max_tokens": True}))
        self.assertIn("is 33, but the model has positions for 32 tokens", refusal(CALL, {"max_seq_length": 33}))
        self.assertIn("query_length = 8 is not supported", refusal(CALL, {"query_length": 8}))
        self.assertIn("truncate_dim = 8 is not supported", refusal(FACTS, {"truncate_dim": 8}))
        self.assertIn('model_type = "CrossEncoder" is not supported', refusal(FACTS, {"model_type": "CrossEncoder"}))
        self.assertIn("Dense\" is not supported", refusal(FACTS, {}, "Dense"))

    def test_a_model_that_makes_no_vectors_is_refused(self):
        refused = self.embed(DATA / "emoji-captions" / "tiny_model", "cat", code=3).stderr
        self.assertIn("bascule embed does not work with a bridgetower model: it needs a BertModel", refused.replace("; it", ": it"))
