#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Walks the includes of kernels/, firmware_shims/ and src/ and fails on an arrow that goes back.

  tools/check_layers.py [ROOT]

OURS says which files of ours a room may include, THIRD_PARTY where a library may be included; a room may always include
itself. Both are the law: whoever needs a new arrow argues for it here. Tests and tools may include anything.

And fails on a word of one model outside MODEL_PLACES, be it in a comment: the name of a family (a Hugging Face class has it
in its own), the key of a head or of a metric in quotes. The words are read from where they are registered.
"""
import pathlib
import re
import sys

BASE = ["src/base/"]
FILES = [*BASE, "src/files/"]
JSON = [*BASE, "src/json/"]
SETTINGS = ["src/settings/settings.h"]
MEDIA = ["firmware_shims/media_engine.h"]
SEAM = ["firmware_shims/driver.h"]
RESIZE = ["kernels/resize.h"]

def rooms(names):
    """The folders of rooms by their names."""
    return [f"src/{name}/" for name in names.split()]


BELOW_RUN = ["kernels/", *MEDIA, *rooms("base files json machine settings graph plan models runtime index text corpus loader distributed checkpoint logs "
                                        "pictures judge")]
# What a run is recorded of: its model, its data, its ranks.
RECORDED = [*BELOW_RUN, *rooms("update session generate record")]
# A finished model that is asked or checked, not trained: on the session, beside the training run.
ASKED = [*BELOW_RUN, *rooms("answer session generate")]

# Arrows beyond those of the plan, each with its reason.
CONFIG_JSON = ["src/json/"]  # config.json is read by the model that it describes
ACTIVATIONS = ["kernels/activation.h"]  # the enum of activation kinds, which config.json names
ISA = [*SETTINGS, "kernels/"]  # machine.isa, and what this CPU runs, and whose matrix products
ONE_PICTURE = ["src/files/", "src/index/tar_reader.h", "src/loader/media.h"]  # one picture at a time, outside a loader
DRAWS = ["src/base/philox.h", "src/base/elementary.h"]  # a random crop: the same words, exp and log as everywhere
SUMS = ["kernels/bf16.h", "kernels/elementwise.h"]  # argument structs: what is done to numbers that come from other nodes

# First match wins: a place (folder or start of a path) and what it may include of ours, itself not counted.
OURS = [
    ("kernels/", []),
    ("firmware_shims/media_engine.h", []),
    ("firmware_shims/driver.h", MEDIA),
    ("firmware_shims/media_engine.cpp", [*MEDIA, *SEAM]),
    ("firmware_shims/picture_format.cpp", MEDIA),
    ("firmware_shims/codec/", [*MEDIA, *RESIZE, *DRAWS]),
    ("firmware_shims/host/", [*MEDIA, *SEAM, *RESIZE, "firmware_shims/codec/"]),
    ("firmware_shims/companion/", [*MEDIA, *SEAM]),
    ("firmware_shims/hpu_sim/registers.h", []),
    ("firmware_shims/hpu_sim/board.h", []),
    # The driver knows the device by its registers, and by the slot that it sits in. Neither codec nor kernels.
    ("firmware_shims/hpu_sim/driver", [*MEDIA, *SEAM, "firmware_shims/hpu_sim/registers.h", "firmware_shims/hpu_sim/board.h"]),
    ("firmware_shims/hpu_sim/builtin.cpp", ["firmware_shims/hpu_sim/driver.h"]),
    # The device knows nothing of its driver.
    ("firmware_shims/hpu_sim/device", [*MEDIA, *RESIZE, "firmware_shims/codec/", "firmware_shims/hpu_sim/registers.h",
                                       "firmware_shims/hpu_sim/board.h", "firmware_shims/hpu_sim/faults.h"]),
    ("firmware_shims/hpu_sim/faults", [*MEDIA, "firmware_shims/hpu_sim/board.h"]),
    ("firmware_shims/boot/", []),  # a program of its own
    ("src/base/", []),
    # Files that are whole or absent: index, checkpoint and report write them. Not in base, which knows numbers and text, nor in
    # checkpoint, which neither of the others may know.
    ("src/files/", BASE),
    ("src/json/", FILES),
    # The facts of the machine, and their JSON: whoever sizes, places or judges by them asks here.
    ("src/machine/", JSON),
    ("src/settings/", BASE),
    ("src/graph/", [*BASE, "kernels/"]),
    ("src/models/", [*BASE, *SETTINGS, *CONFIG_JSON, *ACTIVATIONS, "src/graph/"]),
    ("src/plan/", [*BASE, "src/graph/"]),
    ("src/runtime/choose_isa", [*BASE, *ISA]),
    ("src/runtime/choose_products", [*BASE, *ISA]),
    ("src/runtime/core_groups", [*BASE, "src/machine/"]),  # which cores share a cache or a node
    ("src/runtime/", [*BASE, "src/graph/", "src/plan/", "kernels/"]),
    # A missing picture may have its name in another Unicode form.
    ("src/index/", [*JSON, *FILES, *SETTINGS, "src/text/unicode_tables.h"]),
    ("src/text/", [*JSON, *FILES]),
    # A corpus is tokenised text that a loader reads samples from; it says where they begin as rows of a manifest.
    ("src/corpus/", [*FILES, "src/index/", "src/text/"]),
    ("src/loader/", [*FILES, *SETTINGS, *MEDIA, "src/index/", "src/text/", "src/corpus/"]),
    ("src/distributed/", [*BASE, *SUMS]),
    ("src/checkpoint/", [*JSON, *FILES, "src/graph/", "kernels/elements.h"]),
    # Written while a run goes on, in fixed memory. The finished run's files and its page are made of them.
    ("src/logs/", [*JSON, *FILES]),
    ("src/answer/", [*JSON, *FILES, "src/logs/"]),
    # Requests and answers as bytes: no JSON, no model, no settings.
    ("src/http/", BASE),
    # Measures with what a run computes with: kernels, threads, products (whose choice is a setting), the picture decoder.
    ("src/bringup/", [*JSON, *FILES, *MEDIA, "kernels/", *rooms("settings machine runtime logs answer")]),
    ("src/pictures/", [*JSON, *SETTINGS, *MEDIA, *ONE_PICTURE]),
    # A judge multiplies embeddings with the threads of the run, reads rows of the manifest, and writes what it leaves.
    ("src/judge/", [*JSON, *FILES, "kernels/gemm/", *rooms("text runtime index checkpoint logs answer")]),
    ("src/update/", [*BASE, *SETTINGS, "kernels/", *rooms("graph plan runtime distributed")]),
    ("src/session/", [*JSON, *FILES, "kernels/", *rooms("graph plan runtime models loader checkpoint distributed update")]),
    # Writes texts with a model's tapes, and draws pictures with a pipeline's: what its folder says of that, the search for tokens, samplers.
    ("src/generate/", [*JSON, *SETTINGS, *rooms("graph runtime models session text")]),
    # The phases of a run: it is recorded, sealed, replayed and finished. The seal makes what replays.
    ("src/record/", ["kernels/isa.h", *MEDIA, *rooms("base files json machine settings graph plan models runtime index text corpus loader distributed checkpoint logs "
                                                     "pictures judge update session generate")]),
    ("src/replay/", rooms("base index loader runtime distributed checkpoint logs judge update session generate record")),
    ("src/seal/", ["kernels/", *rooms("base files json machine settings index text loader runtime distributed checkpoint logs pictures session generate record replay")]),
    # Results, contracts, and the record of a finished run: made of the sealed one or of the pictures, and whether it is there again.
    ("src/finish/", rooms("base files json machine settings plan index runtime distributed checkpoint pictures judge session bringup answer record seal")),
    # Whose a folder is, and whether a run begins, goes on or is over; a table of several runs, from the files in their folders.
    ("src/run_folder/", [*RECORDED, "src/answer/"]),
    # A finished model answers: classes, values, words, texts, the nearest pictures. `draw` is a small run that draws.
    ("src/ask/draw_command", [*ASKED, "src/ask/", *rooms("record replay seal")]),
    ("src/ask/", ASKED),
    # The same over HTTP, in memory that is planned.
    ("src/serve/", [*ASKED, *rooms("ask http")]),
    ("src/verify/", ["kernels/", *rooms("base files json machine settings graph models runtime checkpoint judge update session generate")]),
    # The data of a run before it is trained on: what a run reads, with the figures of a machine's profile.
    ("src/doctor/", [*RECORDED, *rooms("bringup answer")]),
    ("src/commands/", [*RECORDED, *rooms("answer bringup replay seal finish run_folder ask serve verify doctor")]),
]

# A library's headers (a regular expression on the name) and the only places that may include them.
THIRD_PARTY = [
    (r"(oneapi/)?dnnl", ["kernels/gemm/onednn_primitives.", "tests/kernels/onednn_bf16."]),
    (r"(jpeglib|jerror|jmorecfg|jconfig|turbojpeg)\.h", ["firmware_shims/codec/"]),
    (r"webp/.*\.h", ["firmware_shims/codec/"]),
    (r"(png|pngconf|zlib)\.h", ["firmware_shims/codec/", "src/pictures/png_file."]),
    (r"nlohmann/", ["src/json/"]),
    (r"toml\+\+/", ["src/settings/"]),
    (r"xxhash\.h", ["src/base/digest.cpp", "src/settings/", "src/index/", "src/text/", "src/loader/"]),
    (r"hwloc", ["src/distributed/"]),
    (r"Eigen/.*", ["src/base/principal_components."]),
    (r"mpi\.h", ["src/distributed/"]),
    (r"CLI/", ["src/commands/"]),
    (r"boost/beast/http/", ["src/http/request_reader."]),
]

# What an ISA unit may include besides kernels/: an inline function of any other header could become the copy of all.
ISA_UNITS = ("kernels/simd/", "kernels/lanes/")
ISA_HEADERS = {"immintrin.h", "cstddef", "cstdint"}
# What the C header of the media engine may include.
C_HEADERS = {"stdint.h", "stddef.h"}

SYSTEM = re.compile(r"[a-z_0-9]+|c?std[a-z]+\.h|(assert|ctype|errno|fcntl|fnmatch|float|inttypes|limits|math|poll|pthread|sched|semaphore|"
                    r"dirent|link|setjmp|signal|spawn|string|time|unistd|malloc|dlfcn|execinfo|immintrin|cpuid|ifaddrs)\.h|(sys|sys/platform|linux|arpa|net|netinet)/[a-z0-9_]+\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


# Where a word of one model may stand.
MODEL_PLACES = ("kernels/", "src/models/", "src/judge/", "src/graph/operations/")
REGISTERED = [
    # what, where it is registered, how it stands there; what it looks like elsewhere; further places for it
    ("the name of a family", "src/models", r'Family \w+ = \{\s*"(\w+)"', r"(?<![A-Za-z])(?i:{})(?![a-z])", ("src/text/",)),  # kinds of tokenizers have names of models
    ("the key of a head", "src/models", r'(?:\b(?:\w+_)?head\(|Head\[\] = )"(\w+)"', r"""["'`]{}\\?["'`]""", ()),
    ("the key of a metric", "src/judge", r'constexpr Metric k\w+ = \{"(?!precision")(\w+)"', r"""["'`]{}\\?["'`]""", ()),  # precision is a key of [model] as well
]


# Names of families that are also plain words: elsewhere they count as a name in quotes, and at the head of a type's name.
PLAIN_WORDS = {"clip"}


def words_of_models(root):
    """What it is, the regular expression of the words, where they may stand."""
    for what, folder, registered, elsewhere, places in REGISTERED:
        words = sorted({word for file in (root / folder).glob("*.[ch]*") for word in re.findall(registered, file.read_text())})
        plain = [word for word in words if word in PLAIN_WORDS and what == "the name of a family"]
        if plain:
            words = [word for word in words if word not in plain]
            named = "|".join([rf"""["'`]{word}\\?["'`]""" for word in plain] + [rf"(?<![A-Za-z]){word.title()}(?=[A-Z])" for word in plain])
            yield what, re.compile(named), MODEL_PLACES + places
        if words:
            yield what, re.compile(elsewhere.format("(?:" + "|".join(words) + ")")), MODEL_PLACES + places


def problem_of(path, ours, other):
    """The fault of one include of the file `path`, or None. `ours` was written in quotes, `other` in angle brackets."""
    if ours:
        return problem_of_ours(path, ours)
    if path.startswith(ISA_UNITS) and other not in ISA_HEADERS:
        return f"<{other}> in an ISA unit: only <immintrin.h>, <cstddef>, <cstdint> and kernels/"
    if path == MEDIA[0] and other not in C_HEADERS:
        return f"<{other}>: the C header includes <stdint.h> and <stddef.h> only"
    for pattern, places in THIRD_PARTY:
        if re.match(pattern, other):
            return None if path.startswith(tuple(places)) else f"<{other}> is for {', '.join(places)} alone"
    return None if SYSTEM.fullmatch(other) else f"<{other}>: not in the table of libraries"


def problem_of_ours(path, ours):
    if "/" not in ours:
        return f'"{ours}": include ours by its path from the root'
    for place, allowed in OURS:
        if path.startswith(place):
            return None if ours.startswith((place, *allowed)) else f'"{ours}": an arrow that {place} may not have'
    return "a place that the table does not name"


def problems(root):
    model_words = list(words_of_models(root))
    for folder in ("kernels", "firmware_shims", "src"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".c", ".inc"):
                continue
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text().splitlines(), 1):
                for what, pattern, places in model_words:
                    if not path.startswith(places) and (found := pattern.search(line)):
                        yield f"{path}:{number}: {found.group()}: {what}, which src/models and src/judge alone may know"
                include = INCLUDE.match(line)
                problem = problem_of(path, *include.groups()) if include else None
                if problem:
                    yield f"{path}:{number}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent)
    found = list(problems(root))
    print("\n".join(found) or "layers: every arrow points one way")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
