# SPDX-License-Identifier: Apache-2.0
"""The flags that every training script takes (Transformers' TrainingArguments and Optimum Habana's), as settings of Bascule."""
import json

from conversion import NOT_CARRIED, CommandLineError, Script, parse_bool, whole_or_share

# flag: (key of Bascule, type). These are carried over unchanged; each script has more of its own.
CARRIED = {
    "dataloader_num_workers": ("data.dataloader_num_workers", int),
    "dataloader_drop_last": ("data.dataloader_drop_last", parse_bool),
    "output_dir": ("training.output_dir", str),
    "do_train": ("training.do_train", parse_bool),
    "do_eval": ("training.do_eval", parse_bool),
    "do_predict": ("training.do_predict", parse_bool),
    "seed": ("training.seed", int),
    "num_train_epochs": ("training.num_train_epochs", float),
    "max_steps": ("training.max_steps", int),
    "per_device_train_batch_size": ("training.per_device_train_batch_size", int),
    "per_device_eval_batch_size": ("training.per_device_eval_batch_size", int),
    "learning_rate": ("training.learning_rate", float),
    "weight_decay": ("training.weight_decay", float),
    "adam_beta1": ("training.adam_beta1", float),
    "adam_beta2": ("training.adam_beta2", float),
    "adam_epsilon": ("training.adam_epsilon", float),
    "max_grad_norm": ("training.max_grad_norm", float),
    "warmup_steps": ("training.warmup_steps", whole_or_share),
    "warmup_ratio": ("training.warmup_ratio", float),
    "gradient_accumulation_steps": ("training.gradient_accumulation_steps", int),
    "logging_steps": ("training.logging_steps", int),
    "save_steps": ("training.save_steps", int),
    "load_best_model_at_end": ("training.load_best_model_at_end", parse_bool),
    "metric_for_best_model": ("training.metric_for_best_model", str),
    "greater_is_better": ("training.greater_is_better", parse_bool),
    "save_total_limit": ("training.save_total_limit", int),
    "throughput_warmup_steps": ("training.throughput_warmup_steps", int),
    "ddp_bucket_cap_mb": ("distributed.bucket_mib", int),
}

# Read by a function below.
TRANSLATED = {
    "model_name_or_path", "dataset_name", "dataset_config_name", "dataset_revision", "bf16", "fp16", "gaudi_config_name",
    "use_habana", "lr_scheduler_type", "lr_scheduler_kwargs", "gradient_checkpointing", "save_strategy", "eval_strategy", "evaluation_strategy",
    "eval_steps", "logging_strategy", "optim", "report_to", "distribution_strategy", "resume_from_checkpoint",
}

# Why a flag has no counterpart, beside those of any script.
NOT_TRAINED = {
    "overwrite_output_dir": "a run resumes from its output folder: empty the folder to start again",
    "remove_unused_columns": "only the columns named in the settings are read",
    "use_hpu_graphs_for_inference": "specific to Gaudi; Bascule always records tapes",
    "use_hpu_graphs_for_training": "specific to Gaudi; Bascule always records tapes",
    "mediapipe_dataloader": "the media engine is chosen at build time (-Dmedia_engine=...)",
    "adjust_throughput": "throughput includes loading and updates; evaluation and saving are reported separately",
    "dataloader_pin_memory": "batches use memory reserved before the first step",
    "dataloader_prefetch_factor": "see data.ring_slots",
    "max_train_samples": "shorten the manifest instead",
    "max_eval_samples": "shorten the manifest instead",
    "max_predict_samples": "shorten the manifest instead",
    "config_name": "config.json is read from the model folder",
    "image_processor_name": "preprocessor_config.json is read from the model folder",
    "data_seed": "training.seed determines order, dropout and masks",
    "use_deepspeed": "see distributed.distribution_strategy = \"sharded\"",
    "push_to_hub_model_id": "Bascule uploads nothing",
}

# Defaults of the script that differ from Bascule's and change numbers.
SCRIPT_DEFAULTS = {
    "training.num_train_epochs": 3.0,
    "training.per_device_train_batch_size": 8,
    "training.per_device_eval_batch_size": 8,
    "training.learning_rate": 5e-5,
}

# lr_scheduler_type: {keyword of lr_scheduler_kwargs: key of ours}.
SCHEDULES = {
    "linear": {},
    "cosine": {},
    "constant": {},
    "constant_with_warmup": {},
    "polynomial": {"power": "lr_power", "lr_end": "lr_end"},
    "cosine_with_restarts": {"num_cycles": "lr_num_cycles"},
    "inverse_sqrt": {"timescale": "lr_timescale"},
    "cosine_with_min_lr": {"min_lr_rate": "min_lr_ratio"},
}


def precision(c):
    if c.converted("bf16", parse_bool, False):
        c.set("model.precision", "bf16")
    if c.text("gaudi_config_name") == "Habana/clip":
        c.set("model.precision", "bf16", "Habana/clip switches it on")
    elif "gaudi_config_name" in c.flags:
        c.drop("gaudi_config_name", "if its file switches bfloat16 on, set precision = \"bf16\"")
    if c.converted("fp16", parse_bool, False):
        c.drop("fp16", "float16 is not implemented; precision = \"bf16\" is")


def schedule_keywords(c, keys):
    """--lr_scheduler_kwargs, a JSON object, into keys of the schedule."""
    text = c.text("lr_scheduler_kwargs", "{}")
    try:
        given = json.loads(text)
        if not isinstance(given, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise CommandLineError(f"--lr_scheduler_kwargs {text[:60]}: a JSON object is wanted") from None
    for keyword, value in given.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise CommandLineError(f"--lr_scheduler_kwargs {keyword} = {json.dumps(value)}: a number is wanted")
    if given.get("min_lr") is not None and "min_lr_rate" in keys:
        learning_rate = c.settings["training.learning_rate"][0]
        if learning_rate <= 0:
            raise CommandLineError(f"--lr_scheduler_kwargs min_lr: it is a share of --learning_rate, which is {learning_rate}")
        given["min_lr_rate"] = given.pop("min_lr") / learning_rate
    for keyword, value in given.items():
        if keyword in keys and value is not None:
            c.set("training." + keys[keyword], value)
        else:
            c.drop(f"lr_scheduler_kwargs {keyword}", "the schedule has no such parameter")


def schedule(c):
    kind = c.text("lr_scheduler_type", "linear")
    if kind in SCHEDULES:
        c.set("training.lr_scheduler_type", kind)
        schedule_keywords(c, SCHEDULES[kind])
    else:
        c.drop("lr_scheduler_type", f"\"{kind}\" is not supported: {', '.join(SCHEDULES)}")
    if isinstance(c.settings.get("training.warmup_steps", (0, ""))[0], float):
        c.set("training.warmup_ratio", c.settings.pop("training.warmup_steps")[0], "--warmup_steps below 1 is a share")
    steps, _ = c.settings.get("training.warmup_steps", (0, ""))
    ratio, _ = c.settings.get("training.warmup_ratio", (0.0, ""))
    if kind == "constant" and (steps or ratio):
        c.settings.pop("training.warmup_steps", None)
        c.settings.pop("training.warmup_ratio", None)
        c.drop("warmup", "the constant schedule has no warm-up")
    elif steps and ratio:
        c.settings.pop("training.warmup_ratio")
        c.drop("warmup_ratio", "warmup_steps takes precedence, as in the script")
    if c.settings.get("training.max_steps", (0, ""))[0] > 0:
        if c.settings.pop("training.num_train_epochs", None):
            c.drop("num_train_epochs", "max_steps takes precedence, as in the script")
    else:
        c.settings.pop("training.max_steps", None)  # -1: not given


def training(c):
    optimizer = c.text("optim", "adamw_torch")
    if optimizer == "adafactor":
        c.set("training.optimizer", "adafactor")
        for key in ("adam_beta1", "adam_beta2", "adam_epsilon"):
            if c.settings.pop(f"training.{key}", None):
                c.drop(key, "has no effect with --optim adafactor, as in the script")
    elif optimizer not in ("adamw_torch", "adamw_torch_fused", "adamw_hf"):
        c.drop("optim", "not supported: see training.optimizer")
    on_gaudi = c.converted("use_habana", parse_bool, False)
    if on_gaudi and optimizer != "adafactor" and "training.adam_epsilon" not in c.settings:
        c.set("training.adam_epsilon", 1e-6, "the script's default on Gaudi")
    if c.converted("gradient_checkpointing", parse_bool, False):
        c.set("training.gradient_checkpointing", "full")
    saving = c.text("save_strategy", "steps")
    if saving in ("no", "epoch"):
        c.set("training.save_strategy", saving)
        c.settings.pop("training.save_steps", None)
    elif saving != "steps":
        c.drop("save_strategy", f"\"{saving}\" is not supported: no, steps or epoch")
    evaluating = c.text("eval_strategy", c.text("evaluation_strategy", "no"))
    if evaluating == "steps":
        c.set("training.eval_steps", c.converted("eval_steps", int, c.converted("logging_steps", int, 500)))
    elif evaluating == "epoch":
        c.set("training.eval_strategy", evaluating)
    elif evaluating != "no":
        c.drop("eval_strategy", f"\"{evaluating}\" is not supported: no, steps or epoch")
    elif "eval_steps" in c.flags:
        c.drop("eval_steps", "without --eval_strategy steps the script evaluates only at the end")
    if c.text("logging_strategy", "steps") != "steps":
        c.drop("logging_strategy", "log intervals are counted in updates: see training.logging_steps")
    if "resume_from_checkpoint" in c.flags:
        c.drop("resume_from_checkpoint", "a run resumes from its output folder")


def distributed_and_report(c):
    strategy = c.text("distribution_strategy")
    if strategy in ("fast_ddp", "ddp"):
        c.set("distributed.distribution_strategy", strategy)
        if strategy == "fast_ddp" and c.converted("use_habana", parse_bool, False):
            c.notes.append("Gaudi's fast_ddp sends gradients as bfloat16: for that, set distributed.wire_type = \"bf16\"")
    elif strategy is not None:
        c.drop("distribution_strategy", f"\"{strategy}\" is not supported: fast_ddp, ddp or sharded")
    reports = c.flags.get("report_to")
    if reports is not None:
        c.set("report.tensorboard", "tensorboard" in reports or "all" in reports)
        if "mlflow" in reports:
            c.set("report.tracking", "mlflow", "in mlruns beside the output folder: set report.tracking_dir for another store")
        elif "all" in reports:
            c.notes.append("--report_to all means what is installed beside the script, perhaps MLflow too: for that, set report.tracking = \"mlflow\"")
        others = [r for r in reports if r not in ("tensorboard", "mlflow", "all", "none")]
        if others:
            c.drop("report_to " + " ".join(others), "Bascule writes files for TensorBoard and MLflow, JSON and HTML reports")


def training_script(carried, translated, not_carried, model, data):
    """A script with flags of its own beside the common ones; `model` and `data` are functions of a Conversion that set [model] and [data]."""
    carried = {**carried, **CARRIED}

    def settings(c):
        if not any(c.converted(phase, parse_bool, False) for phase in ("do_train", "do_eval", "do_predict")):
            raise CommandLineError("nothing to do: give --do_train, --do_eval or --do_predict")
        for key, value in SCRIPT_DEFAULTS.items():
            c.set(key, value, "the script's default")
        for phase in ("do_train", "do_eval", "do_predict"):
            c.set("training." + phase, False)
        c.carry(carried)
        model(c)
        precision(c)
        data(c)
        schedule(c)
        training(c)
        distributed_and_report(c)
        if "training.output_dir" not in c.settings:
            raise CommandLineError("--output_dir is missing")

    return Script(carried, TRANSLATED | translated, {**NOT_CARRIED, **NOT_TRAINED, **not_carried}, settings)
