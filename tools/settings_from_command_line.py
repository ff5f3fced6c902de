#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the command line of a training script into a settings file of Bascule: Optimum Habana's run_bridgetower.py, and
run_image_classification.py, run_mlm.py and run_summarization.py of Transformers or Optimum Habana.

    tools/settings_from_command_line.py python gaudi_spawn.py --use_mpi --world_size 8 run_bridgetower.py ... > my.toml
    tools/settings_from_command_line.py < command.sh > my.toml        (quotes, comments and line ends as in a shell)

The settings go to standard output. Standard error names every flag that could not be carried over and why, and what must
be done by hand. A default of the script that differs from Bascule's and changes numbers is written out.
Exit code: 0; 2 if the command line cannot be converted; 6 if the settings cannot be written.
"""
import json
import math
import os
import re
import shlex
import sys

from training_scripts import SCRIPTS, CommandLineError, parse_bool

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
    "warmup_steps": ("training.warmup_steps", int),
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

# Why a flag has no counterpart.
NOT_CARRIED = {
    "overwrite_output_dir": "a run resumes from its output folder: empty the folder to start again",
    "remove_unused_columns": "only the columns named in the settings are read",
    "use_lazy_mode": "specific to Gaudi",
    "use_hpu_graphs_for_inference": "specific to Gaudi; Bascule always records tapes",
    "use_hpu_graphs_for_training": "specific to Gaudi; Bascule always records tapes",
    "use_hpu_graphs": "specific to Gaudi; Bascule always records tapes",
    "non_blocking_data_copy": "specific to Gaudi",
    "sdp_on_bf16": "specific to Gaudi",
    "mediapipe_dataloader": "the media engine is chosen at build time (-Dmedia_engine=...)",
    "adjust_throughput": "throughput includes loading and updates; evaluation and saving are reported separately",
    "push_to_hub": "Bascule uploads nothing; the output folder can be uploaded unchanged",
    "dataloader_pin_memory": "batches use memory reserved before the first step",
    "dataloader_prefetch_factor": "see data.ring_slots",
    "cache_dir": "files are read from the paths in the settings",
    "max_train_samples": "shorten the manifest instead",
    "max_eval_samples": "shorten the manifest instead",
    "max_predict_samples": "shorten the manifest instead",
    "config_name": "config.json is read from the model folder",
    "image_processor_name": "preprocessor_config.json is read from the model folder",
    "data_seed": "training.seed determines order, dropout and masks",
    "use_mpi": "ranks are always started through MPI",
    "use_deepspeed": "see distributed.distribution_strategy = \"sharded\"",
    "master_port": "ranks need no port",
    "push_to_hub_model_id": "Bascule uploads nothing",
    "use_auth_token": "Bascule downloads nothing",
    "token": "Bascule downloads nothing",
    "model_revision": "Bascule downloads nothing: copy the revision that you want",
    "no_cuda": "Bascule runs on the CPU",
    "use_cpu": "Bascule runs on the CPU",
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

TABLES = ("model", "data", "training", "generation", "distributed", "report")


class Conversion:
    """The flags still to be used, the settings found so far, and what is to be said."""

    def __init__(self, flags):
        self.flags = flags
        self.settings = {}   # key of ours -> (value, comment)
        self.dropped = []    # (flag, reason)
        self.notes = []

    def set(self, key, value, comment=""):
        self.settings[key] = (value, comment)

    def drop(self, flag, reason):
        self.dropped.append((flag, reason))

    def text(self, flag, default=None):
        values = self.flags.get(flag)
        if values is None:
            return default
        if len(values) != 1 or not values[0]:
            raise CommandLineError(f"--{flag} {' '.join(values)}".rstrip() + ": one value is wanted")
        return values[0]

    def converted(self, flag, kind, default=None):
        if kind is parse_bool and self.flags.get(flag) == []:
            return True
        text = self.text(flag)
        if text is None:
            return default
        try:
            value = kind(text)
            if kind is float and not math.isfinite(value):
                raise ValueError
            return value
        except ValueError:
            wanted = {int: "an integer", float: "a number", parse_bool: "true or false"}[kind]
            raise CommandLineError(f"--{flag} {text}: {wanted} is wanted") from None


def words(text):
    """As a shell would split it: quotes, comments, and backslashes that join lines."""
    return shlex.split(re.sub(r"\\\r?\n", " ", text), comments=True)


def split_flags(tokens):
    """--flag value ..., --flag=value, --flag -> {flag: [values]}; a later one replaces an earlier one."""
    flags, current = {}, None
    for token in tokens:
        if token.startswith("--") and len(token) > 2:
            name, equals, value = token[2:].partition("=")
            name = name.replace("-", "_")
            if name.startswith("no_") and name not in NOT_CARRIED and not equals:
                flags[name[3:]] = ["False"]  # the script's parser makes --no_x for flags that are on by default
                current = None
                continue
            flags[name] = [value] if equals else []
            current = None if equals else name
        elif current is None:
            raise CommandLineError(f"\"{token}\" belongs to no flag")
        else:
            flags[current].append(token)
    return flags


def whole_names(flags, known):
    """The flags with their whole names: as in the script, the beginning of a name stands for the only one that begins so."""
    found = {}
    for flag, values in flags.items():
        longer = [name for name in known if name.startswith(flag)]
        found[longer[0] if flag not in known and len(longer) == 1 else flag] = values
    return found


def without_inner_quotes(flags):
    """gaudi_spawn.py hands the words to another shell, which takes away quotes that the first one leaves."""
    return {flag: [value[1:-1] if re.fullmatch(r'".*"', value) else value for value in values] for flag, values in flags.items()}


def read_launcher(tokens, conversion):
    """The words before the script: environment, Python, gaudi_spawn.py, torchrun or mpirun."""
    ranks = None
    expects = None
    for token in tokens:
        name, equals, value = token.partition("=")
        flag = name.lstrip("-").replace("-", "_")
        if expects:
            value, equals, flag, expects = token, "=", expects, None
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and equals:
            conversion.drop(name, "an environment variable")
            continue
        elif not token.startswith("-"):
            continue  # a program or the value of a flag that has been named already
        if flag in ("world_size", "nproc_per_node", "n", "np", "hostfile"):
            if not equals:
                expects = flag
            elif flag == "hostfile":
                conversion.set("distributed.hostfile", value, "of the launcher")
            elif not value.isdigit():
                raise CommandLineError(f"{flag} {value}: a number of processes is wanted")
            else:
                ranks = int(value)
        elif flag != "m":
            conversion.drop(token, NOT_CARRIED.get(flag, "a setting of the launcher"))
    if ranks is not None:
        conversion.set("distributed.world_size", ranks, "processes that the launcher starts")


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
    if c.text("optim", "adamw_torch") not in ("adamw_torch", "adamw_torch_fused", "adamw_hf"):
        c.drop("optim", "not supported: see training.optimizer")
    on_gaudi = c.converted("use_habana", parse_bool, False)
    if on_gaudi and "training.adam_epsilon" not in c.settings:
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
        others = [r for r in reports if r not in ("tensorboard", "all", "none")]
        if others:
            c.drop("report_to " + " ".join(others), "Bascule writes TensorBoard, JSON and HTML reports")


def convert(tokens):
    """A command line in words -> Conversion."""
    at = next((i for i, token in enumerate(tokens) if os.path.basename(token) in SCRIPTS), None)
    if at is None:
        raise CommandLineError(f"there is none of {', '.join(SCRIPTS)} in this command line")
    script = SCRIPTS[os.path.basename(tokens[at])]
    carried = {**script.carried, **CARRIED}
    flags = whole_names(split_flags(tokens[at + 1:]), {*carried, *TRANSLATED, *NOT_CARRIED, *script.translated, *script.not_carried})
    c = Conversion(without_inner_quotes(flags) if "gaudi_spawn.py" in map(os.path.basename, tokens[:at]) else flags)
    read_launcher(tokens[:at], c)
    if not any(c.converted(phase, parse_bool, False) for phase in ("do_train", "do_eval", "do_predict")):
        raise CommandLineError("nothing to do: give --do_train, --do_eval or --do_predict")
    for key, value in SCRIPT_DEFAULTS.items():
        c.set(key, value, "the script's default")
    for phase in ("do_train", "do_eval", "do_predict"):
        c.set("training." + phase, False)
    for flag, (key, kind) in carried.items():
        if flag in c.flags:
            c.set(key, c.converted(flag, kind))
    script.model(c)
    precision(c)
    script.data(c)
    schedule(c)
    training(c)
    distributed_and_report(c)
    if "training.output_dir" not in c.settings:
        raise CommandLineError("--output_dir is missing")
    for flag in c.flags:
        if flag not in carried and flag not in TRANSLATED and flag not in script.translated:
            hub = "Bascule uploads nothing" if flag.startswith("hub_") else "no such setting"
            c.drop(flag, script.not_carried.get(flag, NOT_CARRIED.get(flag, hub)))
    return c


def toml_value(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(toml_value(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)


def toml(conversion):
    lines = ["# Made by tools/settings_from_command_line.py. Relative paths are taken from this file's folder."]
    for table in TABLES:
        keys = [key for key in conversion.settings if key.startswith(table + ".")]
        if keys:
            lines += ["", f"[{table}]"]
        for key in keys:
            value, comment = conversion.settings[key]
            lines.append(f"{key.split('.')[1]} = {toml_value(value)}" + (f"  # {comment}" if comment else ""))
    return "\n".join(lines) + "\n"


def main(arguments):
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0
    if arguments and arguments[0] == "--":
        arguments = arguments[1:]
    try:
        if not arguments:
            arguments = words(sys.stdin.read())
        elif len(arguments) == 1:
            arguments = words(arguments[0])
        conversion = convert(arguments)
        text = toml(conversion).encode()
    except UnicodeError:
        print("settings_from_command_line: the command line is not UTF-8", file=sys.stderr)
        return 2
    except (CommandLineError, ValueError) as error:
        print(f"settings_from_command_line: {error}", file=sys.stderr)
        return 2
    try:
        with open(1, "wb", closefd=False) as out:
            out.write(text)
    except OSError as error:
        print(f"settings_from_command_line: standard output: {error.strerror}", file=sys.stderr)
        return 6
    for flag, reason in conversion.dropped:
        name = flag if flag.startswith("-") or flag.isupper() else "--" + flag
        print(f"not carried over: {name}: {reason}", file=sys.stderr)
    for note in conversion.notes:
        print(f"to do: {note}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
