# SPDX-License-Identifier: Apache-2.0
"""`bascule classify` and `bascule fill`: finished models that are asked, against predictions of their run and values computed here."""
import json
import math
import re
import shutil
import struct

from bascule_run import EMOJI, ROOT, FolderTest, run, run_ends, run_ok, settings

CLASSES = ROOT / "tests" / "data" / "emoji-classes"
WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
WIDTH, VOCABULARY, MASK = 8, 4000, 4


def write_safetensors(path, tensors):
    """tensors: name -> (shape, values)."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def small_number(i):
    return ((i * 2654435761) % 1000003) / 1000003 - 0.5


def layer_norm(x):
    mean = sum(x) / len(x)
    return [(a - mean) / math.sqrt(sum((b - mean) ** 2 for b in x) / len(x) + 1e-12) for a in x]


class BertWithoutLayers:
    """A BERT whose layers add nothing, so that its logits can be computed in a few lines."""

    def __init__(self, folder, more=None):
        self.words = [small_number(i) for i in range(VOCABULARY * WIDTH)]
        self.positions = [small_number(7 * i + 3) for i in range(12 * WIDTH)]
        self.bias = [small_number(11 * i + 5) for i in range(VOCABULARY)]
        zeros, ones = (lambda *shape: (list(shape), [0.0] * math.prod(shape))), (lambda *shape: (list(shape), [1.0] * math.prod(shape)))
        tensors = {"bert.embeddings.word_embeddings.weight": ([VOCABULARY, WIDTH], self.words), "bert.embeddings.position_embeddings.weight": ([12, WIDTH], self.positions),
                   "bert.embeddings.token_type_embeddings.weight": zeros(2, WIDTH), "cls.predictions.bias": ([VOCABULARY], self.bias)}
        layer = "bert.encoder.layer.0."
        for name, out, to in (("attention.self.query", 8, 8), ("attention.self.key", 8, 8), ("attention.self.value", 8, 8), ("attention.output.dense", 8, 8),
                              ("intermediate.dense", 16, 8), ("output.dense", 8, 16)):
            tensors[f"{layer}{name}.weight"], tensors[f"{layer}{name}.bias"] = zeros(out, to), zeros(out)
        for name in ("bert.embeddings.LayerNorm", layer + "attention.output.LayerNorm", layer + "output.LayerNorm", "cls.predictions.transform.LayerNorm"):
            tensors[name + ".weight"], tensors[name + ".bias"] = ones(WIDTH), zeros(WIDTH)
        dense = "cls.predictions.transform.dense"
        tensors[dense + ".weight"] = ([WIDTH, WIDTH], [float(i % (WIDTH + 1) == 0) for i in range(WIDTH * WIDTH)])
        tensors[dense + ".bias"] = zeros(WIDTH)
        write_safetensors(folder / "model.safetensors", {**tensors, **(more or {})})
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, folder)
        (folder / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
            "max_position_embeddings": 12}))

    def best(self, position, top):
        x = [self.words[MASK * WIDTH + i] + self.positions[position * WIDTH + i] for i in range(WIDTH)]
        x = layer_norm(layer_norm(layer_norm(x)))
        x = layer_norm([a * 0.5 * (1 + math.erf(a / math.sqrt(2))) for a in x])
        logits = [sum(a * b for a, b in zip(x, self.words[t * WIDTH:(t + 1) * WIDTH])) + self.bias[t] for t in range(VOCABULARY)]
        total = sum(math.exp(logit) for logit in logits)
        order = sorted(range(VOCABULARY), key=lambda t: -logits[t])[:top]
        return [(t, math.exp(logits[t]) / total) for t in order]


class AskedModels(FolderTest):
    def refused(self, code, said, *arguments):
        done = run(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn(said, done.stderr)

    def test_fill_gives_the_probable_tokens_of_every_mask(self):
        model = BertWithoutLayers(self.folder)
        tokens = (WORD_PIECE / "vocab.txt").read_text().split("\n")
        done = run_ok("fill", self.folder, "[MASK] of [MASK]", "--json", "--top", "7")
        answer = json.loads(done.stdout)
        self.assertEqual((answer["text"], len(answer["masks"])), ("[MASK] of [MASK]", 2))
        for position, guesses in zip((1, 3), answer["masks"]):  # behind [CLS]
            truth = model.best(position, 7)
            self.assertEqual([guess["token"] for guess in guesses], [tokens[t] for t, _ in truth])
            for guess, (_, probability) in zip(guesses, truth):
                self.assertAlmostEqual(guess["probability"] / probability, 1, delta=1e-5)
        # Two significant digits at least: the least probable of all tokens are not said to be 0.0 %.
        shown = run("fill", self.folder, "[MASK]", "--top", "1000").stdout.splitlines()
        truth = model.best(1, 1000)
        self.assertLess(truth[-1][1], 0.01 * 0.05)
        for line, (token, probability) in zip(shown, truth, strict=True):
            number, name = re.fullmatch(r"  ( *[0-9.]+) %  (.*)", line).groups()
            self.assertEqual((len(number), name), (7, tokens[token]))
            self.assertAlmostEqual(float(number) / (100 * probability), 1, delta=0.051)

    def test_fill_refuses_what_it_cannot_fill_in(self):
        BertWithoutLayers(self.folder)
        self.refused(2, "contains no [MASK]; put it where a word is missing", "fill", self.folder, "a list")
        self.refused(2, "has 15 tokens; the model takes 12 at most", "fill", self.folder, "[MASK]" + " the" * 12)
        self.refused(2, "UTF-8", "fill", self.folder, "[MASK] \udcff")
        self.refused(3, "among the weights: the head was never trained; train it first", "classify", self.folder, "a text")
        self.refused(3, "bascule classify does not work with a bridgetower model; it needs a ViTForImageClassification, DeiTForImageClassification, DeiTForImageClassificationWithTeacher, BertForSequenceClassification, BertForTokenClassification, "
                     "RobertaForSequenceClassification, RobertaForTokenClassification, DistilBertForSequenceClassification or DistilBertForTokenClassification", "classify", EMOJI / "model", "x.png")
        self.refused(3, "bascule fill does not work with a vit model; it needs a BertForMaskedLM", "fill", CLASSES / "model", "[MASK]")
        (self.folder / "vocab.txt").unlink()
        self.refused(3, "vocab.txt; choose a folder with one of them\n", "fill", self.folder, "[MASK]")
        (self.folder / "model.safetensors").unlink()
        self.refused(3, "no model.safetensors, no pytorch_model.bin, no index of shards; name a Hugging Face folder with weights; only training from scratch needs none\n", "fill", self.folder, "[MASK]")

    def test_weights_that_are_not_used_are_named(self):
        BertWithoutLayers(self.folder)
        self.assertEqual(run("fill", self.folder, "[MASK]").stderr, "")
        for more, named, rest in ((3, 3, ""), (12, 10, " and 2 more")):
            BertWithoutLayers(self.folder, {f"bert.encoder.layer.1.{number}": ([1], [0.5]) for number in range(more)})
            done = run_ok("fill", self.folder, "[MASK]")
            names = ", ".join(f"bert.encoder.layer.1.{number}" for number in range(named))
            self.assertEqual(done.stderr, f"bascule: weights: not used: {names}{rest}\n")

    def test_classify_says_what_the_run_predicted(self):
        done = run_ok("run", settings(self.folder, **{
               "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__train_file": f'"{CLASSES}/train.jsonl"', "data__max_seq_length": None,
               "data__test_file": f'"{CLASSES}/test.jsonl"', "data__label_column": '"label"', "data__preprocessing": '"training"', "training__max_steps": "6", "data__eval_crop_ratio": "0.5", "training__ema_decay": "1e-9"}))
        rows = [json.loads(line) for line in (CLASSES / "test.jsonl").read_text().splitlines()][:19]
        names = json.loads((CLASSES / "model/config.json").read_text())["id2label"]
        predicted = [json.loads(line)["predicted"] for line in (self.folder / "run/predictions.jsonl").read_text().splitlines()]
        pictures = [CLASSES / row["image"] for row in rows]
        broken = self.folder / "broken.jpg"
        broken.write_bytes(b"no picture")
        done = run_ends(3, "classify", self.folder / "run", *pictures[:9], broken, *pictures[9:], "--json")
        self.assertEqual([line.split(": ")[2] for line in done.stderr.splitlines()], [str(broken)])
        answer = json.loads(done.stdout)
        self.assertEqual([one["path"] for one in answer], [str(path) for path in (*pictures[:9], broken, *pictures[9:])])
        self.assertIn("error", answer.pop(9))
        for one, truth in zip(answer, predicted):
            self.assertEqual([guess["label"] for guess in one["labels"]], [names[str(best["class"])] for best in truth])
            for guess, best in zip(one["labels"], truth):
                self.assertAlmostEqual(guess["probability"], best["probability"], places=6)
        # The averaged weights, here nearly the run's, see pictures prepared as the run prepared them.
        done = run_ok("classify", self.folder / "run/ema", pictures[0], "--json")
        for guess, best in zip(json.loads(done.stdout)[0]["labels"], predicted[0]):
            self.assertAlmostEqual(guess["probability"], best["probability"], places=4)
        self.refused(3, "a cat: cannot be opened: No such file or directory: the model reads pictures, and takes each argument as the path of one", "classify", self.folder / "run", "a cat")
        self.refused(3, "no tensor classifier.weight among the weights", "classify", self.without_classifier(), pictures[0])

    def test_a_folder_that_no_run_left_follows_its_own_processor(self):
        """As a run with preprocessing = "processor" does, whose pixels are those of Transformers; the run's own folder goes on following the run."""
        common = {"model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__max_seq_length": None, "data__label_column": '"label"',
                  "data__train_file": f'"{CLASSES}/train.jsonl"', "training__max_steps": "1", "training__save_steps": "0"}
        run_ok("run", settings(self.folder, **common, data__preprocessing='"training"', data__interpolation='"bilinear"', data__eval_crop_ratio="0.5"))
        saved = self.folder / "saved"
        saved.mkdir()
        for file in ("config.json", "preprocessor_config.json", "model.safetensors"):
            shutil.copy(self.folder / "run" / file, saved)
        test = {"model__model_name_or_path": f'"{saved}"', "model__from_scratch": "false", "data__train_file": None, "training__do_train": "false", "data__test_file": f'"{CLASSES}/test.jsonl"'}
        run_ok("run", settings(self.folder, **{**common, **test, "data__preprocessing": '"processor"', "training__output_dir": f'"{self.folder}/truth"'}))
        self.refused(3, "holds no model: no config.json", "classify", self.folder / "truth", CLASSES / "test.jsonl")
        repeated = run_ok("reproduce", self.folder / "truth", "--output", self.folder / "again")
        self.assertIn("equal bits: 1 evaluation is as recorded", repeated.stdout)  # nothing was trained: no weights
        self.assertNotIn("throughput:", repeated.stdout.splitlines()[-2])
        lines = [json.loads(line) for line in (self.folder / "truth/predictions.jsonl").read_text().splitlines()][:5]
        pictures = [CLASSES / line["image"] for line in lines]

        def probabilities(folder):
            done = run_ok("classify", folder, *pictures, "--json")
            return [guess["probability"] for one in json.loads(done.stdout) for guess in one["labels"]]
        truth = [best["probability"] for line in lines for best in line["predicted"]]
        for own, other in zip(probabilities(saved), truth, strict=True):
            self.assertAlmostEqual(own, other, delta=1e-6)
        self.assertGreater(max(abs(own - other) for own, other in zip(probabilities(self.folder / "run"), truth, strict=True)), 1e-4)
        processor = json.loads((saved / "preprocessor_config.json").read_text())
        (saved / "preprocessor_config.json").write_text(json.dumps({**processor, "do_center_crop": True}))
        self.refused(3, "do_center_crop = true: crop_size is missing; change it", "classify", saved, pictures[0])

    def without_classifier(self):
        whole = (self.folder / "run/model.safetensors").read_bytes()
        length = struct.unpack("<Q", whole[:8])[0]
        header = json.loads(whole[8:8 + length])
        tensors = {name: (at["shape"], struct.unpack(f"<{math.prod(at['shape'])}f", whole[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]]))
                   for name, at in header.items() if name != "__metadata__" and not name.startswith("classifier")}
        bare = self.folder / "bare"
        bare.mkdir()
        write_safetensors(bare / "model.safetensors", tensors)
        for file in ("config.json", "preprocessor_config.json"):
            shutil.copy(self.folder / "run" / file, bare)
        return bare
