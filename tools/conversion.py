# SPDX-License-Identifier: Apache-2.0
"""What tools/settings_from_command_line.py knows while it converts a command line, and how it describes a script."""
import collections
import math
import os
import re

# carried: {flag: (key of Bascule, type)}, one key each. translated: flags that `settings` reads. not_carried: {flag: reason}.
# settings: a function of a Conversion, which adds the settings that the script's flags and defaults amount to.
Script = collections.namedtuple("Script", "carried translated not_carried settings")

# Why a flag of any script has no counterpart.
NOT_CARRIED = {
    "use_lazy_mode": "specific to Gaudi",
    "use_hpu_graphs": "specific to Gaudi; Bascule always records tapes",
    "non_blocking_data_copy": "specific to Gaudi",
    "sdp_on_bf16": "specific to Gaudi",
    "push_to_hub": "Bascule uploads nothing; the output folder can be uploaded unchanged",
    "cache_dir": "files are read from the paths in the settings",
    "use_mpi": "ranks are always started through MPI",
    "master_port": "ranks need no port",
    "use_auth_token": "Bascule downloads nothing",
    "token": "Bascule downloads nothing",
    "model_revision": "Bascule downloads nothing: copy the revision that you want",
    "no_cuda": "Bascule runs on the CPU",
    "use_cpu": "Bascule runs on the CPU",
}


class CommandLineError(Exception):
    pass


def whole_or_share(text):
    """Steps, or as Transformers 5 takes them, a share of all steps below 1."""
    value = float(text)
    if 0 < value < 1:
        return value
    if not value.is_integer():
        raise ValueError
    return int(value)


def parse_bool(text):
    if text.lower() in ("true", "1", "yes", "y", "t"):
        return True
    if text.lower() in ("false", "0", "no", "n", "f"):
        return False
    raise ValueError("not true or false")


class Conversion:
    """The flags still to be used, the settings found so far, and what is to be said."""

    def __init__(self, flags):
        self.flags = flags
        self.settings = {}   # key of ours -> (value, comment)
        self.dropped = []    # (flag, reason)
        self.notes = []

    def set(self, key, value, comment=""):
        self.settings[key] = (value, comment)

    def carry(self, carried):
        """{flag: (key, type)}: the flags given, each as a key of its own."""
        for flag, (key, kind) in carried.items():
            if flag in self.flags:
                self.set(key, self.converted(flag, kind))

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
            wanted = {int: "an integer", float: "a number", parse_bool: "true or false", whole_or_share: "an integer, or a share below 1,"}[kind]
            raise CommandLineError(f"--{flag} {text}: {wanted} is wanted") from None


def place_of(c, name, whole):
    """The folder of a model that is named as on the hub or by its path; whole: of the hub only with its owner."""
    named_as_on_hub = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+" if whole else r"([\w-][\w.-]*/)?[\w.-]+", name)
    is_of_hub = named_as_on_hub and not os.path.isdir(name)
    if not is_of_hub:
        return name, ""
    folder = "models/" + name.split("/")[-1]
    note = f"copy the files of huggingface.co/{name} to {folder} beside the settings file"
    if note not in c.notes:
        c.notes.append(note)
    return folder, f"a copy of huggingface.co/{name}"
