# SPDX-License-Identifier: Apache-2.0
"""A DeiT learns classes of pictures with both of its heads: its folders in and out, its bits, and the commands that ask it."""
import json
import shutil

from bascule_run import ROOT, FolderTest, digest, instruction_sets, run_ends, run_ok, settings
from run_files import rewrite, tensors
from small_deit import PLAIN, WITH_TEACHER, write_deit

CLASSES = ROOT / "tests" / "data" / "emoji-classes"
TOKENS = {"deit.embeddings.cls_token", "deit.embeddings.distillation_token"}


class DeiT(FolderTest):
    def settings(self, name="one", **changes):
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        if not (folder / "deit").exists():
            write_deit(folder / "deit")
        return settings(folder, **{
            "model__model_name_or_path": '"deit"', "model__tokenizer_name": None, "data__train_file": f'"{CLASSES}/train.jsonl"', "data__max_seq_length": None,
            "data__label_column": '"label"', "data__preprocessing": '"training"', "training__max_steps": "4", **changes})

    def trained(self, name="one", **changes):
        run_ok("run", self.settings(name, **changes))
        return self.folder / name / "run"

    def weights(self, name="one", **changes):
        return digest(self.trained(name, **changes) / "model.safetensors")

    def test_learns_and_is_saved_as_the_class_of_its_head(self):
        for head, architecture, classifiers in ((PLAIN, "DeiTForImageClassification", {"classifier"}),
                                                (WITH_TEACHER, "DeiTForImageClassificationWithTeacher", {"cls_classifier", "distillation_classifier"})):
            with self.subTest(head):
                folder = self.trained(head, model__head=f'"{head}"', training__max_steps="60", training__per_device_train_batch_size="32",
                                      data__validation_file=f'"{CLASSES}/validation.jsonl"', data__test_file=f'"{CLASSES}/test.jsonl"')
                results = json.loads((folder / "all_results.json").read_text())
                self.assertGreater(results["validation_accuracy"], 0.364)  # the share of the largest class
                config = json.loads((folder / "config.json").read_text())
                self.assertEqual((config["model_type"], config["architectures"]), ("deit", [architecture]))
                self.assertIn(f"import DeiTImageProcessor, {architecture}", (folder / "README.md").read_text())
                names = set(tensors(folder / "model.safetensors"))
                self.assertLessEqual(TOKENS, names)
                self.assertEqual({name for name in names if not name.startswith("deit.")}, {f"{name}.{part}" for name in classifiers for part in ("weight", "bias")})
                # The command says what the predictions of the run say.
                line = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
                done = run_ok("classify", folder, CLASSES / line["image"], "--json")
                (said,) = json.loads(done.stdout)
                for told, kept in zip(said["labels"], line["predicted"]):
                    self.assertAlmostEqual(told["probability"], kept["probability"], delta=1e-6)
                for command in (("plan", self.settings(head)), ("bench", self.settings(head), "--steps", "2")):
                    run_ok(*command)

    def test_a_folder_of_one_head_starts_a_run_of_the_other(self):
        start = self.trained(WITH_TEACHER, model__head=f'"{WITH_TEACHER}"')
        begun = self.trained(PLAIN, model__head=f'"{PLAIN}"', model__model_name_or_path=f'"{start}"', model__from_scratch="false", training__max_steps="1", training__learning_rate="0.0")
        before, after = tensors(start / "model.safetensors"), tensors(begun / "model.safetensors")
        self.assertEqual({name for name in before if name.startswith("deit.") and before[name] != after[name]}, set())
        self.assertEqual(set(after) - set(before), {"classifier.weight", "classifier.bias"})
        # A folder of ViT lacks the second token.
        config = json.loads((begun / "config.json").read_text())
        other = self.folder / "other"
        shutil.copytree(begun, other)
        (other / "model.safetensors").unlink()
        rewrite(begun / "model.safetensors", other / "model.safetensors", lambda name: name.replace("deit.embeddings.distillation_token", "left.out"), {})
        (other / "config.json").write_text(json.dumps(config))
        self.assertIn("deit.embeddings.distillation_token", run_ends(3, "run", self.settings("lacking", model__model_name_or_path=f'"{other}"', model__from_scratch="false")).stderr.splitlines()[-1])

    def test_another_image_size_keeps_the_positions_of_both_tokens(self):
        start, table = self.trained("start", model__head=f'"{WITH_TEACHER}"'), "deit.embeddings.position_embeddings"
        larger = self.trained("larger", model__head=f'"{WITH_TEACHER}"', model__model_name_or_path=f'"{start}"', model__from_scratch="false", model__image_size="100",
                              training__max_steps="1", training__learning_rate="0.0")
        before, after = tensors(start / "model.safetensors"), tensors(larger / "model.safetensors")
        self.assertEqual({name for name in before if before[name] != after[name]}, {table})
        width = len(before["deit.embeddings.cls_token"])
        self.assertEqual(after[table][:2 * width], before[table][:2 * width])
        self.assertEqual(len(after[table]), (2 + 12 * 12) * width)
        self.assertEqual(json.loads((larger / "preprocessor_config.json").read_text())["crop_size"], {"height": 100, "width": 100})

    def test_the_bits_depend_on_nothing_but_the_settings(self):
        for head in (PLAIN, WITH_TEACHER):
            for precision in ("float32", "bf16"):
                common = {"model__head": f'"{head}"', "model__precision": f'"{precision}"', "data__augment": '"crop_flip"', "data__mixup_alpha": "0.8"}
                with self.subTest(head=head, precision=precision):
                    whole = self.weights(f"{head}-{precision}-whole", **common)
                    for name, changes in (("threads", {"machine__threads": "1", "data__dataloader_num_workers": "3"}), ("recomputed", {"training__gradient_checkpointing": '"full"'}),
                                          *((isa, {"machine__isa": f'"{isa}"'}) for isa in instruction_sets() if isa != "scalar")):
                        self.assertEqual(self.weights(f"{head}-{precision}-{name}", **common, **changes), whole, name)
                    self.weights(f"{head}-{precision}-parts", **common | {"training__max_steps": "2"}, training__lr_schedule_steps="4")
                    self.assertEqual(self.weights(f"{head}-{precision}-parts", **common, training__lr_schedule_steps="4"), whole)

    def test_with_the_processor_runs_and_commands_crop_as_transformers(self):
        """tests/pictures compares the pixels."""
        folder = self.trained(data__preprocessing='"processor"', data__test_file=f'"{CLASSES}/test.jsonl"')
        self.assertEqual((folder / "preprocessor_config.json").read_text(), (self.folder / "one/deit/preprocessor_config.json").read_text())
        line = json.loads((folder / "predictions.jsonl").read_text().splitlines()[0])
        done = run_ok("classify", folder, CLASSES / line["image"], "--json")
        (said,) = json.loads(done.stdout)
        for told, kept in zip(said["labels"], line["predicted"]):
            self.assertAlmostEqual(told["probability"], kept["probability"], delta=1e-6)
