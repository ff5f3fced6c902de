# SPDX-License-Identifier: Apache-2.0
"""A ViT learns classes of pictures: its figures, its predictions, its bits, and what it refuses."""
import json
import math
import pathlib
import shutil
import tempfile

from bascule_run import ROOT, FolderTest, digest, instruction_sets, run, run_ends, run_ok, settings
from run_files import rewrite, tensors

CLASSES = ROOT / "tests" / "data" / "emoji-classes"


def cubic_taps(i, old, new):
    """(place, weight) of bicubic resizing, a = -0.75, edges repeated."""
    at = (i + 0.5) * old / new - 0.5
    first = math.floor(at)
    for j in range(first - 1, first + 3):
        d = abs(at - j)
        weight = (1.25 * d - 2.25) * d * d + 1 if d <= 1 else ((-0.75 * d + 3.75) * d - 6) * d + 3
        yield min(max(j, 0), old - 1), weight


class ViT(FolderTest):
    def settings(self, name="one", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return settings(folder, **{
            "model__model_name_or_path": f'"{CLASSES}/model"', "model__tokenizer_name": None, "data__train_file": f'"{CLASSES}/train.jsonl"', "data__max_seq_length": None,
            "data__label_column": '"label"', "data__preprocessing": '"training"', "training__max_steps": "9", "training__label_smoothing_factor": "0.1", **changes})

    def weights(self, name="one", **changes):
        run_ok("run", self.settings(name, **changes))
        return digest(self.folder / name / "run/model.safetensors")

    def model_with(self, **members):
        """The demo's model folder with these members of config.json."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        config = json.loads((CLASSES / "model/config.json").read_text())
        shutil.copy(CLASSES / "model/preprocessor_config.json", folder)
        (folder / "config.json").write_text(json.dumps({**config, **members}))
        return f'"{folder}"'

    def without_processor(self):
        folder = self.folder / "bare"
        folder.mkdir(exist_ok=True)
        shutil.copy(CLASSES / "model/config.json", folder)
        return folder

    def test_learns_and_says_what_it_sees(self):
        run_ok("run", self.settings(data__validation_file=f'"{CLASSES}/validation.jsonl"', data__test_file=f'"{CLASSES}/test.jsonl"', training__max_steps="60",
                                    training__per_device_train_batch_size="32"))
        folder = self.folder / "one" / "run"
        results = json.loads((folder / "all_results.json").read_text())
        self.assertGreater(results["validation_accuracy"], 0.364)  # the share of the largest class
        self.assertGreater(results["validation_top5_accuracy"], results["validation_accuracy"])
        config = json.loads((folder / "config.json").read_text())
        self.assertEqual((config["architectures"], len(config["id2label"])), (["ViTForImageClassification"], 10))
        self.assertIn("import ViTImageProcessor, ViTForImageClassification", (folder / "README.md").read_text())
        rows = [json.loads(line) for line in (CLASSES / "test.jsonl").read_text().splitlines()]
        predictions = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual([line["label"] for line in predictions], [row["label"] for row in rows])
        names = json.loads((CLASSES / "model/config.json").read_text())["id2label"]
        for line in predictions:
            self.assertEqual(line["label_name"], names[str(line["label"])])
            for best in line["predicted"]:
                self.assertEqual((list(best), best["class_name"]), (["class", "class_name", "probability"], names[str(best["class"])]))
            probabilities = [best["probability"] for best in line["predicted"]]
            self.assertEqual((len(probabilities), len({best["class"] for best in line["predicted"]})), (5, 5))
            self.assertEqual(probabilities, sorted(probabilities, reverse=True))
            self.assertLessEqual(sum(probabilities), 1 + 1e-6)
        first = sum(line["predicted"][0]["class"] == line["label"] for line in predictions) / len(rows)
        among = sum(line["label"] in [best["class"] for best in line["predicted"]] for line in predictions) / len(rows)
        self.assertAlmostEqual(results["test_accuracy"], first, places=9)
        self.assertAlmostEqual(results["test_top5_accuracy"], among, places=9)

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        dropout = self.model_with(hidden_size=64, intermediate_size=96, num_hidden_layers=2, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        for precision in ("float32", "bf16"):
            common = {"model__model_name_or_path": dropout, "model__precision": f'"{precision}"', "data__augment": '"crop_flip"', "data__interpolation": '"bilinear"', "training__max_steps": "6"}
            whole = self.weights(f"{precision}-whole", **common)
            with self.subTest(precision):
                for name, changes in (
                        ("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}),
                        ("recomputed", {"training__gradient_checkpointing": '"full"'}), ("kept", {"training__gradient_checkpointing": '"off"'}),
                        ("ranks", {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}),
                        *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                    if name == "ranks":  # another sum of gradients: two strategies have the same one
                        sharded = {**changes, "distributed__distribution_strategy": '"sharded"'}
                        self.assertEqual(self.weights(f"{precision}-{name}", **common, **changes), self.weights(f"{precision}-sharded", **common, **sharded))
                        continue
                    self.assertEqual(self.weights(f"{precision}-{name}", **common, **changes), whole, name)
                self.weights(f"{precision}-parts", **common | {"training__max_steps": "4"}, training__lr_schedule_steps="6")
                self.assertEqual(self.weights(f"{precision}-parts", **common, training__lr_schedule_steps="6"), whole)

    def test_the_loss_of_an_evaluation_is_not_smoothed(self):
        """That of the run, which smooths its training loss, and of an evaluation without smoothing of the weights that it leaves."""
        rows = {"data__validation_file": f'"{CLASSES}/validation.jsonl"'}
        self.weights("smoothed", **rows, training__max_steps="2", training__label_smoothing_factor="0.5")
        run_ok("run", self.settings("plain", **rows, model__model_name_or_path=f'"{self.folder}/smoothed/run"', model__from_scratch=None, data__train_file=None,
                                    training__max_steps=None, training__label_smoothing_factor="0.0"))
        losses = [json.loads((self.folder / name / "run/validation_results.json").read_text())["eval_loss"] for name in ("smoothed", "plain")]
        self.assertEqual(*losses)

    def test_mixing_follows_the_order_of_the_epoch(self):
        rows = [json.loads(line) for line in (CLASSES / "train.jsonl").read_text().splitlines()[:38]]  # an epoch of 4 updates of 8, and of 1 of 6
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({**row, "image": str((CLASSES / row["image"]).resolve())}) + "\n" for row in rows))
        common = {"data__train_file": f'"{self.folder}/rows.jsonl"', "data__augment": '"crop_flip"', "data__mixup_alpha": "0.8", "data__cutmix_alpha": "1.0", "training__max_steps": "8",
                  "training__save_steps": "0"}
        whole = self.weights("whole", **common)
        for name, changes in (("workers", {"data__dataloader_num_workers": "3", "machine__threads": "1"}),
                              *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
            self.assertEqual(self.weights(name, **common, **changes), whole, name)
        self.weights("parts", **common | {"training__max_steps": "7"}, training__lr_schedule_steps="8")  # in the second epoch
        self.assertEqual(self.weights("parts", **common, training__lr_schedule_steps="8"), whole)
        ranks = {"distributed__world_size": "2", "training__per_device_train_batch_size": "4"}
        self.assertEqual(self.weights("ranks", **common | ranks), self.weights("sharded", **common | ranks, distributed__distribution_strategy='"sharded"'))
        self.assertNotEqual(whole, self.weights("plain", **common | {"data__mixup_alpha": None, "data__cutmix_alpha": None}))

    def test_a_pooled_classifier_is_saved_with_the_code_that_loads_it(self):
        changes = {"model__model_name_or_path": self.model_with(classifier_type="pooled"), "training__max_steps": "6", "training__lr_schedule_steps": "6",
                   "data__validation_file": f'"{CLASSES}/test.jsonl"', "training__eval_strategy": '"steps"', "training__eval_steps": "3",
                   "training__load_best_model_at_end": "true", "training__metric_for_best_model": '"eval_loss"'}
        done = run_ok("run", self.settings(**changes))
        self.assertEqual(done.stderr.count("AutoModelForImageClassification.from_pretrained(folder, trust_remote_code=True)"), 1, done.stderr)
        folder = self.folder / "one/run"
        self.assertIn("AutoModelForImageClassification.from_pretrained(folder, trust_remote_code=True)", (folder / "README.md").read_text())
        saved = tensors(folder / "model.safetensors")
        self.assertNotIn("vit.embeddings.cls_token", saved)
        self.assertEqual(len(saved["vit.embeddings.position_embeddings"]), 64 * 128)
        code = (folder / "modeling_pooled_vit.py").read_text()
        compile(code, "modeling_pooled_vit.py", "exec")
        for place in (folder, folder / "checkpoint-3"):
            config = json.loads((place / "config.json").read_text())
            self.assertEqual((config["architectures"], config["classifier_type"]), (["PooledViTForImageClassification"], "pooled"))
            self.assertEqual(config["auto_map"], {"AutoModelForImageClassification": "modeling_pooled_vit.PooledViTForImageClassification"})
            self.assertEqual((place / "modeling_pooled_vit.py").read_text(), code)
        # The file is among those whose content the checkpoint vouches for.
        self.assertIn("modeling_pooled_vit.py", (folder / "checkpoint-3/bascule_state.json").read_text())
        # A run continues from what another left, and one that was stopped ends as if it had not been.
        self.weights("next", model__model_name_or_path=f'"{folder}"', model__from_scratch="false")
        self.weights("parts", **changes | {"training__max_steps": "3"})
        self.assertEqual(self.weights("parts", **changes), digest(folder / "model.safetensors"))

    def test_a_pooled_classifier_begins_from_a_token_models_folder(self):
        self.weights("token")
        token = self.folder / "token/run"

        def begun(name, start, **members):
            place = self.folder / f"{name}-start"
            shutil.copytree(start, place)
            config = json.loads((place / "config.json").read_text())
            (place / "config.json").write_text(json.dumps({**config, **members}))
            return run("run", self.settings(name, model__model_name_or_path=f'"{place}"', model__from_scratch="false", training__max_steps="1", training__learning_rate="0.0"))

        done = begun("pooled", token, classifier_type="pooled")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("dropping the class token and its position"), 1, done.stderr)
        before, after = tensors(token / "model.safetensors"), tensors(self.folder / "pooled/run/model.safetensors")
        table = "vit.embeddings.position_embeddings"
        self.assertEqual(after[table], before[table][128:])
        self.assertEqual({name for name in before if name != table and before[name] != after.get(name)}, {"vit.embeddings.cls_token"})
        done = begun("back", self.folder / "pooled/run", classifier_type="token")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("config.json and the weights must belong together", done.stderr.splitlines()[-1])

    def test_another_image_size_resizes_the_table_of_positions(self):
        self.weights("token")
        token, table = self.folder / "token/run", "vit.embeddings.position_embeddings"
        begun = {"model__model_name_or_path": f'"{token}"', "model__from_scratch": "false", "model__image_size": "100"}
        done = run_ok("run", self.settings("larger", **begun, training__max_steps="1", training__learning_rate="0.0"))
        self.assertEqual(done.stderr.count("model: position table resized from 8 x 8 to 12 x 12 patches, for pictures of 100 x 100 pixels"), 1, done.stderr)
        folder = self.folder / "larger/run"
        before, after = tensors(token / "model.safetensors"), tensors(folder / "model.safetensors")
        self.assertEqual({name for name in before if before[name] != after[name]}, {table})
        self.assertEqual(after[table][:128], before[table][:128])
        self.assertEqual(len(after[table]), (1 + 12 * 12) * 128)
        for y, x, c in ((0, 0, 0), (0, 11, 3), (5, 7, 64), (11, 11, 127), (11, 2, 90)):
            expected = sum(row * column * before[table][(1 + 8 * i + j) * 128 + c] for i, row in cubic_taps(y, 8, 12) for j, column in cubic_taps(x, 8, 12))
            self.assertAlmostEqual(after[table][(1 + 12 * y + x) * 128 + c], expected, delta=1e-6)
        self.assertEqual(json.loads((folder / "config.json").read_text())["image_size"], 100)
        self.assertEqual(json.loads((folder / "preprocessor_config.json").read_text())["size"], {"height": 100, "width": 100})
        # Its folder is a model of that size, and a run that was stopped ends as if it had not been.
        self.weights("next", model__model_name_or_path=f'"{folder}"', model__from_scratch="false", training__max_steps="1")
        parts = {**begun, "training__lr_schedule_steps": "6"}
        whole = self.weights("whole", **parts, training__max_steps="6")
        self.weights("parts", **parts, training__max_steps="3")
        self.assertEqual(self.weights("parts", **parts, training__max_steps="6"), whole)
        # Pooled and resized at once.
        pooled = self.folder / "pooled"
        shutil.copytree(token, pooled)
        config = json.loads((pooled / "config.json").read_text())
        (pooled / "config.json").write_text(json.dumps({**config, "classifier_type": "pooled"}))
        self.weights("both", **begun | {"model__model_name_or_path": f'"{pooled}"'}, training__max_steps="1", training__learning_rate="0.0")
        self.assertEqual(tensors(self.folder / "both/run/model.safetensors")[table], after[table][128:])

    def test_the_names_of_transformers_5_are_read_too(self):
        self.weights("start")
        start, new = self.folder / "start/run", pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        for file in ("config.json", "preprocessor_config.json"):
            shutil.copy(start / file, new)
        changes = (("encoder.layer.", "layers."), (".attention.attention.query", ".attention.q_proj"), (".attention.attention.key", ".attention.k_proj"),
                   (".attention.attention.value", ".attention.v_proj"), (".attention.output.dense", ".attention.o_proj"), (".intermediate.dense", ".mlp.fc1"),
                   (".output.dense", ".mlp.fc2"))

        def rename(name):
            for part, instead in changes:
                name = name.replace(part, instead)
            return name

        rewrite(start / "model.safetensors", new / "model.safetensors", rename, {})
        begun = [self.weights(name, model__model_name_or_path=f'"{folder}"', model__from_scratch="false") for name, folder in (("old", start), ("new", new))]
        self.assertEqual(*begun)

    def model_with_processor(self, **members):
        """The demo's model folder with these members of preprocessor_config.json."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        shutil.copy(CLASSES / "model/config.json", folder)
        processor = json.loads((CLASSES / "model/preprocessor_config.json").read_text())
        (folder / "preprocessor_config.json").write_text(json.dumps({**processor, **members}))
        return f'"{folder}"'

    def test_the_saved_processor_prepares_pictures_as_training_did(self):
        for members, said in (({"do_normalize": False}, "do_normalize"), ({"do_rescale": False}, "do_rescale"), ({"rescale_factor": 0.5}, "rescale_factor")):
            self.assertRegex(run_ends(3, "run", self.settings("refused", model__model_name_or_path=self.model_with_processor(**members))).stderr.splitlines()[-1], f"preprocessor_config.json: {said} .*; change it$")
        for members in ({"image_mean": None}, {"image_std": None}):
            self.assertIn(f"lacks {next(iter(members))}, which normalises pictures", run_ends(3, "run", self.settings("refused", model__model_name_or_path=self.model_with_processor(**members))).stderr.splitlines()[-1])
            model = self.model_with_processor(**members).strip('"')
            self.assertEqual(run("decode", "--model", model, "--output", self.folder / "none", next((CLASSES.parent / "emoji-captions/images").glob("*.jpg"))).returncode, 3)
        square = {"height": 64, "width": 64}
        for name, members in (("square", {"size": {"height": 224, "width": 224}}), ("edge", {"size": {"shortest_edge": 64}}), ("number", {"size": 32}), ("right", {"size": square}),
                              ("half", {"size": {"height": 64}}), ("float", {"size": 64.0}), ("crop", {"size": square, "crop_size": 224}), ("kept", {"size": square, "do_resize": False}),
                              ("other", {"image_processor_type": "CLIPImageProcessor"})):
            self.weights(name, model__model_name_or_path=self.model_with_processor(**members), training__max_steps="1")
            saved = json.loads((self.folder / name / "run/preprocessor_config.json").read_text())
            self.assertEqual((saved["size"], saved.get("crop_size", square), saved.get("do_resize", True), saved["image_processor_type"]), (square, square, True, "ViTImageProcessor"))

    def test_settings_that_it_does_not_read_are_named(self):
        done = run_ok("plan", self.settings(data__max_seq_length="32", data__masking='"bernoulli"', data__negative_fraction="0.1"))
        self.assertEqual(done.stderr.count("settings: ignored: data.max_seq_length, data.masking (the model reads no text); data.negative_fraction (no captions are exchanged)\n"), 1, done.stderr)
        plain = run("plan", self.settings("plain"))
        self.assertNotIn("settings: ignored", plain.stderr)
        lists = run("plan", self.settings("plain", model__model_name_or_path=self.model_with(image_size=[64, 64], patch_size=[8, 8])))
        self.assertEqual(lists.stdout, plain.stdout)

    def test_decode_prepares_pictures_for_it(self):
        picture = CLASSES / json.loads((CLASSES / "test.jsonl").read_text().splitlines()[0])["image"]
        run_ok("decode", "--model", CLASSES / "model", "--output", self.folder / "pixels.safetensors", picture)
        (pixels,) = tensors(self.folder / "pixels.safetensors").values()
        self.assertEqual(len(pixels), 3 * 64 * 64)

    def test_patches_that_do_not_fit_are_cut_off_and_said(self):
        done = run_ok("run", self.settings(model__model_name_or_path=self.model_with(patch_size=9)))
        self.assertEqual(done.stderr.count("model: the image size 64 is not a multiple of the patch size 9: ignoring the last pixel at the right and bottom"), 1, done.stderr)

    def test_a_frozen_body_leaves_the_classifier(self):
        self.weights("start")
        start, changes = self.folder / "start/run", {"model__from_scratch": "false", "model__freeze": '["vit"]'}
        self.weights(model__model_name_or_path=f'"{start}"', **changes)
        before, after = tensors(start / "model.safetensors"), tensors(self.folder / "one/run/model.safetensors")
        self.assertEqual({name for name in before if before[name] != after[name]}, {"classifier.weight", "classifier.bias"})

    def test_with_the_processor_runs_and_commands_prepare_pictures_as_transformers(self):
        processor = {"data__preprocessing": '"processor"', "data__test_file": f'"{CLASSES}/test.jsonl"'}
        whole = self.weights(**processor)
        self.assertEqual(self.weights("workers", **processor, data__dataloader_num_workers="3", machine__threads="1"), whole)
        self.assertNotEqual(self.weights("training"), whole)
        folder = self.folder / "one/run"
        self.assertEqual((folder / "preprocessor_config.json").read_text(), (CLASSES / "model/preprocessor_config.json").read_text())
        line = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
        done = run_ok("classify", folder, CLASSES / line["image"], "--json")
        (said,) = json.loads(done.stdout)
        for told, kept in zip(said["labels"], line["predicted"]):
            self.assertAlmostEqual(told["probability"], kept["probability"], delta=1e-6)

    def test_what_does_not_fit_is_refused(self):
        for changes, said in (
                ({"data__label_column": None}, "data.label_column"),
                ({"model__head": '"contrastive"'}, "model.head"),
                ({"model__freeze": '["text_model"]'}, "model.freeze"),
                ({"model__model_name_or_path": self.model_with(classifier_type="mean")}, "classifier_type"),
                *(({"model__model_name_or_path": self.model_with(model_type=other)}, f'model_type = "{other}"') for other in ("swin", "beit", "dinov2")),
                ({"model__model_name_or_path": self.model_with(id2label={"0": "a", "1": "b"})}, "use 0 or 1"),
                ({"model__model_name_or_path": self.model_with(id2label={"0": "a"})}, "one class"),
                ({"model__model_name_or_path": self.model_with(id2label={"a": "a", "b": "b"})}, "none is"),
                ({"model__model_name_or_path": f'"{self.without_processor()}"'}, "preprocessor_config.json"),
                ({"model__model_name_or_path": self.model_with(head_dim=16)}, "head_dim differs"),
                ({"model__model_name_or_path": self.model_with(image_size=[64, 32])}, "image_size = [64,32]"),
                ({"data__mixup_alpha": "0.8", "training__per_device_train_batch_size": "7"}, "is odd"),
                ({"model__image_size": "5"}, "model.image_size = 5 is smaller than patch_size = 8"),
                ({"data__preprocessing": '"processor"', "model__image_size": "100"}, 'must be {"height": 100, "width": 100}'),
                ({"data__preprocessing": '"processor"', "data__augment": '"crop_flip"'}, "data.augment is set"),
                ({"model__model_name_or_path": '"/nowhere"', "model__head": '"image_classification"'}, "nowhere")):
            with self.subTest(said):
                done = run("run", self.settings("refused", **changes))
                self.assertIn(done.returncode, (2, 3), done.stderr)
                self.assertIn(said, done.stderr.splitlines()[-1].replace(str(self.folder), ""))
