# SPDX-License-Identifier: Apache-2.0
"""The training scripts whose command lines tools/settings_from_command_line.py takes: the flags of each, and how its model and its
data become settings. `c` is its Conversion."""
import os
import re
import shlex

from conversion import CommandLineError, parse_bool, place_of
from summary_columns import summary_columns
from training_flags import training_script

# For heads with classes and for tokens.
SMOOTHED = {"label_smoothing_factor": ("training.label_smoothing_factor", float)}


def slug(text):
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")


def exported(c, columns, ending, options=()):
    """The manifests of --dataset_name, and the command that makes them."""
    name, config, revision = c.text("dataset_name"), c.text("dataset_config_name"), c.text("dataset_revision")
    folder = "data/" + slug(name.split("/")[-1] + ("-" + config if config else ""))
    for phase, split in (("do_train", "train"), ("do_eval", "validation"), ("do_predict", "test")):
        if c.converted(phase, parse_bool, False):
            c.set(f"data.{split}_file", f"{folder}/{split}.{ending}", "made by tools/export_dataset.py")
    command = ["tools/export_dataset.py", name, "--output", folder]
    for column, value in columns.items():
        command += [f"--{column}_column", value]
    command += (["--config", config] if config else []) + (["--revision", revision] if revision else []) + list(options)
    c.notes.append("make the data set's files beside the settings file: " + " ".join(shlex.quote(word) for word in command))


def bridgetower_model(c):
    name = c.text("model_name_or_path")
    if name is None:
        raise CommandLineError("--model_name_or_path is missing")
    c.set("model.model_name_or_path", *place_of(c, name, True))
    freeze = [part for part, default in (("vision_model", False), ("text_model", False), ("text_pooler", True))
              if c.converted("freeze_" + part, parse_bool, default)]
    c.set("model.freeze", freeze)


def bridgetower_data(c):
    columns = {"image": c.text("image_column", "image"), "caption": c.text("caption_column", "caption")}
    if "dataset_name" in c.flags:
        exported(c, columns, "jsonl")
        return
    c.set("data.image_column", columns["image"])
    c.set("data.caption_column", columns["caption"])
    if "data_dir" in c.flags:
        c.drop("data_dir", "write the manifests' paths into [data]")


def known_model(c, name, family, others, but=""):
    """others: a pattern of names that are no model of the family; but: of those that are, although they look so."""
    if re.search(others, name, re.IGNORECASE) and not (but and re.search(but, name, re.IGNORECASE)):
        c.drop(f"model_name_or_path {name}", f"of the script's models Bascule trains {family}: name one of these")


def vit_model(c):
    name = c.text("model_name_or_path", "google/vit-base-patch16-224-in21k")
    known_model(c, name, "ViT and DeiT", r"swin|beit|dino|resnet|convnext|mobile|levit|regnet")
    folder, comment = place_of(c, name, False)
    c.set("model.model_name_or_path", folder, comment if "model_name_or_path" in c.flags else comment + ", the script's default")
    c.set("model.head", "image_classification")


def vit_data(c):
    c.set("data.augment", "crop_flip", "as the script")
    c.set("data.interpolation", "bilinear", "as the script")
    fraction = c.converted("train_val_split", float, 0.15)
    if not 0.0 < fraction < 1.0:
        raise CommandLineError(f"--train_val_split {fraction}: a number between 0 and 1 is wanted")
    if c.converted("do_eval", parse_bool, False):
        c.set("data.eval_crop_ratio", 1.0, "the centre of the picture; the script stretches the whole to a square")
    if "dataset_name" in c.flags:
        columns = {"image": c.text("image_column_name", "image"), "class": c.text("label_column_name", "label")}
        exported(c, columns, "jsonl", ["--validation_fraction", repr(fraction)] if c.converted("do_eval", parse_bool, False) else [])
        c.set("data.label_column", "label")
        return
    train, validation = c.text("train_dir"), c.text("validation_dir")
    if train is None and validation is None:
        raise CommandLineError("--dataset_name, --train_dir and --validation_dir are missing")
    if train is not None:
        c.set("data.train_file", train)
    if validation is None and c.converted("do_eval", parse_bool, False):
        c.set("data.validation_share", fraction, "other pictures than the script draws")
    if validation is not None:
        c.set("data.validation_file", validation)


ENCODERS = "BERT, RoBERTa and DistilBERT"


def known_encoder(c, name):
    known_model(c, name, ENCODERS, r"roberta|albert|distil|electra|deberta|mobile|camembert|xlm|longformer", r"(?<!xlm)(^|[/_-])(distil)?roberta|(^|[/_-])distilbert")


def bert_model(c):
    name, tokenizer = c.text("model_name_or_path"), c.text("tokenizer_name")
    c.set("model.head", "masked_lm")
    if name is None:  # from scratch
        config, kind = c.text("config_name"), c.text("model_type")
        if tokenizer is None or (config is None and kind is None):
            raise CommandLineError("--model_name_or_path is missing, or --tokenizer_name with --config_name or --model_type")
        if kind is not None and kind not in ("bert", "roberta", "distilbert"):
            c.drop(f"model_type {kind}", f"of the script's models Bascule trains {ENCODERS}")
            kind = "bert"
        name = config
        if name is None:
            c.set("model.model_name_or_path", f"models/{kind}")
            c.notes.append(f"write models/{kind}/config.json beside the settings file: {{\"model_type\": \"{kind}\", ...}}")
        c.set("model.from_scratch", True)
    if name is not None:
        known_encoder(c, name)
        c.set("model.model_name_or_path", *place_of(c, name, False))
    if tokenizer is not None:
        c.set("model.tokenizer_name", *place_of(c, tokenizer, False))
    if "config_overrides" in c.flags:
        c.drop("config_overrides", "write the values into the model folder's config.json")


def bert_data(c):
    c.set("data.masking", "bernoulli", "as the script")
    if "max_seq_length" not in c.flags:
        c.set("data.max_seq_length", 512, "the maximum of most tokenizers of such models, the script's default")
    if c.converted("line_by_line", parse_bool, False):
        c.set("data.text_layout", "lines")
    percentage = c.converted("validation_split_percentage", int, 5)
    if not 0 < percentage < 100:
        raise CommandLineError(f"--validation_split_percentage {percentage}: a number from 1 to 99 is wanted")
    evaluates = c.converted("do_eval", parse_bool, False)
    if "dataset_name" in c.flags:
        exported(c, {"text": "text"}, "txt", ["--validation_fraction", repr(percentage / 100)] if evaluates else [])
        return
    files = [c.text("train_file"), c.text("validation_file")]
    if files == [None, None]:
        raise CommandLineError("--dataset_name, --train_file and --validation_file are missing")
    if evaluates and files[1] is None:
        c.set("data.validation_share", percentage / 100, "other rows than the script's, which are the first ones")
    for split, file in zip(("train", "validation"), files):
        if file is not None:
            c.set(f"data.{split}_file", file)
    if all(file is None or file.endswith(".txt") for file in files):
        if "data.text_layout" not in c.settings:
            c.notes.append("put an empty line between the lines of .txt files: for the script each line is a text with special tokens")
        return
    c.set("data.text_column", "text")
    if c.settings.pop("data.text_layout", None) is None:
        c.notes.append("make a .txt file of the rows, with an empty line between two: only those are cut into blocks, rows of other files are samples")


def t5_model(c):
    name = c.text("model_name_or_path")
    if name is None:
        raise CommandLineError("--model_name_or_path is missing")
    known_model(c, name, "T5", r"bart|pegasus|marian|prophet|blenderbot|mt5|byt5|longt5|m2m|nllb|(^|/)led-")
    c.set("model.model_name_or_path", *place_of(c, name, False))
    c.set("model.head", "conditional_generation")
    if "tokenizer_name" in c.flags:
        c.set("model.tokenizer_name", *place_of(c, c.text("tokenizer_name"), False))


def set_files(c, instead):
    """Those of the splits that the command line names; returns them. instead: flags that would have named the data too."""
    files = {split: c.text(f"{split}_file") for split in ("train", "validation", "test") if c.text(f"{split}_file") is not None}
    if not any(files.values()):
        raise CommandLineError(f"{instead}, --train_file and --validation_file are missing")
    for split, file in files.items():
        c.set(f"data.{split}_file", file)
    return files.values()


def t5_data(c):
    c.set("data.text_column", "text")
    c.set("data.summary_column", "summary")
    prefix = "".join(c.flags.get("source_prefix", []))
    if prefix:
        c.set("data.source_prefix", prefix)
    elif re.search(r"(^|/)t5-(small|base|large|3b|11b)/?$", c.text("model_name_or_path")):
        c.notes.append("set data.source_prefix = \"summarize: \": T5 was trained with it, and the script warns where it is missing")
    if not c.settings.get("data.ignore_pad_token_for_loss", (True, ""))[0] and not c.settings.get("data.pad_to_max_length", (False, ""))[0]:
        del c.settings["data.ignore_pad_token_for_loss"]
        c.drop("ignore_pad_token_for_loss", "without --pad_to_max_length the number of padded labels would depend on the other samples of a batch")
    columns = {"text": c.text("text_column"), "summary": c.text("summary_column")}
    if "dataset_name" in c.flags:
        known = dict(zip(columns, summary_columns(c.text("dataset_name"))))
        columns = {ours: theirs or known[ours] for ours, theirs in columns.items()}
        if None in columns.values():
            c.notes.append("name the columns of texts and summaries in the next command: the script takes the first two")
        exported(c, {ours: theirs or "NAME" for ours, theirs in columns.items()}, "jsonl")
        return
    set_files(c, "--dataset_name")
    for ours, theirs in columns.items():
        if theirs is not None:
            c.set(f"data.{ours}_column", theirs)
        else:
            c.notes.append(f"name the column in data.{ours}_column: the script takes the {'first' if ours == 'text' else 'second'} one")


# The columns of the texts of a row in GLUE, and the split that validates.
GLUE = {"cola": ("sentence",), "mnli": ("premise", "hypothesis"), "mrpc": ("sentence1", "sentence2"), "qnli": ("question", "sentence"), "qqp": ("question1", "question2"),
        "rte": ("sentence1", "sentence2"), "sst2": ("sentence",), "stsb": ("sentence1", "sentence2"), "wnli": ("sentence1", "sentence2")}


def finetuned_encoder(c, head):
    name = c.text("model_name_or_path")
    if name is None:
        raise CommandLineError("--model_name_or_path is missing")
    known_encoder(c, name)
    c.set("model.model_name_or_path", *place_of(c, name, False))
    c.set("model.head", head)
    if "tokenizer_name" in c.flags:
        c.set("model.tokenizer_name", *place_of(c, c.text("tokenizer_name"), False))


def classifier_model(c):
    finetuned_encoder(c, "sequence_classification")


def labelled_texts(c, columns, label, max_seq_length):
    """The splits of a classifier of texts. columns: of one text or two, as the script finds them; empty: unknown."""
    if "max_seq_length" not in c.flags:
        c.set("data.max_seq_length", max_seq_length, "the script's default")
    if "dataset_name" in c.flags or "task_name" in c.flags:
        ours = dict(zip(("text", "text_pair"), columns or ("NAME",)))
        if not columns:
            c.notes.append("name the column of texts in the next command, and that of a second text with --text_pair_column: the script takes the first ones")
        exported(c, {**ours, "class": label}, "jsonl")
        c.set("data.text_column", "text")
        if len(columns) == 2:
            c.set("data.text_pair_column", "text_pair")
        c.set("data.label_column", "label")
        return
    set_files(c, "--task_name, --dataset_name")
    for key, column in zip(("text", "text_pair"), columns):
        c.set(f"data.{key}_column", column)
    if not columns:
        c.notes.append("name the column of texts in data.text_column, and that of a second text in data.text_pair_column: the script takes sentence1 and sentence2, else the first ones")
    c.set("data.label_column", label)


def glue_data(c):
    task = c.text("task_name")
    if task is not None and task not in GLUE:
        raise CommandLineError(f"--task_name {task}: one of {', '.join(GLUE)} is wanted")
    if task is not None:
        c.flags["dataset_name"], c.flags["dataset_config_name"] = ["nyu-mll/glue"], [task]
    labelled_texts(c, GLUE.get(task, ()), "label", 128)
    if task == "mnli" and "data.validation_file" in c.settings:
        file = c.settings["data.validation_file"][0].replace("validation.jsonl", "validation_matched.jsonl")
        c.set("data.validation_file", file, "validation_mismatched.jsonl is the other half, which the script evaluates too")
    if task is not None and c.settings.pop("data.test_file", None) is not None:
        c.settings.pop("training.do_predict", None)
        c.set("training.do_predict", False)
        c.notes.append("the labels of GLUE's test split are not published: the script writes predictions for its server, Bascule judges labelled rows")


def classification_data(c):
    names = [name for value in c.flags.get("text_column_names", []) for name in value.split(",")]
    if len(names) > 1:
        c.drop("text_column_names " + ",".join(names), "join the columns in the file: the script puts one text behind the other")
    if "label_column_name" not in c.flags:
        c.notes.append("name the column of labels in data.label_column, if it is not label")
    labelled_texts(c, tuple(names[:1]), c.text("label_column_name", "label"), 128)
    if c.converted("do_regression", parse_bool, False):
        c.notes.append("write the labels as decimal numbers (3.0), or \"num_labels\": 1 into the model's config.json: integers are classes otherwise")


def tagger_model(c):
    finetuned_encoder(c, "token_classification")


def tagger_data(c):
    task = c.text("task_name", "ner")
    words, tags = c.text("text_column_name", "tokens"), c.text("label_column_name", f"{task}_tags")
    if "max_seq_length" not in c.flags:
        c.set("data.max_seq_length", 512, "the script cuts where the model's positions end")
    for flag, ours in (("text_column_name", "words"), ("label_column_name", "tags")):
        if flag not in c.flags:
            c.notes.append(f"name the column of {ours} if it is not {words if ours == 'words' else tags}: the script takes the {'first' if ours == 'words' else 'second'} one then")
    if "dataset_name" in c.flags:
        exported(c, {"text": words, "tag": tags}, "jsonl")
        words, tags = "tokens", "tags"
    else:
        for file in set_files(c, "--dataset_name"):
            if not file.endswith((".json", ".jsonl")):
                c.notes.append(f"write {file} as JSON lines: lists of words are not read from other files")
    c.set("data.text_column", words)
    c.set("data.label_column", tags)


# Of both classifiers of texts.
OF_CLASSIFIERS = {
    "overwrite_cache": "Bascule keeps no cache of tokenised texts", "pad_to_max_length": "padding is never computed", "use_fast_tokenizer": "there is one tokenizer",
    "ignore_mismatched_sizes": "a classifier of other classes is always initialised"}

SCRIPTS = {
    "run_bridgetower.py": training_script(
        {"tokenizer_name": ("model.tokenizer_name", str), "train_file": ("data.train_file", str),
         "validation_file": ("data.validation_file", str), "test_file": ("data.test_file", str),
         "max_seq_length": ("data.max_seq_length", int)},
        {"data_dir", "image_column", "caption_column", "freeze_vision_model", "freeze_text_model", "freeze_text_pooler"},
        {"preprocessing_num_workers": "captions are tokenised when they are loaded",
         "overwrite_cache": "Bascule keeps no cache of tokenised captions",
         "label_smoothing_factor": "the contrastive loss has no classes, so Trainer ignores it"},
        bridgetower_model, bridgetower_data),
    "run_image_classification.py": training_script(
        SMOOTHED,
        {"train_dir", "validation_dir", "train_val_split", "image_column_name", "label_column_name"},
        {"ignore_mismatched_sizes": "a classifier of other classes is always initialised",
         "feature_extractor_name": "preprocessor_config.json is read from the model folder",
         "model_type": "the model folder's config.json names it"},
        vit_model, vit_data),
    "run_mlm.py": training_script(
        {"max_seq_length": ("data.max_seq_length", int), "mlm_probability": ("data.mlm_probability", float), **SMOOTHED},
        {"tokenizer_name", "config_name", "model_type", "config_overrides", "train_file", "validation_file", "line_by_line",
         "validation_split_percentage"},
        {"preprocessing_num_workers": "texts are tokenised once, before the first step",
         "overwrite_cache": "the tokens of a corpus are kept in the output folder, until its text changes",
         "pad_to_max_length": "padding is never computed",
         "use_fast_tokenizer": "there is one tokenizer",
         "low_cpu_mem_usage": "weights are read once, into their place",
         "torch_dtype": "weights are float32", "dtype": "weights are float32",
         "streaming": "a corpus is tokenised once, and its tokens are mapped"},
        bert_model, bert_data),
    "run_glue.py": training_script(
        {"max_seq_length": ("data.max_seq_length", int), **SMOOTHED},
        {"task_name", "tokenizer_name", "train_file", "validation_file", "test_file"}, OF_CLASSIFIERS, classifier_model, glue_data),
    "run_classification.py": training_script(
        {"max_seq_length": ("data.max_seq_length", int), **SMOOTHED},
        {"tokenizer_name", "train_file", "validation_file", "test_file", "text_column_names", "label_column_name"},
        {**OF_CLASSIFIERS, "do_regression": "the labels decide: decimal numbers are values", "metric_name": "the evaluation has accuracy, F1 and Matthews' correlation, or the error and both correlations",
         "text_column_delimiter": "join the columns in the file", "shuffle_train_dataset": "training data is always shuffled", "shuffle_seed": "training.seed determines the order",
         "train_split_name": "name the split's file", "validation_split_name": "name the split's file", "test_split_name": "name the split's file",
         "remove_splits": "name the splits' files", "remove_columns": "only the columns named in the settings are read"},
        classifier_model, classification_data),
    "run_ner.py": training_script(
        {"max_seq_length": ("data.max_seq_length", int), "label_all_tokens": ("data.label_all_tokens", parse_bool), **SMOOTHED},
        {"task_name", "tokenizer_name", "train_file", "validation_file", "test_file", "text_column_name", "label_column_name"},
        {**OF_CLASSIFIERS, "return_entity_level_metrics": "report.html has the figures of each type", "preprocessing_num_workers": "texts are tokenised when they are loaded"},
        tagger_model, tagger_data),
    "run_summarization.py": training_script(
        {"max_source_length": ("data.max_source_length", int), "max_target_length": ("data.max_target_length", int),
         "val_max_target_length": ("data.val_max_target_length", int), "pad_to_max_length": ("data.pad_to_max_length", parse_bool),
         "ignore_pad_token_for_loss": ("data.ignore_pad_token_for_loss", parse_bool), "predict_with_generate": ("training.predict_with_generate", parse_bool),
         "num_beams": ("generation.num_beams", int), "generation_num_beams": ("generation.num_beams", int), "generation_max_length": ("generation.max_length", int), **SMOOTHED},
        {"tokenizer_name", "source_prefix", "text_column", "summary_column", "train_file", "validation_file", "test_file"},
        {"generation_config": "set the keys of [generation]: the settings file says how texts are written",
         "lang": "for models of several languages", "forced_bos_token": "for models of several languages",
         "resize_position_embeddings": "T5 has no position embeddings",
         "sortish_sampler": "padding is never computed, so the order of lengths does not matter",
         "use_cache": "a step of training has no cache",
         "preprocessing_num_workers": "texts are tokenised when they are loaded",
         "overwrite_cache": "Bascule keeps no cache of tokenised texts",
         "use_fast_tokenizer": "there is one tokenizer",
         "deepspeed": "see distributed.distribution_strategy = \"sharded\""},
        t5_model, t5_data),
}
