# SPDX-License-Identifier: Apache-2.0
"""Our side of tools/compare_families: writes a model's configuration, its rows and a settings file, runs them, and returns the figures.

What is measured is a dict as compare_families makes it (vit(), bert(), t5(), sd(), embedding()).
"""
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from joined_sentences import joined_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLASSES = ROOT / "tests" / "data" / "emoji-classes"
CORPUS = ROOT / "tests" / "data" / "text-corpus"
WORD_PIECE = ROOT / "tests" / "data" / "tokenizer" / "wordpiece"
PREDICTED = 0.157  # tokens of a sequence, at most: 20 of 128, 80 of 512, as in the published recipes
MIB = 2**20
SIZES = {
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "base": {},  # the default of a configuration
    "large": {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
}


def write_model(folder, ours):
    """A folder with the published configuration; returns it."""
    if ours["family"] == "t5":
        output_of([ROOT / "tools" / "make_published_model", "t5-" + ours["size"], folder, "--rows", ours["batch"] * (8 if ours["evaluates"] else 1), "--source-tokens", ours["source"],
                   "--target-tokens", ours["target"], *(["--spread"] if ours["spread"] else [])])
        return folder
    folder.mkdir(parents=True)
    if ours["family"] == "vit":
        names = {str(number): f"class {number}" for number in range(1000)}
        config = {"model_type": "vit", "id2label": names, "label2id": {name: int(number) for number, name in names.items()}, "classifier_type": ours["classifier_type"]}
        shutil.copy(CLASSES / "model" / "preprocessor_config.json", folder)
    else:
        config = {"model_type": "bert", "vocab_size": 30522, **SIZES[ours["size"]]}
        if ours.get("head") == "sequence_classification":  # what is only evaluated takes its classes from there
            names = sorted({row["label"] for row in joined_rows()})
            config |= {"id2label": {str(number): name for number, name in enumerate(names)}, "label2id": {name: number for number, name in enumerate(names)}}
        for file in ("vocab.txt", "tokenizer_config.json"):
            shutil.copy(WORD_PIECE / file, folder)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def peer_texts(reference, count):
    """Texts of the lengths of peer_embeddings.py, made by it."""
    source = importlib.util.spec_from_file_location("peer_embeddings", reference / "oracle" / "peer_embeddings.py")
    maker = importlib.util.module_from_spec(source)
    source.loader.exec_module(maker)
    return maker.make_texts(count, random.Random(0))


def write_settings(folder, ours, steps, reference):
    model = write_model(folder / "model", ours)
    data = "validation_file" if ours["evaluates"] else "train_file"
    name = "validation" if ours["evaluates"] else "train"
    lines = ["[model]", f'model_name_or_path = "{model}"', "from_scratch = true", f'precision = "{ours["precision"]}"']
    if ours["family"] == "vit":
        lines += [f'image_size = {ours["image_size"]}', "[data]", f'{data} = "{CLASSES}/{name}.jsonl"', 'label_column = "label"', 'preprocessing = "training"']
    elif ours.get("head") == "sequence_classification":
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in joined_rows()))
        lines += [f'head = "{ours["head"]}"', "[data]", f'{data} = "{folder}/rows.jsonl"', 'text_column = "text"', 'label_column = "label"', f'max_seq_length = {ours["seq"]}']
    elif ours["family"] == "embedding":
        texts = peer_texts(reference, 2 * ours["batch"] * (steps + 2))
        (folder / "rows.jsonl").write_text("".join(json.dumps({"text": one, "pair": other}) + "\n" for one, other in zip(texts[::2], texts[1::2])))
        lines += [f'head = "{ours["head"]}"', "normalize = true", "[data]", f'{data} = "{folder}/rows.jsonl"', 'text_column = "text"', 'text_pair_column = "pair"', "max_seq_length = 256"]
    elif ours["family"] == "t5":  # as many rows as a batch has: each batch holds all lengths
        lines += ["[data]", f'{data} = "{model}/rows.jsonl"', 'text_column = "text"', 'summary_column = "summary"', f'max_source_length = {ours["source"]}',
                  f'max_target_length = {ours["target"]}']
    else:
        lines += [f'head = "{ours["head"]}"', "[data]", f'{data} = "{CORPUS}/{name}.txt"', f'max_seq_length = {ours["seq"]}',
                  f'max_predictions_per_seq = {round(PREDICTED * ours["seq"])}']
    lines += ["[training]", f'output_dir = "{folder}/run"', f'per_device_train_batch_size = {ours["batch"]}', f'per_device_eval_batch_size = {ours["batch"]}',
              "do_train = false" if ours["evaluates"] else f"max_steps = {steps + 1}"]
    if ours.get("pieces"):
        lines.append(f'mini_batch_size = {ours["pieces"]}')
    path = folder / "run.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_drawing(folder, ours):
    output_of([ROOT / "tools" / "make_published_model", "sd-" + ours["size"], folder / "model"])
    lines = ["[model]", f'model_name_or_path = "{folder}/model"', "from_scratch = true", f'precision = "{ours["precision"]}"', "[draw]", f'output_dir = "{folder}/run"',
             'prompts = ["a picture"]', f'num_images_per_prompt = {ours["batch"]}', f'batch_size = {ours["batch"]}', f'height = {ours["side"]}', f'width = {ours["side"]}',
             f'num_inference_steps = {ours["steps"]}', 'scheduler = "pndm"']
    path = folder / "run.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def limit_isa(settings, isa):
    if isa:
        with settings.open("a") as file:
            file.write(f'[machine]\nisa = "{isa}"\n')


def output_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stderr}")
    return done.stdout


def measure_drawing(arguments, folder, ours):
    """As measure_ours(), in replays of the stage or pictures a second; the memory of a picture alone is that of the peer's run."""
    settings = write_drawing(folder, ours)
    limit_isa(settings, arguments.isa)
    if ours["stage"] == "picture":
        output_of([arguments.program, "run", settings])
        results = json.loads((folder / "run" / "all_results.json").read_text())
        return 1 / results["seconds_per_picture"], results["resident_bytes"] / MIB, None, None
    found = json.loads(output_of([arguments.program, "bench", settings, "--steps", arguments.steps, "--warmup", "1", "--json"]))
    stage = found[ours["stage"]]
    seconds = stage["median_seconds"]
    return 1 / seconds, None, stage["limit_seconds"] / seconds, stage["flops"] / seconds / 1e9


def measure_embed(arguments, folder, ours, settings):
    """As measure_ours(), in texts/s of a whole command."""
    output_of([arguments.program, "run", settings, "training.max_steps=1"])
    texts = "\n".join(peer_texts(arguments.reference, ours["texts"]))
    begin = time.perf_counter()
    with subprocess.Popen([arguments.program, "embed", folder / "run", "-", "--output", folder / "vectors.safetensors"], stdin=subprocess.PIPE, text=True) as process:
        process.stdin.write(texts)
        process.stdin.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit("bascule embed failed")
    return ours["texts"] / (time.perf_counter() - begin), usage.ru_maxrss * 1024 / MIB, None, None


def measure_ours(arguments, folder, ours):
    """(samples/s, MiB, share of the ceiling, GFLOP/s); the latter None in an evaluation"""
    if ours["family"] == "sd":
        return measure_drawing(arguments, folder, ours)
    steps = max(arguments.steps, ours.get("steps", 0))
    settings = write_settings(folder, ours, steps, arguments.reference)
    limit_isa(settings, arguments.isa)
    if ours.get("texts"):
        return measure_embed(arguments, folder, ours, settings)
    if ours.get("beams"):
        found = json.loads(output_of([arguments.program, "bench", settings, "--use", "generate", "--num-beams", ours["beams"], "--new-tokens", ours["target"], "--steps",
                                      arguments.steps, "--warmup", "1", "--json"]))
        return found["tokens_per_second"], found["resident_bytes"] / MIB, None, None
    if ours["evaluates"]:
        output_of([arguments.program, "run", settings])
        results = json.loads((folder / "run" / "all_results.json").read_text())
        return results["validation_samples_per_second"], results["memory_allocated (GB)"] * 1024, None, None
    found = json.loads(output_of([arguments.program, "bench", settings, "--steps", steps, "--warmup", "1", "--json"]))
    times = found["columns"][0]["step_seconds"]
    # Steps on other lengths count together, as in the peer.
    rate = ours["batch"] * len(times) / sum(times) if "steps" in ours else found["samples_per_second"]["median"]
    flops = sum(layer["flops"] for layer in found["layers"]) / ours["batch"]  # of a sample
    return rate, found["resident_bytes"] / MIB, rate / found["ceiling_samples_per_second"], rate * flops / 1e9
