# SPDX-License-Identifier: Apache-2.0
"""What `make bench` measures: a list of entries in a fixed order, each with the command that repeats it from the root of the tree.

Models of published size have random weights: tools/make_published_model writes their folders, once, into build-bench/models.
"""
import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = pathlib.Path("build-bench/models")  # from ROOT
DATA = "tests/data"
GROUPS = {"machine": "Machine and kernels", "demos": "Demos", "sizes": "Models of published size, random weights", "loader": "Loader", "ranks": "Ranks"}
PROGRAM = "PROGRAM"  # in a command: the program that is measured
BUILD = "BUILD"      # its folder
SIZED_REPEATS = 2    # a step of a model of published size is as long as all steps of a demo


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str     # what --only chooses by, and what tools/bench_compare says
    group: str    # of GROUPS
    subject: str  # a row's first cell
    kind: str     # how tools/bench_figures.py reads the output
    command: tuple
    settings: str = ""   # of a `bascule` command
    keys: tuple = ()     # in place of keys of the settings file
    models: tuple = ()   # arguments of tools/make_published_model, without the folder
    most_repeats: int = 1000  # at most so many, whatever --repeats says; 1: a large model, whose start takes longer than its step

    def command_line(self, program):
        """For subprocess, from ROOT."""
        places = {PROGRAM: str(program), BUILD: str(pathlib.Path(program).parent)}
        return [places.get(word, word) for word in self.command]


def bench(name, group, subject, settings, *options, kind="steps", steps=60, warmup=3, keys=(), **more):
    command = (PROGRAM, "bench", settings, *options, "--steps", str(steps), "--warmup", str(warmup), "--json", *keys)
    return Entry(name, group, subject, kind, command, settings, tuple(keys), **more)


def demo(name, subject, settings, *options, **more):
    return bench(name, "demos", subject, settings, *options, **more)


def sized(name, subject, settings, *options, model, rows=(), keys=(), steps=2, warmup=1, most_repeats=SIZED_REPEATS, **more):
    folder = str(MODELS / "-".join([model, *(rows[1::2] if rows else ())]))
    own = [f"model.model_name_or_path={folder}", "model.from_scratch=true", *keys]
    if rows:
        own += [f"data.train_file={folder}/rows.jsonl", f"data.validation_file={folder}/rows.jsonl", "data.test_file=", "data.source_prefix="]
    return bench(name, "sizes", subject, settings, *options, steps=steps, warmup=warmup, keys=own, models=(model, *rows), most_repeats=most_repeats, **more)


def batch(size):
    return [f"training.per_device_train_batch_size={size}", f"training.per_device_eval_batch_size={size}"]


CAPTIONS = [f"model.tokenizer_name={DATA}/emoji-captions/tokenizer", *(f"data.{split}_file={DATA}/emoji-captions/{split}.jsonl" for split in ("train", "validation", "test"))]
TEXTS = [f"data.train_file={DATA}/text-corpus/train.txt", *(f"data.{split}_file={DATA}/text-corpus/validation.txt" for split in ("validation", "test")),
         "training.gradient_accumulation_steps=1"]
CLASSES = [*(f"data.{split}_file={DATA}/emoji-classes/{split}.jsonl" for split in ("train", "validation", "test")), "data.label_column=label", "data.mixup_alpha=0", "data.cutmix_alpha=0",
           "training.gradient_accumulation_steps=1"]
ROWS = ("--rows", "16", "--source-tokens", "512", "--target-tokens")
SHORT_SOURCES = ["data.max_source_length=512", "data.pad_to_max_length=false", "data.ignore_pad_token_for_loss=true"]
BF16 = ["model.precision=bf16"]
FLOAT32 = ["model.precision=float32"]
EVALUATE, GENERATE = ("--use", "evaluate"), ("--use", "generate")

ENTRIES = [
    Entry("machine", "machine", "clock, memory, latencies, pages and disk", "bringup", (PROGRAM, "bringup", "--quick", "--only", "clock,memory,latency,pages,disk", "--json")),
    Entry("kernels", "machine", "matrix products, kernels, decoding of pictures, sum of gradients", "bringup",
          (PROGRAM, "bringup", "--quick", "--only", "products,jpeg,kernels,allreduce", "--json")),
    demo("bridgetower-demo", "BridgeTower demo, batch 64", "config/demo.toml"),
    demo("bridgetower-demo-bf16", "the same in bf16", "config/demo.toml", keys=BF16),
    demo("bridgetower-demo-evaluate", "the same, evaluation", "config/demo.toml", *EVALUATE),
    demo("vit-demo", "ViT demo, batch 64", "config/vit_demo.toml"),
    demo("vit-demo-bf16", "the same in bf16", "config/vit_demo.toml", keys=BF16),
    demo("bert-demo", "BERT demo, masked words and next sentences, batch 64", "config/bert_demo.toml"),
    demo("sentences-demo", "BERT demo that classifies sentences, batch 32", "config/bert_sentences_demo.toml"),
    demo("t5-demo", "T5 demo, batch 32", "config/t5_demo.toml"),
    demo("t5-demo-generate", "T5 demo, writing 40 tokens, batch 64", "config/t5_demo.toml", *GENERATE, "--new-tokens", "40", steps=5, warmup=1, kind="tokens"),
    demo("draw-demo", "drawing demo, batch 10", "config/sd_demo.toml", steps=3, warmup=1, kind="draw"),
    sized("bridgetower-base", "BridgeTower base, 288 pixels, batch 2, float32", "config/bridgetower_base.toml", model="bridgetower-base", keys=CAPTIONS + batch(2)),
    sized("bridgetower-base-bf16", "the same in bf16", "config/bridgetower_base.toml", model="bridgetower-base", keys=CAPTIONS + batch(2) + BF16),
    sized("bridgetower-base-evaluate", "the same in float32, evaluation", "config/bridgetower_base.toml", *EVALUATE, model="bridgetower-base", keys=CAPTIONS + batch(2)),
    sized("bridgetower-large", "BridgeTower large, 294 pixels, batch 1, float32", "config/bridgetower_large.toml", model="bridgetower-large", keys=CAPTIONS + batch(1), steps=1, most_repeats=1),
    sized("vit-base", "ViT-B/16, 224 pixels, batch 8, float32", "config/vit_base.toml", model="vit-base", keys=CLASSES + batch(8)),
    sized("vit-base-bf16", "the same in bf16", "config/vit_base.toml", model="vit-base", keys=CLASSES + batch(8) + BF16),
    sized("bert-base", "BERT-base, masked words, 128 tokens, batch 8, float32", "config/bert_base_masked_lm.toml", model="bert-base", keys=[*TEXTS, "data.max_seq_length=128", *batch(8)]),
    sized("bert-base-evaluate", "the same, evaluation", "config/bert_base_masked_lm.toml", *EVALUATE, model="bert-base", keys=[*TEXTS, "data.max_seq_length=128", *batch(8)]),
    sized("roberta-base", "RoBERTa-base, masked words, 128 tokens, batch 8, float32", "config/roberta_base_masked_lm.toml", model="roberta-base", keys=[*TEXTS, "data.max_seq_length=128", *batch(8)]),
    sized("distilbert-base", "DistilBERT-base, masked words, 128 tokens, batch 8, float32", "config/bert_base_masked_lm.toml", model="distilbert-base", keys=[*TEXTS, "data.max_seq_length=128", *batch(8)]),
    sized("bert-large", "BERT-large, masked words and next sentences, 128 tokens, batch 4, float32", "config/bert_large_phase1.toml", model="bert-large", keys=TEXTS + batch(4)),
    sized("t5-small", "T5 small, 512 + 128 tokens, batch 2, float32", "config/t5_small.toml", model="t5-small", rows=(*ROWS, "128"), keys=SHORT_SOURCES + batch(2)),
    sized("t5-small-generate", "T5 small, 512 source tokens, writing 64, batch 4, float32", "config/t5_small.toml", *GENERATE, "--new-tokens", "64", model="t5-small", rows=(*ROWS, "128"),
          keys=SHORT_SOURCES + batch(4), kind="tokens"),
    sized("t5-base", "T5 base, 512 + 64 tokens, batch 1, float32", "config/t5_base.toml", model="t5-base", rows=(*ROWS, "64"), keys=SHORT_SOURCES + batch(1) + FLOAT32),
    sized("t5-large", "T5 large, 512 + 64 tokens, batch 1, float32", "config/t5_large.toml", model="t5-large", rows=(*ROWS, "64"),
          keys=[*SHORT_SOURCES, *batch(1), "training.gradient_accumulation_steps=1"], steps=1, most_repeats=1),
    sized("draw-v1", "Stable Diffusion 1.5, 256 pixels, 5 steps, float32", "config/sd_v1_quick.toml", model="sd-v1", steps=1, kind="draw"),
    bench("loader-bridgetower", "loader", "pictures and captions of the BridgeTower demo", "config/demo.toml", "--workers", "0,1,2", kind="loader", steps=10, warmup=2),
    bench("loader-vit", "loader", "random resized crops of the ViT demo", "config/vit_demo.toml", "--workers", "0,1,2", kind="loader", steps=10, warmup=2),
    Entry("strategies", "ranks", "two ranks of one machine, the BridgeTower demo", "strategies",
          ("tools/compare_strategies", "config/demo.toml", "--program", PROGRAM, "--rounds", "1", "--wires", "float32", "--strategies", "fast_ddp;ddp, 25 MiB;sharded", "--json")),
    Entry("allreduce", "ranks", "sum of the gradients of two ranks of one machine", "allreduce", ("tools/compare_allreduce", "--build", BUILD, "--ranks", "2", "--rounds", "5", "--json")),
]


def chosen(words):
    """The entries whose name or group is one of the words; all without words. Raises ValueError for a word that chooses none."""
    for word in words:
        if not any(is_meant(entry, word) for entry in ENTRIES):
            raise ValueError(f"{word}: no entry of this name; see --list")
    return [entry for entry in ENTRIES if not words or any(is_meant(entry, word) for word in words)]


def is_meant(entry, word):
    return word in (entry.name, entry.group)
