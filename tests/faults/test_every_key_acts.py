# SPDX-License-Identifier: Apache-2.0
"""Every key does what the table of config/README.md says of it: two short runs that differ in this key alone have other parameters, other results, or the same bits.

KEYS has a line for each key, and a key that is not in it fails: say there what it changes.
"""
import json
import re
import shutil
import struct
import subprocess

from bascule_run import EMOJI, PROGRAM, ROOT, SharedFolderTest, has_onednn, patient, run_ok
from drawing import drawing, rows
from small_run import DATA, ROWS, TOKENIZER, copy_model, outcome, write_rows
from test_serve import SERVING_KEYS

PARAMETERS, EVALUATION, EXIT_CODE, NOTHING, REFUSED = "parameters", "evaluation", "exit code", "nothing", "refused"

# What the run is like in which the key is changed; {f} is the test's folder.
CONTRASTIVE = {"data__validation_file": '"{f}/validation.jsonl"', "data__test_file": '"{f}/test.jsonl"', "model__model_name_or_path": '"{f}/model"'}
EPOCHS = {"training__max_steps": None, "training__num_train_epochs": "0.5"}
MASKED = {"model": "mlm_interpolate", "model__head": '"masked_lm"'}
TEXT = {"model__model_name_or_path": '"{f}/text_model"', "model__tokenizer_name": None, "model__from_scratch": "true", "data__train_file": '"{f}/train.txt"', "data__preprocessing": None}
TEXT_PAIRS = {**TEXT, "model__head": '"pretraining"'}
MATCHING = {"model": "itm_scaled_add", "model__head": '"image_text_matching"'}
CLASSES = {"model__model_name_or_path": f'"{DATA}/emoji-classes/model"', "model__tokenizer_name": None, "model__from_scratch": "true", "data__train_file": f'"{DATA}/emoji-classes/test.jsonl"',
           "data__label_column": '"label"', "data__max_seq_length": None}
PAIRS = {"model__model_name_or_path": '"{f}/bert"', "model__tokenizer_name": None, "model__from_scratch": "true", "model__head": '"pretraining"', "data__train_file": '"{f}/columns.jsonl"',
         "data__text_pair_column": '"other_caption"', "data__label_column": '"label"'}
EMBEDDINGS = {**PAIRS, "model__head": '"sentence_embedding"', "data__label_column": None}
WORDS = {**PAIRS, "model__head": '"token_classification"', "data__text_pair_column": None, "data__text_column": '"words"', "data__label_column": '"tags"'}
# A family of tests/families: the keys of sources and targets do the same whatever the model is.
TARGETS = {"program": "bascule_classifiers", "model__model_name_or_path": '"{f}/writer"', "model__tokenizer_name": None, "model__from_scratch": "true", "data__train_file": '"{f}/columns.jsonl"',
           "data__validation_file": '"{f}/columns.jsonl"', "data__text_column": '"caption"', "data__summary_column": '"other_caption"', "data__max_source_length": "16", "data__max_target_length": "8",
           "data__max_seq_length": None}
# A T5 with random weights: the texts that it writes depend on how they are searched for.
TEXTS = {"model__model_name_or_path": f'"{DATA}/emoji-keywords/model"', "model__tokenizer_name": f'"{DATA}/tokenizer/unigram"', "model__from_scratch": "true",
         "data__train_file": f'"{DATA}/emoji-keywords/test.jsonl"', "data__validation_file": f'"{DATA}/emoji-keywords/test.jsonl"', "data__test_file": f'"{DATA}/emoji-keywords/test.jsonl"',
         "data__max_predict_samples": "12", "data__text_column": '"text"', "data__summary_column": '"summary"', "data__max_source_length": "16", "data__max_target_length": "12", "data__max_seq_length": None, "data__max_eval_samples": "12",
         "data__preprocessing": None, "training__predict_with_generate": "true"}
BEAMS = {**TEXTS, "generation__num_beams": "3"}
AVERAGED_TEXTS = {**TEXTS, "training__ema_decay": "0.5"}
TWO_RANKS = {"distributed__world_size": "2", "training__per_device_train_batch_size": "3"}
DDP = {**TWO_RANKS, "distributed__distribution_strategy": '"ddp"'}
SHARDED = {**TWO_RANKS, "distributed__distribution_strategy": '"sharded"', "distributed__bucket_mib": "1"}
POLYNOMIAL = {"training__lr_scheduler_type": '"polynomial"'}
# The loss on the validation file falls from update to update: the last one is the best, or the worst, of three.
EACH_UPDATE = {**CONTRASTIVE, "training__eval_steps": "1", "training__save_steps": "1"}
BEST = {**EACH_UPDATE, "training__load_best_model_at_end": "true"}
HIGHEST_LOSS = {**EACH_UPDATE, "training__metric_for_best_model": '"loss"', "training__greater_is_better": "true"}
BAD_PICTURE = {"data__train_file": '"{f}/bad.jsonl"', "training__max_steps": "4"}
LARGE_PICTURE = {"data__train_file": '"{f}/large.jsonl"', "training__max_steps": "4"}
LARGER_PICTURES = {"model__model_name_or_path": f'"{EMOJI}/model"', "model__tokenizer_name": f'"{EMOJI}/tokenizer"', "model__from_scratch": "true"}  # a processor's are multiples of 32
DEVICE = {"program": "bascule_hpu_sim", "media_engine.simulation__units": "2"}
FAULTY = {**DEVICE, "media_engine.simulation__faults": '["corrupted_completion:0.5"]'}

# table.key: (what it changes, the run, another value)
KEYS = {
    "model.model_name_or_path": (PARAMETERS, CONTRASTIVE, '"{f}/other_model"'),
    "model.tokenizer_name": (PARAMETERS, CONTRASTIVE, '"{f}/other_tokenizer"'),
    "model.head": (PARAMETERS, CONTRASTIVE, '"image_text_matching"'),
    "model.from_scratch": (PARAMETERS, CONTRASTIVE, "true"),
    "model.freeze": (PARAMETERS, CONTRASTIVE, '["vision_model"]'),
    "model.precision": (PARAMETERS, CONTRASTIVE, '"bf16"'),
    "model.dropout": (PARAMETERS, CONTRASTIVE, '"config"'),
    "model.image_size": (PARAMETERS, CLASSES, "48"),
    "model.pooling": (PARAMETERS, EMBEDDINGS, '"cls"'),
    "model.normalize": (PARAMETERS, EMBEDDINGS, "true"),
    "data.train_file": (PARAMETERS, CONTRASTIVE, '"{f}/other.jsonl"'),
    "data.validation_file": (EVALUATION, CONTRASTIVE, '"{f}/other.jsonl"'),
    **{f"data.{split}_{kind}": (REFUSED, PAIRS, '"{f}/columns.jsonl"') for split in ("validation", "test") for kind in ("corpus", "queries", "relevance")},
    "data.validation_share": (PARAMETERS, {**CONTRASTIVE, "data__validation_file": None}, "0.5"),
    "data.test_file": (EVALUATION, CONTRASTIVE, '"{f}/other.jsonl"'),
    "data.image_column": (PARAMETERS, {"data__train_file": '"{f}/columns.jsonl"'}, '"other_image"'),
    "data.caption_column": (PARAMETERS, {"data__train_file": '"{f}/columns.jsonl"'}, '"other_caption"'),
    "data.text_column": (PARAMETERS, PAIRS, '"other_image"'),
    "data.text_pair_column": (PARAMETERS, PAIRS, '"other_image"'),
    "data.negative_columns": (REFUSED, PAIRS, '["other_image"]'),
    "data.prompts": (REFUSED, PAIRS, '["a: ", "b: "]'),
    "data.summary_column": (PARAMETERS, TARGETS, '"other_image"'),
    "data.source_prefix": (PARAMETERS, TARGETS, '"a picture of "'),
    "data.max_source_length": (PARAMETERS, TARGETS, "4"),
    "data.max_target_length": (PARAMETERS, TARGETS, "4"),
    "data.val_max_target_length": (EVALUATION, TARGETS, "4"),
    "data.ignore_pad_token_for_loss": (PARAMETERS, {**TARGETS, "data__pad_to_max_length": "true"}, "false"),
    "data.pad_to_max_length": (NOTHING, TARGETS, "true"),
    "data.max_eval_samples": (EVALUATION, CONTRASTIVE, "5"),
    "data.max_predict_samples": (EVALUATION, CONTRASTIVE, "4"),
    "data.label_column": (PARAMETERS, {**MATCHING, "data__train_file": '"{f}/columns.jsonl"'}, '"label"'),
    "data.label_all_tokens": (PARAMETERS, WORDS, "true"),
    "data.max_seq_length": (PARAMETERS, CONTRASTIVE, "5"),
    "data.mlm_probability": (PARAMETERS, MASKED, "0.5"),
    "data.masking": (PARAMETERS, MASKED, '"bernoulli"'),
    "data.max_predictions_per_seq": (PARAMETERS, MASKED, "1"),
    "data.text_layout": (PARAMETERS, TEXT, '"lines"'),
    "data.dupe_factor": (PARAMETERS, TEXT_PAIRS, "2"),
    "data.short_seq_probability": (PARAMETERS, TEXT_PAIRS, "1.0"),
    "data.negative_fraction": (PARAMETERS, MATCHING, "0.1"),
    "data.preprocessing": (PARAMETERS, LARGER_PICTURES, '"processor"'),
    "data.augment": (PARAMETERS, CONTRASTIVE, '"crop_flip"'),
    "data.random_resized_crop_scale": (PARAMETERS, {"data__augment": '"crop_flip"'}, "[0.5, 1.0]"),
    "data.random_resized_crop_ratio": (PARAMETERS, {"data__augment": '"crop_flip"'}, "[1.0, 1.0]"),
    "data.rand_augment_num_ops": (PARAMETERS, CONTRASTIVE, "2"),
    "data.rand_augment_magnitude": (PARAMETERS, {"data__rand_augment_num_ops": "3"}, "25"),
    "data.rand_augment_num_magnitude_bins": (PARAMETERS, {"data__rand_augment_num_ops": "3"}, "11"),
    "data.color_jitter_brightness": (PARAMETERS, CONTRASTIVE, "0.4"),
    "data.color_jitter_contrast": (PARAMETERS, CONTRASTIVE, "0.4"),
    "data.color_jitter_saturation": (PARAMETERS, CONTRASTIVE, "0.4"),
    "data.color_jitter_hue": (PARAMETERS, CONTRASTIVE, "0.1"),
    "data.random_erasing_probability": (PARAMETERS, CONTRASTIVE, "1.0"),
    "data.random_erasing_scale": (PARAMETERS, {"data__random_erasing_probability": "1.0"}, "[0.5, 0.6]"),
    "data.random_erasing_ratio": (PARAMETERS, {"data__random_erasing_probability": "1.0"}, "[2.0, 3.0]"),
    "data.interpolation": (PARAMETERS, CONTRASTIVE, '"bilinear"'),
    "data.eval_crop_ratio": (PARAMETERS, CONTRASTIVE, "0.875"),
    "data.mixup_alpha": (PARAMETERS, CLASSES, "0.8"),
    "data.cutmix_alpha": (PARAMETERS, CLASSES, "1.0"),
    "data.dataloader_num_workers": (NOTHING, CONTRASTIVE, "3"),
    "data.dataloader_drop_last": (PARAMETERS, {"training__max_steps": "5"}, "true"),
    "data.ring_slots": (NOTHING, CONTRASTIVE, "5"),
    "data.on_bad_sample": (EXIT_CODE, BAD_PICTURE, '"skip"'),
    "media_engine.queue_depth": (NOTHING, CONTRASTIVE, "1"),
    "media_engine.memory_mib": (NOTHING, CONTRASTIVE, "64"),
    "media_engine.max_megapixels": (EXIT_CODE, LARGE_PICTURE, "1"),
    "media_engine.scale_in_decoder": (PARAMETERS, CONTRASTIVE, "true"),
    "media_engine.fallback": (NOTHING, CONTRASTIVE, "false"),
    "media_engine.simulation.units": (NOTHING, DEVICE, "1"),
    "media_engine.simulation.pictures_per_second": (NOTHING, DEVICE, "2000.0"),
    "media_engine.simulation.latency_ms": (NOTHING, DEVICE, "1.0"),
    "media_engine.simulation.polling": (NOTHING, DEVICE, "true"),
    "media_engine.simulation.timeout_ms": (NOTHING, DEVICE, "3000"),
    "media_engine.simulation.faults": (NOTHING, DEVICE, '["corrupted_completion@2"]'),
    "media_engine.simulation.fault_seed": (NOTHING, FAULTY, "2"),
    "training.output_dir": (NOTHING, CONTRASTIVE, '"{f}/{n}/run2"'),
    "training.do_train": (PARAMETERS, CONTRASTIVE, "false"),
    "training.do_eval": (EVALUATION, CONTRASTIVE, "false"),
    "training.do_predict": (EVALUATION, CONTRASTIVE, "false"),
    "training.seed": (PARAMETERS, CONTRASTIVE, "43"),
    "training.num_train_epochs": (PARAMETERS, EPOCHS, "1.0"),
    "training.max_steps": (PARAMETERS, CONTRASTIVE, "2"),
    "training.per_device_train_batch_size": (PARAMETERS, CONTRASTIVE, "5"),
    "training.per_device_eval_batch_size": (EVALUATION, CONTRASTIVE, "3"),
    "training.batch_sampler": (REFUSED, CONTRASTIVE, '"no_duplicates"'),
    "training.learning_rate": (PARAMETERS, CONTRASTIVE, "0.0011"),
    "training.weight_decay": (PARAMETERS, CONTRASTIVE, "0.1"),
    "training.optimizer": (PARAMETERS, {"training__weight_decay": "0.1"}, '"lamb"'),
    "training.warmup_start_ratio": (PARAMETERS, {"training__warmup_steps": "2"}, "0.5"),
    "training.adam_beta1": (PARAMETERS, CONTRASTIVE, "0.8"),
    "training.adam_beta2": (PARAMETERS, CONTRASTIVE, "0.9"),
    "training.adam_epsilon": (PARAMETERS, CONTRASTIVE, "1e-4"),
    "training.max_grad_norm": (PARAMETERS, CONTRASTIVE, "2.0"),
    "training.label_smoothing_factor": (PARAMETERS, MASKED, "0.1"),
    "training.ema_decay": (EVALUATION, CONTRASTIVE, "0.5"),
    "training.ema_steps": (EVALUATION, {**CONTRASTIVE, "training__ema_decay": "0.5"}, "2"),
    "training.lr_scheduler_type": (PARAMETERS, CONTRASTIVE, '"cosine"'),
    "training.lr_schedule_steps": (PARAMETERS, CONTRASTIVE, "9"),
    "training.warmup_steps": (PARAMETERS, CONTRASTIVE, "1"),
    "training.warmup_ratio": (PARAMETERS, CONTRASTIVE, "0.3"),
    "training.lr_power": (PARAMETERS, POLYNOMIAL, "2.0"),
    "training.lr_end": (PARAMETERS, POLYNOMIAL, "1e-4"),
    "training.lr_num_cycles": (PARAMETERS, {"training__lr_scheduler_type": '"cosine_with_restarts"'}, "2"),
    "training.lr_timescale": (PARAMETERS, {"training__lr_scheduler_type": '"inverse_sqrt"'}, "2"),
    "training.min_lr_ratio": (PARAMETERS, {"training__lr_scheduler_type": '"cosine_with_min_lr"', "training__min_lr_ratio": "0.1"}, "0.5"),
    "training.gradient_accumulation_steps": (PARAMETERS, CONTRASTIVE, "2"),
    "training.fused_update": (NOTHING, {"training__optimizer": '"adafactor"', "training__max_grad_norm": "0.0"}, "true"),
    "training.gradient_checkpointing": (NOTHING, CONTRASTIVE, '"full"'),
    "training.loss": (PARAMETERS, EMBEDDINGS, '"multiple_negatives_symmetric_ranking"'),
    "training.similarity_scale": (PARAMETERS, EMBEDDINGS, "5.0"),
    "training.mini_batch_size": (PARAMETERS, EMBEDDINGS, "1"),
    "training.gather_negatives": (PARAMETERS, TWO_RANKS, "true"),
    "training.logging_steps": (NOTHING, CONTRASTIVE, "2"),
    "training.eval_strategy": (NOTHING, CONTRASTIVE, '"epoch"'),
    "training.eval_steps": (NOTHING, CONTRASTIVE, "1"),
    "training.save_strategy": (NOTHING, CONTRASTIVE, '"epoch"'),
    "training.save_steps": (NOTHING, CONTRASTIVE, "1"),
    "training.save_total_limit": (NOTHING, CONTRASTIVE, "1"),
    "training.load_best_model_at_end": (PARAMETERS, HIGHEST_LOSS, "true"),
    "training.metric_for_best_model": (PARAMETERS, BEST, '"text_to_image_recall_at_10"'),  # 1 for nine rows: the first is the best
    "training.greater_is_better": (PARAMETERS, BEST, "true"),
    "training.early_stopping_patience": (PARAMETERS, HIGHEST_LOSS, "1"),
    "training.early_stopping_threshold": (PARAMETERS, {**EACH_UPDATE, "training__early_stopping_patience": "1"}, "100.0"),
    "training.resume": (NOTHING, CONTRASTIVE, '"never"'),
    "training.throughput_warmup_steps": (NOTHING, CONTRASTIVE, "1"),
    "distributed.world_size": (PARAMETERS, CONTRASTIVE, "2"),  # of samples of each rank
    "distributed.distribution_strategy": (NOTHING, TWO_RANKS, '"ddp"'),
    "distributed.wire_type": (NOTHING, TWO_RANKS, '"bf16"'),  # of the wire between machines; see test_nodes.py
    "distributed.bucket_mib": (NOTHING, DDP, "1"),
    "distributed.sharded_stage": (NOTHING, SHARDED, "2"),
    "distributed.timeout_seconds": (NOTHING, TWO_RANKS, "30"),
    "distributed.hostfile": (NOTHING, TWO_RANKS, '"{f}/hosts"'),
    "machine.memory_limit_gib": (NOTHING, CONTRASTIVE, "2.0"),
    "machine.threads": (NOTHING, CONTRASTIVE, "3"),
    "machine.isa": (NOTHING, CONTRASTIVE, '"avx2"'),
    "machine.products": (PARAMETERS, CONTRASTIVE, '"onednn"'),
    "machine.bf16_sums": (PARAMETERS, {**CONTRASTIVE, "model__precision": '"bf16"'}, '"tiles"'),
    "machine.huge_pages": (NOTHING, CONTRASTIVE, '"off"'),
    "machine.lock_memory": (NOTHING, CONTRASTIVE, "true"),
    "machine.step_seconds": (PARAMETERS, CONTRASTIVE, "0.001"),
    "report.tensorboard": (NOTHING, CONTRASTIVE, "false"),
    "report.html": (NOTHING, CONTRASTIVE, "false"),
    "report.profile": (NOTHING, CONTRASTIVE, "true"),
    "report.hash_steps": (NOTHING, CONTRASTIVE, "1"),
    "report.status_seconds": (NOTHING, CONTRASTIVE, "0.01"),
    "report.tracking": (NOTHING, CONTRASTIVE, '"mlflow"'),
    "report.tracking_dir": (NOTHING, {**CONTRASTIVE, "report__tracking": '"mlflow"'}, '"{f}/store"'),
    "report.mlperf_log": (NOTHING, CONTRASTIVE, '"Example"'),
    "training.predict_with_generate": (EVALUATION, {**TEXTS, "training__predict_with_generate": "false"}, "true"),
    "training.generate_ema": (EVALUATION, AVERAGED_TEXTS, "true"),
    "generation.num_beams": (EVALUATION, TEXTS, "4"),
    "generation.max_length": (EVALUATION, TEXTS, "5"),
    "generation.max_new_tokens": (EVALUATION, TEXTS, "3"),
    "generation.min_length": (EVALUATION, {**TEXTS, "generation__max_new_tokens": "30"}, "31"),
    "generation.min_new_tokens": (EVALUATION, {**TEXTS, "generation__max_new_tokens": "30"}, "30"),
    "generation.length_penalty": (EVALUATION, {**BEAMS, "generation__max_new_tokens": "30"}, "-8.0"),
    "generation.early_stopping": (EVALUATION, {**BEAMS, "generation__max_new_tokens": "30", "generation__length_penalty": "8.0"}, "true"),
    "generation.no_repeat_ngram_size": (EVALUATION, TEXTS, "1"),
}

# A key of [[training.groups]]: the group without it, and with another value.
GROUP = {"match": '"cross_modal*"', "learning_rate_multiplier": "3.0"}
GROUP_KEYS = {"match": '"vision_model*"', "learning_rate_multiplier": "2.0", "weight_decay": "0.5", "freeze": "true"}

# Keys of a run that draws, as another value of each: whether the pictures are others. A small run draws two prompts.
PICTURES = "pictures"
DRAWING_KEYS = {
    "output_dir": (NOTHING, {}, '"{n}/elsewhere"'),
    "prompts": (PICTURES, {}, '["a dog", "a red heart"]'),
    "prompts_file": (PICTURES, {"prompts_file": '"{f}/one.txt"'}, '"{f}/other.jsonl"'),
    "negative_prompt": (PICTURES, {}, '"blurry"'),
    "num_images_per_prompt": (PICTURES, {}, "2"),
    "batch_size": (NOTHING, {}, "2"),
    "height": (PICTURES, {}, "24"),
    "width": (PICTURES, {}, "8"),
    "num_inference_steps": (PICTURES, {}, "3"),
    "guidance_scale": (PICTURES, {}, "1.0"),
    "scheduler": (PICTURES, {}, '"ddim"'),
    "timestep_spacing": (PICTURES, {}, '"trailing"'),
    "seed": (PICTURES, {}, "43"),
    "latents_file": (PICTURES, {}, '"{f}/latents.safetensors"'),
    "png_text": (NOTHING, {}, "false"),  # of the pixels
    "throughput_warmup_batches": (NOTHING, {}, "0"),
    "resume": (NOTHING, {}, '"never"'),
}


def documented_keys():
    """The keys of the tables of settings in config/README.md, which tests/tools/test_readme.py compares with the program's."""
    text = (ROOT / "config/README.md").read_text()
    text = text[text.index("<!-- settings: "):text.index("<!-- settings end -->")]
    keys, table = [], ""
    for line in text.splitlines():
        table = line[5:-1] if line.startswith("### [") else table
        table = table.strip("[]")  # [[training.groups]]
        keys += [f"{table}.{name}" for name in re.findall(r"^\| `(\w+)` \|", line)]
    return keys


def start(program):
    return lambda *words: subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, timeout=patient(600), check=False)


class EveryKey(SharedFolderTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.known, cls.runs = {}, 0
        copy_model("itc_add", cls.folder / "model", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        other = copy_model("itc_add", cls.folder / "other_model", hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1) / "model.safetensors"
        values = bytearray(other.read_bytes())
        values[-1] ^= 1  # the exponent of the last weight
        other.write_bytes(values)
        shutil.copytree(TOKENIZER, cls.folder / "other_tokenizer")
        vocabulary = json.loads((TOKENIZER / "vocab.json").read_text())
        vocabulary["e"], vocabulary["o"] = vocabulary["o"], vocabulary["e"]
        (cls.folder / "other_tokenizer" / "vocab.json").write_text(json.dumps(vocabulary))
        shutil.copytree(DATA / "tokenizer" / "wordpiece", cls.folder / "bert")
        (cls.folder / "bert" / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 40}))
        shutil.copytree(DATA / "tokenizer" / "wordpiece", cls.folder / "writer")
        (cls.folder / "writer" / "config.json").write_text(json.dumps({"model_type": "target_writer", "vocab_size": 4000, "hidden_size": 16, "classes": 2}))
        (cls.folder / "cut.jpg").write_bytes((DATA / "run_goldens" / ROWS[3]["image"]).read_bytes()[:300])
        (cls.folder / "hosts").write_text("localhost slots=2\n")
        (cls.folder / "text_model").mkdir()
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(DATA / "tokenizer" / "wordpiece" / file, cls.folder / "text_model")
        (cls.folder / "text_model" / "config.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 4000, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16}))
        (cls.folder / "train.txt").write_text("".join(row["caption"] + "\n" + "\n" * (at % 4 == 3) for at, row in enumerate(ROWS)))
        columns = [{**row, "other_image": str((DATA / "run_goldens" / ROWS[at - 1]["image"]).resolve()), "other_caption": ROWS[at - 2]["caption"], "label": at % 2,
                    "words": row["caption"].split(), "tags": [("O", "B-X", "I-X")[len(word) % 3] for word in row["caption"].split()]} for at, row in enumerate(ROWS)]
        large = {**ROWS[3], "image": "../images/jpeg/size_2485x2240_tie.jpg"}
        for name, rows in {"columns": columns, "other": ROWS[:6] + ROWS[8:14], "validation": ROWS[:9], "test": ROWS[5:12], "bad": ROWS[:3] + [{**ROWS[3], "image": str(cls.folder / "cut.jpg")}] + ROWS[4:],
                           "large": ROWS[:3] + [large] + ROWS[4:]}.items():
            write_rows(cls.folder / f"{name}.jsonl", rows)

    def outcome(self, values):
        """Of each run once."""
        values = dict(values)
        known = json.dumps(values, sort_keys=True)
        if known not in self.known:
            program = PROGRAM.parent / "tests" / values.pop("program") if "program" in values else PROGRAM
            model = values.pop("model", "itc_add")
            type(self).runs += 1
            folder = self.folder / f"run{self.runs}"
            folder.mkdir()
            values = {key: value.replace("{f}", str(self.folder)).replace("{n}", folder.name) if value else value for key, value in values.items()}
            self.known[known] = outcome(folder, model, start(program), **values)
        return self.known[known]

    def test_does_what_the_table_says(self):
        for key, (changes, base, value) in KEYS.items():
            if key == "machine.products" and not has_onednn():
                changes = EXIT_CODE  # refused
            table, name = key.rsplit(".", 1)
            with self.subTest(key=key):
                one, other = self.outcome(base), self.outcome({**base, f"{table}__{name}": value})
                if changes == EXIT_CODE:
                    self.assertNotEqual(one["exit"], other["exit"], one["stderr"] + other["stderr"])
                    continue
                self.assertEqual(one["exit"], 0, one["stderr"])
                if changes == REFUSED:
                    self.assertEqual(other["exit"], 2, other["stderr"])
                    self.assertIn(name, other["stderr"])
                    continue
                self.assertEqual(other["exit"], 0, other["stderr"])
                same = {part: one[part] == other[part] for part in (PARAMETERS, EVALUATION)}
                if changes == PARAMETERS:
                    self.assertFalse(same[PARAMETERS], "the parameters are the same")
                else:
                    self.assertTrue(same[PARAMETERS], "the parameters differ")
                    self.assertEqual(same[EVALUATION], changes == NOTHING, f"{one[EVALUATION]} and {other[EVALUATION]}")

    def test_of_a_group_changes_the_parameters(self):
        outcome = lambda group: self.outcome({**CONTRASTIVE, "training__groups": "[{" + ", ".join(f"{name} = {value}" for name, value in group.items()) + "}]"})
        start = outcome(GROUP)
        self.assertEqual(start["exit"], 0, start["stderr"])
        for name, value in GROUP_KEYS.items():
            with self.subTest(key=name):
                changed = {**GROUP, name: value}
                if name == "freeze":
                    del changed["learning_rate_multiplier"]  # which has no effect on frozen tensors and is refused
                other = outcome(changed)
                self.assertEqual(other["exit"], 0, other["stderr"])
                self.assertNotEqual(other[PARAMETERS], start[PARAMETERS])

    def test_of_a_run_that_draws_does_what_the_table_says(self):
        (self.folder / "one.txt").write_text("a cat\na red heart\n")
        (self.folder / "other.jsonl").write_text('{"prompt": "a cat", "seed": 7}\n{"prompt": "a red heart", "negative_prompt": "x"}\n')
        noise = struct.pack("<512f", *(((37 * i) % 101 - 50) / 25 for i in range(512)))
        header = json.dumps({"latents": {"dtype": "F32", "shape": [2, 4, 8, 8], "data_offsets": [0, len(noise)]}}).encode()
        (self.folder / "latents.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + noise)
        known = {}

        def drawn(number, keys):
            folder = self.folder / f"drawn{number}"
            folder.mkdir()
            keys = {key: value.replace("{f}", str(self.folder)).replace("{n}", str(folder)) if value else value for key, value in keys.items()}
            run_ok("run", drawing(folder, num_images_per_prompt=keys.pop("num_images_per_prompt", "1"), **keys))
            return [row["digest"] for row in rows(folder / ("elsewhere" if "output_dir" in keys else "run"))]

        for number, (name, (changes, base, value)) in enumerate(DRAWING_KEYS.items()):
            with self.subTest(key=name):
                start = json.dumps(base)
                known[start] = known.get(start) or drawn(f"{number}-start", base)
                self.assertEqual(drawn(number, {**base, name: value}) != known[start], changes == PICTURES)

    def test_is_in_this_table(self):
        known = [*KEYS, *(f"training.groups.{name}" for name in GROUP_KEYS), *(f"draw.{name}" for name in DRAWING_KEYS), *(f"serve.{name}" for name in SERVING_KEYS)]
        self.assertEqual(sorted(documented_keys()), sorted(known), "say in KEYS what the key changes")
