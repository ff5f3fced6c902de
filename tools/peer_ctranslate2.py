#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times CTranslate2 on this CPU: texts that T5 writes, greedily or by beam search. A peer of tools/compare_families.

  tools/peer_ctranslate2.py --reference DIR --models DIR [--size small] [--batch 4] [--source 512] [--target 128] [--spread] [--beams 1] ...

It runs with a Python that has ctranslate2, torch and transformers. The weights are random, the sizes those of oracle/peer_t5.py in the
reference DIR, whose tokenizer names the tokens. The model is converted once and kept in the folder --models. Every text gets --target new
tokens; with --spread sources have a quarter of --source tokens to all of them, as in oracle/peer_t5.py. --compute float32 has results of
the quality of float32; bfloat16 and int8 do not. The last line of standard output is one JSON object: rate, in tokens/s, is over the median step.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import ctranslate2


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--size", default="small")
    parser.add_argument("--layers", type=int, default=0, help="of the encoder and of the decoder; 0: as published")
    parser.add_argument("--vocabulary", type=int, default=32128)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--source", type=int, default=512)
    parser.add_argument("--target", type=int, default=128)
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--compute", choices=["float32", "bfloat16", "int8"], default="float32")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--convert", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def folder_of(arguments):
    return arguments.models / f"ctranslate2-{arguments.size}-{arguments.layers}-{arguments.vocabulary}"


def convert(arguments):
    import torch
    from transformers import T5ForConditionalGeneration

    sys.path.insert(0, str(arguments.reference / "oracle"))
    import peer_t5

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as source:
        T5ForConditionalGeneration(peer_t5.build_config(arguments)).save_pretrained(source)
        for file in (arguments.reference / "tokenizer" / "unigram").iterdir():
            shutil.copy(file, source)
        arguments.models.mkdir(parents=True, exist_ok=True)
        ctranslate2.converters.TransformersConverter(source).convert(str(folder_of(arguments)), force=True)


def sources(arguments, vocabulary):
    """Tokens of each text."""
    draw, most = random.Random(0), arguments.source
    lengths = [most] * arguments.batch
    if arguments.spread and arguments.batch > 1:
        lengths = [most // 4 + (most - most // 4) * row // (arguments.batch - 1) for row in range(arguments.batch)]
    return [[vocabulary[draw.randrange(100, 2000)] for _ in range(length - 1)] + ["</s>"] for length in lengths]


def main():
    arguments = read_arguments()
    folder = folder_of(arguments)
    if arguments.convert:
        return convert(arguments)
    if not folder.exists():  # in another process: its memory does not count
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--convert"], check=True, stdout=sys.stderr)
    translator = ctranslate2.Translator(str(folder), device="cpu", compute_type=arguments.compute, inter_threads=1, intra_threads=arguments.threads)
    rows = sources(arguments, json.loads((folder / "shared_vocabulary.json").read_text(encoding="utf-8")))
    seconds = []
    for _ in range(arguments.warmup + arguments.steps):
        begin = time.perf_counter()
        found = translator.translate_batch(rows, beam_size=arguments.beams, max_input_length=0, max_decoding_length=arguments.target,
                                           min_decoding_length=arguments.target, max_batch_size=arguments.batch)
        seconds.append(time.perf_counter() - begin)
    if any(len(one.hypotheses[0]) != arguments.target for one in found):
        sys.exit("peer_ctranslate2: a text ended early, so that tokens/s would be wrong")
    seconds = seconds[arguments.warmup:]
    print(json.dumps({"software": f"ctranslate2 {ctranslate2.__version__}", "what": "generate", "batch": arguments.batch, "precision": arguments.compute,
                      "threads": arguments.threads, "seconds": seconds, "rate": arguments.batch * arguments.target / statistics.median(seconds), "unit": "tokens/s",
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
