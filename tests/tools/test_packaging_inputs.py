# SPDX-License-Identifier: Apache-2.0
"""The files of an image: for each form of data of each family a tree of those that `bascule plan --json --inputs` lists, in which the plan and the run are the same."""
import csv
import io
import json
import re
import shutil
import subprocess
import tarfile

from tool_modules import PROGRAM, ROOT, FolderTest
import boot
import inputs
import packages
import small_forms
import small_images

DATA = ROOT / "tests" / "data"
DATA_ERROR = 3  # exit code
# Folders of the model and its tokenizer, settings of the model, and of its data.
BRIDGETOWER = (DATA / "emoji-captions/model", DATA / "emoji-captions/tokenizer", "", "max_seq_length = 32")
VIT = (DATA / "emoji-classes/model", None, 'head = "image_classification"', "")
VIT_LABELS = (*VIT[:3], 'label_column = "label"')
BERT = (DATA / "text-corpus/model", DATA / "tokenizer/wordpiece", 'head = "masked_lm"', "max_seq_length = 16")
BERT_PAIRS = (*BERT[:2], 'head = "pretraining"', 'max_seq_length = 16\ntext_column = "first"\ntext_pair_column = "second"\nlabel_column = "label"')
T5 = (DATA / "emoji-keywords/model", DATA / "tokenizer/unigram", "", 'text_column = "first"\nsummary_column = "second"\nmax_source_length = 8\nmax_target_length = 8')
BERT_PAIRS_OF_TEXT = (*BERT[:2], 'head = "pretraining"', "max_seq_length = 32\ndupe_factor = 1")


def bascule(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)


def row(number, folder="pictures"):
    return {"image": f"{folder}/{number}.jpg", "caption": f"caption {number}", "label": number % 2, "first": f"one {number}", "second": f"two {number}"}


class Inputs(FolderTest):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "host" / "data"
        (self.data / "pictures").mkdir(parents=True)
        for number, picture in enumerate(sorted((DATA / "emoji-captions/images").iterdir())[:8]):
            shutil.copy(picture, self.data / f"pictures/{number}.jpg")

    def write(self, name, rows):
        """Rows in the form that the name's ending says."""
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            if path.suffix == ".jsonl":
                file.writelines(json.dumps(one) + "\n" for one in rows)
            elif path.suffix == ".json":
                json.dump(rows, file)
            elif path.suffix == ".txt":
                file.writelines(f"A sentence of document {number}.\nAnother one of it.\n\n" for number in range(40))
            else:
                writer = csv.DictWriter(file, rows[0], delimiter="," if path.suffix == ".csv" else "\t")
                writer.writeheader()
                writer.writerows(rows)

    def write_shard(self, name, numbers):
        with tarfile.open(self.data / name, "w") as tar:
            for number in numbers:
                for ending, content in (("jpg", (self.data / f"pictures/{number}.jpg").read_bytes()), ("txt", b"caption"), ("cls", str(number % 2).encode())):
                    member = tarfile.TarInfo(f"{number}.{ending}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))

    def config(self, family, files, model="", training=""):
        """A settings file beside the data, with copies of the family's model and tokenizer. files: the lines of the data's keys."""
        folder, tokenizer, of_model, of_data = family
        for name, source in (("model", folder), ("tokenizer", tokenizer)):
            shutil.rmtree(self.data / name, ignore_errors=True)
            if source:
                shutil.copytree(source, self.data / name)
        keys = ['model_name_or_path = "../data/model"', of_model, model or "from_scratch = true"]
        if tokenizer:
            keys.append('tokenizer_name = "../data/tokenizer"')
        path = self.folder / "host/config/run.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["[model]", *keys, "[data]", of_data, files, "[training]", 'output_dir = "../runs/one"', "max_steps = 1", "save_steps = 0",
                                   "per_device_train_batch_size = 2", "per_device_eval_batch_size = 2", training]))
        return path

    def plan(self, config):
        done = bascule("plan", "--json", "--inputs", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def outcome(self, config):
        """The files of the weights, pictures and predictions that a run leaves, and the figures of its evaluations but for times."""
        done = bascule("run", config)
        self.assertEqual(done.returncode, 0, done.stderr)
        left = config.parent.parent / "runs/one"
        files = {path.name: path.read_bytes() for pattern in small_images.RESULTS for path in left.glob(pattern)}
        figures = json.loads((left / "all_results.json").read_text()) if (left / "all_results.json").exists() else {}
        return files, {name: value for name, value in figures.items() if re.fullmatch(r"(validation|test)_(?!.*(second|runtime)).*", name)}

    def lay_out(self, config, trains=False):
        """The files of a tree, in which the plan, and with `trains` the run, are those of the host. The host's own data are out of reach then."""
        document = self.plan(config)
        files = inputs.input_files(document["inputs"], config.parent)
        tree = self.folder / "tree"
        for folder in (tree, self.folder / "host/runs"):
            shutil.rmtree(folder, ignore_errors=True)
        for place, path in {**files, "config/run.toml": config}.items():
            (tree / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, tree / place)
        weights = self.outcome(config) if trains else None
        self.data.rename(self.folder / "elsewhere")
        self.assertEqual(self.plan(tree / "config/run.toml"), document)
        if trains:
            self.assertEqual(self.outcome(tree / "config/run.toml"), weights)
        (self.folder / "elsewhere").rename(self.data)
        return [place.removeprefix("data/") for place in files]

    def assert_data(self, family, files, expected, **options):
        """expected: all but the model's and the tokenizer's files."""
        found = self.lay_out(self.config(family, files, **{name: options[name] for name in options if name != "trains"}), options.get("trains", False))
        self.assertEqual([name for name in found if not name.startswith(("model/", "tokenizer/"))], sorted(expected))

    def test_manifests_of_every_form_and_the_pictures_that_their_rows_name(self):
        for name in ("rows.jsonl", "rows.json", "below/rows.csv", "rows.tsv"):
            with self.subTest(name):
                rows = [row(number, "../pictures" if "/" in name else "pictures") for number in (0, 1, 2, 2)]
                self.write(name, rows)
                self.assert_data(BRIDGETOWER, f'train_file = "../data/{name}"', [name, *(f"pictures/{number}.jpg" for number in range(3))])

    def test_a_folder_with_metadata(self):
        self.write("set/metadata.jsonl", [{"file_name": f"../pictures/{number}.jpg", "caption": "one"} for number in (0, 5)])
        self.assert_data(BRIDGETOWER, 'train_file = "../data/set/"', ["set/metadata.jsonl", "pictures/0.jpg", "pictures/5.jpg"])

    def test_shards_as_ranges_lists_and_patterns(self):
        for number in range(4):
            self.write_shard(f"s-{number:03}.tar", (2 * number, 2 * number + 1))
        for written, numbers in (('"../data/s-{000..002}.tar"', (0, 1, 2)), ('"../data/s-000.tar,../data/s-003.tar"', (0, 3)), ('"../data/s-*[13].tar"', (1, 3)),
                                 ('["../data/s-002.tar", "../data/s-{000..001}.tar"]', (0, 1, 2))):
            with self.subTest(written):
                self.assert_data(BRIDGETOWER, f"train_file = {written}", [f"s-{number:03}.tar" for number in numbers])
        self.assert_data(VIT_LABELS, 'train_file = "../data/s-{000..003}.tar"', [f"s-{number:03}.tar" for number in range(4)])

    def test_several_files_in_several_folders_and_the_other_splits(self):
        self.write("a/part-0.jsonl", [row(0, "../pictures"), row(1, "../pictures")])
        self.write("a/part-1.jsonl", [row(2, "../pictures")])
        self.write("b/c/rows.csv", [row(0, "../../pictures"), row(3, "../../pictures")])
        self.write("validation.jsonl", [row(4), row(0)])
        self.write("test.tsv", [row(5), row(6)])
        files = ('train_file = ["../data/a/part-*.jsonl", "../data/b/c/rows.csv"]\nvalidation_file = "../data/validation.jsonl"\ntest_file = "../data/test.tsv"')
        pictures = [f"pictures/{number}.jpg" for number in range(7)]
        manifests = ["a/part-0.jsonl", "a/part-1.jsonl", "b/c/rows.csv"]
        self.assert_data(BRIDGETOWER, files, [*manifests, "validation.jsonl", "test.tsv", *pictures], training="do_predict = true\ndo_eval = true", trains=True)
        self.assert_data(BRIDGETOWER, files, [*manifests, *pictures[:4]], training="do_predict = false\ndo_eval = false")

    def test_folders_of_classes_however_deep_and_manifests_with_labels(self):
        for place, number in (("cat/0.jpg", 0), ("cat/more/still more/1.jpg", 1), ("dog/2.JPG", 2), ("dog/3.jpg", 3)):
            (self.data / "train" / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.data / f"pictures/{number}.jpg", self.data / "train" / place)
        (self.data / "train/cat/notes.md").write_text("not read")
        shutil.copytree(self.data / "train/dog", self.data / "val/dog")
        expected = ["train/cat/0.jpg", "train/cat/more/still more/1.jpg", "train/dog/2.JPG", "train/dog/3.jpg", "val/dog/2.JPG", "val/dog/3.jpg"]
        self.assert_data(VIT, 'train_file = "../data/train"\nvalidation_file = "../data/val/"', expected, training="do_eval = true", trains=True)
        self.write("rows.csv", [row(number) for number in range(4)])
        self.assert_data(VIT_LABELS, 'train_file = "../data/rows.csv"', ["rows.csv", *(f"pictures/{number}.jpg" for number in range(4))])

    def test_texts_and_manifests_without_pictures(self):
        for name in ("one.txt", "part-1.txt", "part-2.txt", "rows.jsonl", "rows.csv"):
            self.write(name, [row(number) for number in range(6)])
        for family, written, names in ((BERT, '"../data/one.txt"', ["one.txt"]), (BERT, '["../data/part-*.txt", "../data/one.txt"]', ["one.txt", "part-1.txt", "part-2.txt"]),
                                       (BERT, '"../data/rows.csv"', ["rows.csv"]), (BERT_PAIRS, '["../data/rows.jsonl", "../data/rows.csv"]', ["rows.jsonl", "rows.csv"])):
            with self.subTest(written):
                self.assert_data(family, f"train_file = {written}", names)
        self.assert_data(BERT_PAIRS_OF_TEXT, 'train_file = "../data/part-?.txt"\nvalidation_file = "../data/one.txt"', ["one.txt", "part-1.txt", "part-2.txt"],
                         training="do_eval = true", trains=True)

    def relative(self, family, head):
        """A small RoBERTa or DistilBERT, of which no data has a folder."""
        folder = self.folder / family
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps({"model_type": family, **small_forms.CONFIGS[family]}))
        return folder, DATA / small_forms.TOKENIZERS[family], f'head = "{head}"', "max_seq_length = 16"

    def test_tags_and_classes_of_texts(self):
        small_forms.write_words(self.data / "words.jsonl", 6)
        self.write("rows.tsv", [row(number) for number in range(6)])
        tags = 'text_column = "tokens"\nlabel_column = "tags"\ntrain_file = "../data/words.jsonl"'
        self.assert_data((*BERT[:2], 'head = "token_classification"', BERT[3]), tags, ["words.jsonl"])
        self.assert_data(self.relative("distilbert", "token_classification"), tags, ["words.jsonl"], trains=True)
        classes = 'text_column = "first"\ntext_pair_column = "second"\nlabel_column = "label"\ntrain_file = "../data/rows.tsv"'
        self.assert_data(self.relative("roberta", "sequence_classification"), classes, ["rows.tsv"], trains=True)

    def test_texts_to_embed_with_a_corpus_queries_and_relevance(self):
        rows = [row(number) for number in range(6)]
        self.write("rows.jsonl", rows)
        self.write("set/corpus.jsonl", [{"_id": str(number), "title": one["second"], "text": ""} for number, one in enumerate(rows)])
        self.write("set/queries.jsonl", [{"_id": str(number), "text": one["first"]} for number, one in enumerate(rows)])
        self.write("set/qrels.tsv", [{"query-id": number, "corpus-id": number, "score": 1} for number in range(6)])
        files = 'train_file = "../data/rows.jsonl"\n' + "".join(f'{split}_{kind} = "../data/set/{name}"\n' for split in ("validation", "test") for kind, name in (("corpus", "corpus.jsonl"), ("queries", "queries.jsonl"), ("relevance", "qrels.tsv")))
        model = self.folder / "sentences"
        shutil.copytree(BERT[0], model)
        pooling = {"word_embedding_dimension": json.loads((model / "config.json").read_text())["hidden_size"], "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
        types = ("Transformer", "Pooling", "Normalize")
        modules = [{"idx": number, "name": str(number), "path": f"{number}_{name}" if number else "", "type": f"sentence_transformers.models.{name}"} for number, name in enumerate(types)]
        for name, content in (("modules.json", modules), ("1_Pooling/config.json", pooling), ("sentence_bert_config.json", {"max_seq_length": 12, "do_lower_case": False})):
            (model / name).parent.mkdir(exist_ok=True)
            (model / name).write_text(json.dumps(content))
        family = (model, BERT[1], 'head = "sentence_embedding"', 'text_column = "first"\ntext_pair_column = "second"')
        names = ["rows.jsonl", "set/corpus.jsonl", "set/qrels.tsv", "set/queries.jsonl"]
        self.assert_data(family, files, names, training="do_eval = true\ndo_predict = true", trains=True)
        found = self.lay_out(self.config(family, files))
        self.assertEqual([name for name in found if name.startswith("model/")], ["model/1_Pooling/config.json", "model/config.json", "model/modules.json", "model/sentence_bert_config.json"])

    def test_rows_that_a_share_holds_out(self):
        """The same ones: the tree's plan counts them, and the run evaluates them."""
        self.write("rows.jsonl", [row(number) for number in range(8)])
        pictures = [f"pictures/{number}.jpg" for number in range(8)]
        share = "\nvalidation_share = 0.4"
        self.assert_data(BRIDGETOWER, 'train_file = "../data/rows.jsonl"' + share, ["rows.jsonl", *pictures], trains=True)
        self.write("rows.txt", [row(0)])
        self.assert_data(BERT, 'train_file = "../data/rows.txt"' + share, ["rows.txt"], trains=True)

    def test_of_a_model_that_writes_how_it_writes(self):
        self.write("rows.csv", [row(number) for number in range(4)])
        config = self.config(T5, 'train_file = "../data/rows.csv"\ntest_file = "../data/rows.csv"', training="predict_with_generate = true")
        (self.data / "model/generation_config.json").write_text('{"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0, "num_beams": 2}')
        self.assertEqual([name for name in self.lay_out(config, trains=True) if name.startswith("model/")], ["model/config.json", "model/generation_config.json"])

    def test_of_the_model_the_files_that_are_read(self):
        self.write("rows.jsonl", [row(number) for number in range(4)])
        config = self.config(BRIDGETOWER, 'train_file = "../data/rows.jsonl"')
        (self.data / "model/model.safetensors").write_text("not read: from_scratch")
        own = ["model/config.json", "model/preprocessor_config.json"]
        tokenizer = [f"tokenizer/{name}" for name in ("merges.txt", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json", "vocab.json")]
        self.assertEqual([name for name in self.lay_out(config) if "/" in name and "pictures" not in name], own + tokenizer)

        shards = sorted(path.name for path in (DATA / "goldens/itm_scaled_add").glob("model*"))
        self.assertEqual(len(shards), 5)  # with their index
        sharded = (DATA / "goldens/itm_scaled_add", DATA / "run_goldens/tokenizer", 'head = "image_text_matching"', "max_seq_length = 16")
        found = self.lay_out(self.config(sharded, 'train_file = "../data/rows.jsonl"', model="from_scratch = false"), trains=True)
        self.assertEqual([name for name in found if name.startswith("model/model")], [f"model/{name}" for name in shards])

    def test_of_a_pipeline_the_files_of_every_part_that_are_read(self):
        pipeline = self.data / "pipeline"
        shutil.copytree(DATA / "goldens-families/sd_v1", pipeline)  # with the case's own files, which no run reads
        for name in ("safety_checker/config.json", "unet/diffusion_pytorch_model.fp16.safetensors", "unet/diffusion_pytorch_model.bin", "scheduler/notes.txt"):
            (pipeline / name).parent.mkdir(exist_ok=True)
            (pipeline / name).write_text("not read")
        (self.data / "prompts.txt").write_text("a cat\na red heart\n")
        self.write_latents(self.data / "noise/latents.safetensors", 2)
        config = self.folder / "host/config/run.toml"
        config.parent.mkdir()
        config.write_text('[model]\nmodel_name_or_path = "../data/pipeline"\n[draw]\noutput_dir = "../runs/one"\nprompts_file = "../data/prompts.txt"\n'
                          'latents_file = "../data/noise/latents.safetensors"\nnum_inference_steps = 1\n')
        weights = [f"pipeline/{name}" for name in ("text_encoder/model.safetensors", "unet/diffusion_pytorch_model.safetensors", "vae/diffusion_pytorch_model.safetensors")]
        expected = ["noise/latents.safetensors", "prompts.txt", *(f"pipeline/{part}/config.json" for part in ("text_encoder", "unet", "vae")), "pipeline/model_index.json",
                    "pipeline/scheduler/scheduler_config.json", *(f"pipeline/tokenizer/{name}" for name in ("merges.txt", "tokenizer_config.json", "vocab.json")), *weights]
        self.assertEqual(sorted(self.lay_out(config, trains=True)), sorted(expected))
        config.write_text(config.read_text().replace("[draw]", "from_scratch = true\n[draw]"))
        self.assertEqual(sorted(self.lay_out(config)), sorted(set(expected) - set(weights)))

    def write_latents(self, path, pictures):
        path.parent.mkdir()
        data = bytes(4 * pictures * 4 * 8 * 8)
        header = json.dumps({"latents": {"dtype": "F32", "shape": [pictures, 4, 8, 8], "data_offsets": [0, len(data)]}}).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + data)

    def test_the_checkpoint_that_a_run_begins_from_and_its_hosts(self):
        self.write("rows.jsonl", [row(number) for number in range(4)])
        config = self.config(BRIDGETOWER, 'train_file = "../data/rows.jsonl"', training='resume = "../data/run/checkpoint-1"')
        self.assertEqual(bascule("plan", "--json", "--inputs", config).returncode, DATA_ERROR)
        (self.data / "run/checkpoint-1/more").mkdir(parents=True)
        for name in ("bascule_state.json", "model.safetensors"):
            (self.data / "run/checkpoint-1" / name).write_text("")
        self.assertEqual([name for name in self.lay_out(config) if name.startswith("run/")], ["run/checkpoint-1/bascule_state.json", "run/checkpoint-1/model.safetensors"])
        (self.data / "hosts").write_text("localhost slots=1\n")
        config = self.config(BRIDGETOWER, 'train_file = "../data/rows.jsonl"', training='[distributed]\nhostfile = "../data/hosts"')
        self.assertIn("hosts", self.lay_out(config))

    def test_absolute_paths_stay_absolute(self):
        self.write("rows.jsonl", [{**row(1), "image": str(self.data / "pictures/1.jpg")}, row(2)])
        document = self.plan(self.config(BRIDGETOWER, f'train_file = "{self.data}/rows.jsonl"'))
        files = inputs.input_files(document["inputs"], self.folder / "host/config")
        for name in ("rows.jsonl", "pictures/1.jpg", "pictures/2.jpg"):
            self.assertEqual(files[f"{self.data}/{name}".lstrip("/")], self.data / name)


class Places(FolderTest):
    """Of files in the tree."""

    def setUp(self):
        super().setUp()
        for name in ("config/run.toml", "data/rows.jsonl", "elsewhere/1.jpg", "config/data/rows.jsonl"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(name)

    def files(self, *listed):
        return inputs.input_files([{"folder": folder, "files": list(files)} for folder, *files in listed], self.folder / "config")

    def test_start_at_the_top_of_the_tree(self):
        self.assertEqual(self.files(("../data", "rows.jsonl", "../elsewhere/1.jpg")),
                         {"data/rows.jsonl": self.folder / "data/rows.jsonl", "elsewhere/1.jpg": self.folder / "elsewhere/1.jpg"})

    def test_do_not_lie_outside(self):
        with self.assertRaisesRegex(packages.ImageError, "elsewhere/1.jpg would lie outside of the tree; move the pictures beside the manifest"):
            self.files(("../data", "rows.jsonl", f"../../{self.folder.name}/elsewhere/1.jpg"))

    def test_are_of_one_file_each(self):
        with self.assertRaisesRegex(packages.ImageError, "data/rows.jsonl and .*/config/data/rows.jsonl would both be data/rows.jsonl in the tree"):
            self.files(("../data", "rows.jsonl"), ("data", "rows.jsonl"))

    def test_are_not_below_the_folder_where_the_disk_is_mounted(self):
        settings = {"training": {"output_dir": "../runs/two"}}
        self.assertEqual(boot.folder_on_disk(settings, ["data/rows.jsonl", "runs.jsonl"]), "/runs")
        with self.assertRaisesRegex(packages.ImageError, "training.output_dir: write it into a folder of its own, .* over runs/one/config.json"):
            boot.folder_on_disk(settings, ["runs/one/config.json"])
        self.assertEqual(boot.folder_on_disk({"draw": {"output_dir": "../runs/two"}}, ["runs.jsonl"]), "/runs")
        for report in ({"tracking": "mlflow"}, {"tracking": "mlflow", "tracking_dir": "runs/mlruns"}, {"tracking_dir": "elsewhere"}):
            self.assertEqual(boot.folder_on_disk({**settings, "report": report}, []), "/runs")
        with self.assertRaisesRegex(packages.ImageError, "report.tracking_dir: it must lie in /runs, where the disk is mounted"):
            boot.folder_on_disk({**settings, "report": {"tracking": "mlflow", "tracking_dir": "elsewhere"}}, [])
        for serve in ({"listen": "127.0.0.1:3000"}, {"listen": "unix:runs/a.sock", "access_log": "../runs/log.jsonl"}):
            self.assertEqual(boot.folder_on_disk({**settings, "serve": serve}, []), "/runs")
        for serve, key in (({"listen": "unix:/run/a.sock"}, "listen"), ({"access_log": "log.jsonl"}, "access_log")):
            with self.assertRaisesRegex(packages.ImageError, f"serve.{key}: it must lie in /runs, where the disk is mounted"):
                boot.folder_on_disk({**settings, "serve": serve}, [])
        with self.assertRaisesRegex(packages.ImageError, "draw.output_dir: write it into a folder of its own"):
            boot.folder_on_disk({"draw": {"output_dir": "../two"}}, [])
