# SPDX-License-Identifier: Apache-2.0
"""The members of every document that a command prints with --json and of every file that a run leaves: none goes, comes or has another type, unless tests/data/members.json says so.

That file has one object for each kind of document. "documents" names those of the kind, after what leaves or prints it; each further line is a member with its types, and the documents
that have it. [] stands for the elements of an array, * for names that are data: of files, tensors, classes, keys of the settings; "or absent" says that other objects at the place lack it.

After a change that is meant to change members, write the file anew and read its diff:

  BASCULE_RECORD_MEMBERS=1 tools/run_tests build tests/faults/test_members.py
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import unittest.mock

import bascule_run
from bascule_run import EMOJI, PROGRAM, has_mpi, patient, run, run_ok, wait_for
from drawing import PIPELINES, drawing
from run_files import fields
from small_run import DATA, ROWS, small_settings, write_rows
from test_draw import texts_of
from test_killed_families import HEADS, prepared

RECORD = DATA / "members.json"
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
SETTINGS, DATA_ERROR, MEMORY, NOT_AS_RECORDED = 2, 3, 4, 7
# "kind: member", with what names the members of the object there.
NAMED_BY_DATA = {
    "MLflow: params": "settings", "bascule settings: settings": "settings", "bascule list: runs[].settings": "settings", "bascule.json: record.settings": "settings",
    "bascule_state.json: files": "files", "config.json: id2label": "classes", "config.json: label2id": "classes",
}
# "kind: member" that the machine or the time decides, with the reason. Of the first, and of what is in them, types are not compared;
NOT_KNOWN, LOADED_BEFORE = "null where the kernel does not tell it", "null, or left out, where the steps took samples that had been loaded before"
ANY_TYPE = {
    "bascule.json: record.machine": NOT_KNOWN, "bascule bringup: machine": NOT_KNOWN, "bascule bringup: large_page_share": NOT_KNOWN,
    "bascule bringup: far_memory_share": "null where the cores are of one memory node",
    **{place: LOADED_BEFORE for place in ("bascule bench: loader_samples_per_second", "bascule bench: columns[].loader_samples_per_second",
                                          "all_results.json: loader_could_deliver_samples_per_second", "train_results.json: loader_could_deliver_samples_per_second")},
}
# these may be empty arrays;
MAY_BE_EMPTY = {
    **{f"{document}.{array}": "what the kernel does not list" for document in ("bascule.json: record.machine", "bascule bringup: machine")
       for array in ("caches", "cores", "counters.cores", "counters.groups", "groups", "kernel.mitigations", "nodes")},
    "bascule bringup: figures[].judgement.causes": "a disturbed figure may have no known cause",
}
# these are not compared, nor what is in them.
NOT_COMPARED = {"events.out.tfevents.*: loader/could_deliver_samples_per_second": LOADED_BEFORE}
COPIED = {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"}  # as they were in the model's folder

BRIEF = {"training__max_steps": "2", "training__save_steps": "2", "training__logging_steps": "1", "training__eval_strategy": '"steps"', "training__eval_steps": "1", "training__per_device_train_batch_size": "4",
         "training__per_device_eval_batch_size": "8", "data__max_eval_samples": "6", "data__max_predict_samples": "6", "machine__threads": "1"}
EVALUATED = {f"data__{split}_file": f'"{EMOJI}/{split}.jsonl"' for split in ("validation", "test")}
WITHOUT_TEST_AND_VALIDATION = {"data__max_eval_samples": None, "data__max_predict_samples": None, "training__eval_strategy": None, "training__eval_steps": None}
# By the name of their documents: model and keys of a run.
RUNS_OF_BRIDGETOWER = {
    "contrastive": ("itc_add", WITHOUT_TEST_AND_VALIDATION),
    "every instrument": ("itc_add", {**EVALUATED, "training__save_steps": "1", "training__ema_decay": "0.5", "training__load_best_model_at_end": "true", "report__hash_steps": "1", "report__profile": "true",
                                     "report__tracking": '"mlflow"', "report__mlperf_log": '"Example"', "report__status_seconds": "0.001", "training__groups": '[{match = "cross_modal*", weight_decay = 0.5}]'}),
    "matching": ("itm_scaled_add", {**EVALUATED, "model__head": '"image_text_matching"', "data__train_file": '"bad.jsonl"', "data__on_bad_sample": '"skip"'}),
    "masked words": ("mlm_tied", {**EVALUATED, "model__head": '"masked_lm"', "model__precision": '"bf16"'}),
    "two ranks": ("itc_add", {**EVALUATED, "distributed__world_size": "2", "training__per_device_train_batch_size": "2"}),
    "device": ("itc_add", {**WITHOUT_TEST_AND_VALIDATION, "media_engine.simulation__units": "1", "media_engine.simulation__faults": '["corrupted_completion@2"]'}),
    "evaluation alone": ("itc_add", {**EVALUATED, "training__do_train": "false", "data__train_file": None}),
}
RUNS_OF_FAMILIES = {
    "ViT": {**HEADS["token"], "data__test_file": f'"{DATA}/emoji-classes/test.jsonl"'},
    "pooled ViT": {**HEADS["pooled"], "data__test_file": '"no_labels.jsonl"'},
    "DeiT": {**HEADS["DeiT with teacher"], "data__test_file": f'"{DATA}/emoji-classes/test.jsonl"'},
    "BERT": {**HEADS["masked_lm"], "data__test_file": f'"{DATA}/text-corpus/validation.txt"'},
    "pairs of BERT": {**HEADS["pretraining"], "data__test_file": f'"{DATA}/text-corpus/validation.txt"'},
    "RoBERTa": HEADS["masked_lm of RoBERTa"],
    "classes of texts": {**HEADS["sequence_classification"], "data__test_file": HEADS["sequence_classification"]["data__train_file"]},
    "values of texts": {**HEADS["sequence_classification of DistilBERT, values of pairs"], "data__test_file": '"values.jsonl"'},
    "tags of words": HEADS["token_classification"],
    "T5": {**HEADS["conditional_generation, with texts"], "generation__max_new_tokens": "3"},
}


def typed(values, has_data=lambda path: False, path=""):
    """{path: types} of all values that stand at one place."""
    found = {path: {TYPES[type(value)] for value in values}}
    objects = [value for value in values if isinstance(value, dict)]
    if has_data(path):
        objects = [{"*": member} for value in objects for member in value.values()]
    for name in {name for value in objects for name in value}:
        members, place = [value[name] for value in objects if name in value], f"{path}.{name}" if path else name
        found.update(typed(members, has_data, place))
        if len(members) < len(objects):
            found[place].add("absent")
    elements = [element for value in values if isinstance(value, list) for element in value]
    if elements:
        found.update(typed(elements, has_data, f"{path}[]"))
    return found


def is_within(place, tops):
    return any(place == top or place.startswith((f"{top}.", f"{top}[")) for top in tops)


def members_of(kind, values):
    """{member: types}, as they are compared."""
    found = {}
    for path, types in typed(values, lambda path: f"{kind}: {path}" in NAMED_BY_DATA).items():
        place = f"{kind}: {path}"
        if path and not is_within(place, NOT_COMPARED):
            found[path] = "any" if is_within(place, ANY_TYPE) else " or ".join(sorted(types, key=lambda one: (one == "absent", one)))
    return found


def as_lines(found):
    """{kind: {document: {member: types}}} in the form of the file."""
    text = {}
    for kind, documents in sorted(found.items()):
        have = {}
        for name, members in documents.items():
            for member, types in members.items():
                have.setdefault(f"{member}: {types}", set()).add(name)
        text[kind] = {"documents": ", ".join(sorted(documents))}
        for line, names in sorted(have.items()):
            others = sorted(set(documents) - names)
            text[kind][line] = "all" if not others else "all but " + ", ".join(others) if len(others) < len(names) else ", ".join(sorted(names))
    return text


def of_lines(text):
    found = {}
    for kind, lines in text.items():
        names = lines.pop("documents").split(", ")
        found[kind] = {name: {} for name in names}
        for line, having in lines.items():
            member, types = line.rsplit(": ", 1)
            but = having.removeprefix("all but ").split(", ")
            for name in names if having == "all" else [name for name in names if name not in but] if having.startswith("all but ") else having.split(", "):
                found[kind][name][member] = types
    return found


def is_in_empty_array(place, places):
    return any(place.startswith(f"{array}[]") and f"{array}[]" not in places for array in MAY_BE_EMPTY)


def differences(recorded, found):
    """A line for each, with the documents that it is in."""
    lines = []
    for kind in sorted({**recorded, **found}):
        before, now, said = recorded.get(kind, {}), found.get(kind, {}), {}
        for name in sorted({**before, **now}):
            if name not in before or name not in now:
                said.setdefault("the document is " + ("new" if name in now else "missing"), []).append(name)
                continue
            for member in sorted({**before[name], **now[name]}):
                was, types = before[name].get(member), now[name].get(member)
                if was != types and not is_in_empty_array(f"{kind}: {member}", {f"{kind}: {one}" for one in now[name]}):
                    said.setdefault(f"{member} ({was}) is missing" if types is None else f"{member} ({types}) is new" if was is None else f"{member} is {types}, was {was}", []).append(name)
        lines += [f"{kind} of {', '.join(names)}: {what}" for what, names in said.items()]
    return lines


def tensorboard_tags(path):
    data, at, tags = path.read_bytes(), 0, set()
    while at < len(data):
        size = int.from_bytes(data[at:at + 8], "little")
        for _, value in fields(dict(fields(data[at + 12:at + 12 + size])).get(5, b"")):
            tags.add(dict(fields(value))[1].decode())
        at += 16 + size
    return dict.fromkeys(tags, "")


def values_of(path):
    """What a file holds as JSON values, or None of a file without members."""
    name, data = path.name, path.read_bytes()
    if name.endswith(".json"):
        return None if name in COPIED else [json.loads(data)]
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in data.splitlines()]
    if name.endswith(".safetensors"):
        return [json.loads(data[8:8 + int.from_bytes(data[:8], "little")]).get("__metadata__", {})]
    if name.endswith(".png"):
        return [texts_of(path)[0]]
    if name == "tensor_hashes.bin":
        return [json.loads(data.split(b"\n")[0])]
    if name == "bascule.prom":
        return [dict.fromkeys(re.findall(r"(?m)^(\w+(?:\{\w+=)?)", data.decode()), 0)]
    if name == "mlperf_log.txt":
        return [{**line, "key": {line["key"]: line["value"]}} for line in map(json.loads, re.findall(":::MLLOG (.*)", data.decode()))]
    return [tensorboard_tags(path)] if ".tfevents." in name else None


class Members(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name).resolve()
        cls.found, cls.toml = {}, {}
        cls.train()
        cls.stop()
        cls.draw()
        cls.ask_models()
        cls.look_at_runs()
        cls.look_before_a_run()
        cls.measure()
        cls.fail_to_do()

    @classmethod
    def add(cls, kind, name, values):
        cls.found.setdefault(kind, {})[name] = members_of(kind, values)

    @classmethod
    def printed(cls, name, command, *words, code=0, kind=None, **options):
        """The document that a command prints."""
        done = run(command, *words, **options)
        assert done.returncode == code, (command, words, done.returncode, done.stdout, done.stderr)
        document = json.loads(done.stdout)
        cls.add(kind or f"bascule {command}", name, [document])
        return document

    @classmethod
    def left(cls, name, folder):
        """What is in a run's folder. Numbers in names stand for any, and a file of the same name in checkpoint-N and ema has the same members."""
        files = {}
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            place = re.sub(r"(?<=tfevents\.).*|\d{5}(?=\.png)|(?<=checkpoint-)\d+|(?<=tokens-)[0-9a-f]+", "*", str(path.relative_to(folder)))
            files.setdefault(place, []).append(path)
        cls.add("files of a run", name, [dict.fromkeys(files, "")])
        values = {}
        for place, paths in files.items():
            for of_file in filter(None, map(values_of, paths)):
                values.setdefault(place.rsplit("/", 1)[-1], []).extend(of_file)
        for kind, of_kind in values.items():
            cls.add(kind, name, of_kind)

    @classmethod
    def new_folder(cls, name):
        folder = cls.folder / name.replace(" ", "-")
        folder.mkdir()
        return folder

    @classmethod
    def run_of(cls, name):
        return cls.toml[name].parent / "run"

    @classmethod
    def finished(cls, name, toml):
        cls.toml[name] = toml
        with unittest.mock.patch.object(bascule_run, "PROGRAM", PROGRAM.parent / "tests" / "bascule_hpu_sim" if name == "device" else PROGRAM):
            done = run_ok("run", toml, "--json")
        assert json.loads(done.stdout) == json.loads((cls.run_of(name) / "all_results.json").read_text()), name
        cls.left(name, cls.run_of(name))

    @classmethod
    def train(cls):
        for name, (model, changes) in RUNS_OF_BRIDGETOWER.items():
            if name != "two ranks" or has_mpi():
                folder = cls.new_folder(name)
                (folder / "cut.jpg").write_bytes((DATA / "run_goldens" / ROWS[3]["image"]).read_bytes()[:300])
                write_rows(folder / "bad.jsonl", [{**row, "image": str(folder / "cut.jpg")} if at % 2 else row for at, row in enumerate(ROWS)])
                cls.finished(name, small_settings(folder, model, **{**BRIEF, **changes}))
        store = cls.folder / "every-instrument" / "mlruns" / "0"
        tracked = next(path for path in store.iterdir() if path.is_dir())
        meta = [dict(line.split(": ", 1) for line in file.read_text().splitlines()) for file in (store / "meta.yaml", tracked / "meta.yaml")]
        cls.add("MLflow", "every instrument", [{"experiment": meta[0], "run": meta[1], **{part: {file.name: "" for file in (tracked / part).rglob("*") if file.is_file()} for part in ("metrics", "tags", "params")}}])
        for name, changes in RUNS_OF_FAMILIES.items():
            folder = cls.new_folder(name)
            write_rows(folder / "no_labels.jsonl", [{"image": row["image"]} for row in ROWS])
            cls.finished(name, prepared(folder, {**changes, **BRIEF}))

    @classmethod
    def stop(cls):
        """A run that a signal stops, and that `bascule stop` ends early."""
        toml = small_settings(cls.new_folder("stopped"), training__max_steps="100000", training__save_steps="0", report__status_seconds="0.001", machine__threads="1")
        cls.toml["stopped"] = toml
        log = cls.run_of("stopped") / "log.jsonl"
        for name, slots in (("stopped", 3), ("ended early", 4)):
            lines = log.read_text().count("\n") if log.exists() else 0
            with subprocess.Popen([str(PROGRAM), "run", str(toml), "--json", f"data.ring_slots={slots}"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                wait_for(lambda: process.poll() is not None or log.exists() and log.read_text().count("\n") > lines + 1)
                if name == "stopped":
                    process.send_signal(signal.SIGTERM)
                else:
                    run("stop", cls.run_of("stopped"))
                document = json.loads(process.communicate(timeout=patient(60))[0])
            cls.left(name, cls.run_of("stopped"))
            if name == "stopped":
                cls.add("error", name, [document])
                cls.printed(name, "list", cls.folder / "stopped", "--json")

    @classmethod
    def draw(cls):
        for name, tables in (("drawing", ""), *[("drawing on two ranks", "[distributed]\nworld_size = 2\n")] * has_mpi()):
            cls.finished(name, drawing(cls.new_folder(name), tables=tables + "[machine]\nthreads = 1\n[report]\nstatus_seconds = 0.001\n"))

    @classmethod
    def ask_models(cls):
        picture, broken = EMOJI / "images" / "1f004.jpg", cls.folder / "broken.jpg"
        broken.write_bytes(b"no picture")
        found = cls.run_of("every instrument")
        cls.printed("text", "search", found, "a cat", "--json")
        cls.printed("picture", "search", found, "--picture", picture, "--json")
        images = cls.new_folder("images")
        shutil.copy(picture, images)
        cls.printed("images", "search", found, "a cat", "--images", images, "--json")
        cls.printed("pictures", "classify", cls.run_of("ViT"), picture, broken, "--json", code=DATA_ERROR)
        cls.printed("classes", "classify", cls.run_of("classes of texts"), "a cat", "a dog", "--json")
        cls.printed("values", "classify", cls.run_of("values of texts"), "a cat", "a dog", "--json")
        cls.printed("tags", "classify", cls.run_of("tags of words"), "a cat and a dog with a hat", "--json")
        cls.printed("texts", "embed", cls.run_of("BERT"), "a cat", "a dog", "--json")
        cls.printed("BERT", "fill", cls.run_of("BERT"), "a [MASK] of", "--json")
        cls.printed("texts", "generate", cls.run_of("T5"), "a cat", "a dog", "--json")
        cls.printed("picture", "draw", PIPELINES / "sd_v1", "a cat", "--steps", 1, "--output", cls.folder / "a.png", "--json")
        cls.printed("texts", "tokenize", "--model", DATA / "tokenizer" / "wordpiece", input='["a cat", "a dog"]')
        cls.printed("ids", "tokenize", "--decode", "--model", DATA / "tokenizer" / "unigram", input="[[5, 6]]")
        done = run("decode", picture, broken, "--output", cls.folder / "p.safetensors")
        cls.add("bascule decode", "pictures", [json.loads(line) for line in done.stdout.splitlines()])
        cls.add("bascule decode --output", "pictures", values_of(cls.folder / "p.safetensors"))

    @classmethod
    def look_at_runs(cls):
        cls.printed("runs", "list", cls.folder, "--json")
        for name in ("every instrument", "drawing"):
            again = cls.folder / f"{name}-again"
            cls.printed(f"{name} checked", "reproduce", cls.run_of(name), "--check", "--json")
            cls.printed(f"{name} repeated", "reproduce", cls.run_of(name), "--output", again, "--json")
            cls.printed(f"{name} equal", "diff", cls.run_of(name), again, "--json")
            toml = cls.toml[name]
            toml.write_text(toml.read_text().replace("learning_rate = 1e-3", "learning_rate = 1e-4").replace("num_inference_steps = 2", "num_inference_steps = 3"))
            cls.printed(f"{name} changed", "reproduce", cls.run_of(name), "--check", "--json", code=NOT_AS_RECORDED)
            other = cls.folder / f"{name}-other"
            run_ok("run", toml, f"{'draw' if name == 'drawing' else 'training'}.output_dir={other}")
            cls.printed(f"{name} different", "diff", cls.run_of(name), other, "--json", code=NOT_AS_RECORDED)

    @classmethod
    def look_before_a_run(cls):
        cls.printed("keys", "settings", "--json")
        cls.printed("keys before resuming", "settings", "--resume", "--json")
        for name in ("every instrument", "ViT", "classes of texts", "values of texts", "T5", "drawing"):
            cls.printed(name, "settings", cls.toml[name], "--json")
            cls.printed(name, "plan", cls.toml[name], "--inputs", *([] if name == "drawing" else ["--frontier"]), "--json")
            cls.printed(name, "doctor", cls.toml[name], "--json", "--list", cls.folder / "list.jsonl")
            cls.add("doctor --list", name, values_of(cls.folder / "list.jsonl"))
        for name in ("every instrument", "drawing"):
            cls.printed(f"{name} too large", "plan", cls.toml[name], "--memory-gib", "0.01", "--json", code=MEMORY)
        if has_mpi():
            cls.printed("two ranks", "plan", cls.toml["two ranks"], "--json")

    @classmethod
    def measure(cls):
        profile = cls.folder / "machine.json"
        cls.printed("bits", "verify", "--bits", "--threads", 1, "--json")
        cls.printed("cases", "verify", DATA / "more_goldens" / "bert_sequence_classes", PIPELINES / "sd_v1", "--threads", 1, "--json")
        cls.printed("cases in bf16", "verify", DATA / "more_goldens" / "bert_tokens", "--precision", "bf16", "--threads", 1, "--json")
        one_core = {"preexec_fn": lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])}
        cls.printed("saved", "bringup", "--quick", "--only", "clock,bits", "--save", profile, "--json", **one_core)
        document = json.loads(profile.read_text())
        cls.add("bascule bringup", "--save", [document])
        for figure in document["figures"]:  # as of a machine that is ten times as fast
            figure["rounds"] = [10 * most for most in figure["rounds"]]
        profile.write_text(json.dumps(document))
        cls.add("bascule bringup", "--against", [json.loads(run("bringup", "--quick", "--only", "clock", "--against", profile, "--json", **one_core).stdout)])
        for item, name, unit in (("products", "float32 768 x 768", "GFLOP/s"), ("products", "float32 3072 x 768", "GFLOP/s"), ("memory", "copy", "GB/s")):
            document["figures"] += [{**document["figures"][0], "item": item, "name": name, "place": place, "unit": unit} for place in ("all cores", "core 0")]
        profile.write_text(json.dumps(document))
        cls.printed("with a profile", "doctor", cls.toml["contrastive"], "--profile", profile, "--json")
        brief = ["--steps", 1, "--warmup", 0, "--json"]
        cls.printed("train", "bench", cls.toml["contrastive"], "--batch", "2,4", *brief)
        cls.printed("draw", "bench", cls.toml["drawing"], "--batch", "1,2", *brief)

    @classmethod
    def fail_to_do(cls):
        missing = cls.folder / "missing"
        for command, *words in (["run", missing], ["plan", missing], ["doctor", missing], ["bench", missing], ["settings", missing], ["list", missing], ["verify", missing], ["bringup", "--against", missing],
                                ["diff", missing, missing], ["reproduce", missing], ["search", missing, "a"], ["classify", missing, "a"], ["fill", missing, "a"], ["generate", missing, "a"],
                                ["draw", missing, "a"], ["serch"]):
            done = run(command, *words, "--json")
            assert done.returncode in (SETTINGS, DATA_ERROR), done.stderr
            cls.add("error", command, [json.loads(done.stdout)])
        cls.printed("key", "run", cls.toml["drawing"], "draw.stps=3", "--json", code=SETTINGS, kind="error")
        done = run("generate", cls.run_of("T5"), "-", "--batch", 1, "--json", input="a cat\n\udcff\n", errors="surrogateescape")
        cls.add("bascule generate", "error behind a text", [json.loads(done.stdout)])

    def test_are_those_recorded(self):
        if os.environ.get("BASCULE_RECORD_MEMBERS"):
            RECORD.write_text(json.dumps(as_lines(self.found), indent=1, ensure_ascii=False) + "\n")
            self.skipTest(f"recorded in {RECORD}")
        recorded = of_lines(json.loads(RECORD.read_text()))
        if not has_mpi():
            recorded = {kind: {name: members for name, members in documents.items() if "two ranks" not in name} for kind, documents in recorded.items()}
        lines = differences(recorded, self.found)
        if lines:
            self.fail("\n".join(["", *lines, "after a change that is meant, write the file anew: BASCULE_RECORD_MEMBERS=1 tools/run_tests build tests/faults/test_members.py"]))
