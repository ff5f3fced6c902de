#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the command line of a script into a settings file of Bascule: run_image_classification.py, run_mlm.py, run_glue.py,
run_classification.py, run_ner.py and run_summarization.py of Transformers or Optimum Habana, run_bridgetower.py and text_to_image_generation.py of Optimum Habana.

    tools/settings_from_command_line.py python gaudi_spawn.py --use_mpi --world_size 8 run_bridgetower.py ... > my.toml
    tools/settings_from_command_line.py < command.sh > my.toml        (quotes, comments and line ends as in a shell)

The settings go to standard output. Standard error names every flag that could not be carried over and why, and what must
be done by hand. A default of the script that differs from Bascule's and changes numbers is written out.
Exit code: 0; 2 if the command line cannot be converted; 6 if the settings cannot be written.
"""
import json
import os
import re
import shlex
import sys

import drawing_scripts
import training_scripts
from conversion import CommandLineError, Conversion

SCRIPTS = {**training_scripts.SCRIPTS, **drawing_scripts.SCRIPTS}
TABLES = ("model", "draw", "data", "training", "generation", "distributed", "report")


def words(text):
    """As a shell would split it: quotes, comments, and backslashes that join lines."""
    return shlex.split(re.sub(r"\\\r?\n", " ", text), comments=True)


def split_flags(tokens, known):
    """--flag value ..., --flag=value, --flag -> {flag: [values]}; a later one replaces an earlier one."""
    flags, current = {}, None
    for token in tokens:
        if token.startswith("--") and len(token) > 2:
            name, equals, value = token[2:].partition("=")
            name = name.replace("-", "_")
            if name.startswith("no_") and name not in known and not equals:
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


def read_launcher(tokens, not_carried, conversion):
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
            conversion.drop(token, not_carried.get(flag, "a setting of the launcher"))
    if ranks is not None:
        conversion.set("distributed.world_size", ranks, "processes that the launcher starts")


def convert(tokens):
    """A command line in words -> Conversion."""
    at = next((i for i, token in enumerate(tokens) if os.path.basename(token) in SCRIPTS), None)
    if at is None:
        raise CommandLineError(f"there is none of {', '.join(SCRIPTS)} in this command line")
    script = SCRIPTS[os.path.basename(tokens[at])]
    known = {*script.carried, *script.translated, *script.not_carried}
    flags = whole_names(split_flags(tokens[at + 1:], known), known)
    c = Conversion(without_inner_quotes(flags) if "gaudi_spawn.py" in map(os.path.basename, tokens[:at]) else flags)
    read_launcher(tokens[:at], script.not_carried, c)
    script.settings(c)
    for flag in c.flags:
        if flag not in script.carried and flag not in script.translated:
            c.drop(flag, script.not_carried.get(flag, "Bascule uploads nothing" if flag.startswith("hub_") else "no such setting"))
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
