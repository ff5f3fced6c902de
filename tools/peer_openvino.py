#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times OpenVINO on this CPU: stages and pictures of Stable Diffusion, and encoders that are evaluated. A peer of tools/compare_families.

  tools/peer_openvino.py --reference DIR --models DIR --what unet|vae|text|picture [--size v1|v2] [--side 512] [--batch 1] ...
  tools/peer_openvino.py --reference DIR --models DIR --what vit|bert|bert-texts [--decoder all|labelled] [--batch 32] [--seq 128] ...

It runs with a Python that has openvino, torch, transformers and diffusers. The weights are random, the sizes those of oracle/peer_sd.py in
the reference DIR, of BERT-base and of ViT-B/16. A model is converted from PyTorch once, in a process of its own, and kept in the
folder --models. What is timed:

  unet        a guided call: two rows for each picture
  vae, text   the decoding of a batch of pictures; the text encoder with two prompts for each picture
  picture     all of it, the three models called one after another: text, --picture-steps steps of PNDM, decoding
  vit, bert   a batch; BERT with the decoder of masked words on all rows, or on the 15.7 % of the rows that have labels
  bert-texts  batches of texts with a class, those of tools/joined_sentences.py, each batch padded to its longest text and masked

Shapes are fixed when a model is compiled, but for those of bert-texts. The last line of standard output is one JSON object: rate, in the
unit that it names, is over the median step; that of bert-texts over all steps together.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy
import openvino

PREDICTED = 0.157  # as in tools/compare_families
CLASSES = 10  # of bert-texts
PARTS = {"picture": ["text", "unet", "vae"]}


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=pathlib.Path, required=True)
    parser.add_argument("--what", choices=["unet", "vae", "text", "picture", "vit", "bert", "bert-texts"], default="unet")
    parser.add_argument("--size", choices=["v1", "v2", "tiny"], default="v1")
    parser.add_argument("--side", type=int, default=512)
    parser.add_argument("--batch", type=int, default=0, help="default: 1 picture, or 32 samples")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--decoder", choices=["all", "labelled"], default="labelled")
    parser.add_argument("--picture-steps", type=int, default=5)
    parser.add_argument("--precision", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--convert", choices=["unet", "vae", "text", "vit", "bert", "bert-texts"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.batch = arguments.batch or (32 if arguments.what in ("vit", "bert", "bert-texts") else 1)
    return arguments


def labelled_rows(arguments):
    return round(PREDICTED * arguments.seq)


def example(what, arguments):
    """Inputs of a call, of the shapes that are timed."""
    draw, side, batch = numpy.random.default_rng(0), arguments.side // 8, arguments.batch

    def normal(*shape):
        return draw.standard_normal(shape, dtype=numpy.float32)

    def tokens(rows, seq):
        return draw.integers(1000, 30000, (rows, seq))

    if what in ("unet", "vae", "text"):
        width = {"v1": 768, "v2": 1024, "tiny": 32}[arguments.size]
        return {"unet": [normal(2 * batch, 4, side, side), numpy.array(500), normal(2 * batch, 77, width)], "vae": [normal(batch, 4, side, side)], "text": [tokens(2 * batch, 77)]}[what]
    if what == "vit":
        return [normal(batch, 3, 224, 224)]
    ids = tokens(batch, arguments.seq)
    if what == "bert-texts":
        return [ids, numpy.ones_like(ids)]
    if arguments.decoder == "all":
        return [ids]
    places = [row * arguments.seq + place for row in range(batch) for place in sorted(draw.choice(arguments.seq, labelled_rows(arguments), replace=False))]
    return [ids, numpy.array(places)]


def module_of(what, arguments):
    """The module of PyTorch that takes these inputs in this order and gives one tensor."""
    import torch
    import transformers
    from diffusers import AutoencoderKL, UNet2DConditionModel

    sys.path.insert(0, str(arguments.reference / "oracle"))
    import peer_sd

    torch.manual_seed(0)
    text, unet, channels = peer_sd.SIZES[arguments.size]
    made = {
        "unet": lambda: UNet2DConditionModel(**unet),
        "vae": lambda: AutoencoderKL(block_out_channels=channels, layers_per_block=2, latent_channels=4, down_block_types=["DownEncoderBlock2D"] * 4, up_block_types=["UpDecoderBlock2D"] * 4),
        "text": lambda: transformers.CLIPTextModel(transformers.CLIPTextConfig(**text)),
        "vit": lambda: transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)),
        "bert": lambda: transformers.BertForMaskedLM(transformers.BertConfig()),
        "bert-texts": lambda: transformers.BertForSequenceClassification(transformers.BertConfig(num_labels=CLASSES)),
    }[what]().eval()

    class Call(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = made

        def forward(self, *inputs):
            if what == "vae":
                return self.model.decode(*inputs, return_dict=False)[0]
            if what == "bert" and len(inputs) == 2:
                rows = self.model.bert(inputs[0], return_dict=False)[0]
                return self.model.cls(rows.reshape(-1, rows.shape[-1])[inputs[1]])
            return self.model(*inputs, return_dict=False)[0]

    return Call()


def file_of(what, arguments):
    names = {"vit": "vit", "bert": f"bert-{arguments.decoder}", "bert-texts": "bert-texts"}
    return arguments.models / f"openvino-{names.get(what) or f'{what}-{arguments.size}-{arguments.side}-{arguments.batch}'}.xml"


def convert(what, arguments):
    import torch

    arguments.models.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        inputs = tuple(torch.from_numpy(numpy.asarray(x)) for x in example(what, arguments))
        traced = torch.jit.trace(module_of(what, arguments), inputs, strict=False)
        openvino.save_model(openvino.convert_model(traced, example_input=inputs), file_of(what, arguments), compress_to_fp16=False)


def compiled(what, arguments):
    if not file_of(what, arguments).exists():  # in another process: its memory does not count
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--convert", what], check=True, stdout=sys.stderr)
    model = openvino.Core().read_model(file_of(what, arguments))
    if what != "bert-texts":
        model.reshape({port: list(numpy.asarray(x).shape) for port, x in zip(model.inputs, example(what, arguments))})
    settings = {"INFERENCE_NUM_THREADS": arguments.threads, "INFERENCE_PRECISION_HINT": arguments.precision, "PERFORMANCE_HINT": "LATENCY"}
    return openvino.Core().compile_model(model, "CPU", settings)


def picture_of(models, arguments):
    """A function that draws a batch with guidance."""
    import torch
    from diffusers import PNDMScheduler

    ids, latents = example("text", arguments)[0], example("vae", arguments)[0]

    def draw():
        scheduler = PNDMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", skip_prk_steps=True, steps_offset=1)
        scheduler.set_timesteps(arguments.picture_steps)
        states, x = models["text"]([ids])[0], torch.from_numpy(latents)
        for time_step in scheduler.timesteps:
            noise = torch.from_numpy(models["unet"]([numpy.concatenate([x.numpy()] * 2), numpy.array(int(time_step)), states])[0])
            without, with_text = noise.chunk(2)
            x = scheduler.step(without + 7.5 * (with_text - without), time_step, x).prev_sample
        return models["vae"]([x.numpy() / 0.18215])[0]

    return draw


def batches_of_texts(arguments):
    """As peer_sequences.py pads them, to the longest of each batch."""
    from joined_sentences import WORD_PIECE, joined_rows
    from transformers import BertTokenizer

    tokenizer = BertTokenizer.from_pretrained(WORD_PIECE)
    ids = tokenizer([row["text"] for row in joined_rows()], truncation=True, max_length=arguments.seq)["input_ids"]
    order = numpy.random.default_rng(0).permutation(len(ids))
    for first in range(0, arguments.steps * arguments.batch, arguments.batch):
        batch = tokenizer.pad({"input_ids": [ids[order[(first + k) % len(ids)]] for k in range(arguments.batch)]}, return_tensors="np", padding="longest")
        yield [batch["input_ids"].astype(numpy.int64), batch["attention_mask"].astype(numpy.int64)]


def main():
    arguments = read_arguments()
    if arguments.convert:
        return convert(arguments.convert, arguments)
    models = {part: compiled(part, arguments) for part in PARTS.get(arguments.what, [arguments.what])}
    if arguments.what == "picture":
        steps = [picture_of(models, arguments)] * arguments.steps
    else:
        inputs = list(batches_of_texts(arguments)) if arguments.what == "bert-texts" else [example(arguments.what, arguments)] * arguments.steps
        steps = [lambda one=one: models[arguments.what](one) for one in inputs]
    seconds = []
    for step in steps[:1] * arguments.warmup + steps:
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    seconds = seconds[arguments.warmup:]
    typical = statistics.mean(seconds) if arguments.what == "bert-texts" else statistics.median(seconds)
    # A guided call, a decoding and an encoding count once for all of a batch, as in oracle/peer_sd.py; a picture and a sample each.
    counted, unit = (1, "calls/s") if arguments.what in ("unet", "vae", "text") else (arguments.batch, "pictures/s" if arguments.what == "picture" else "samples/s")
    print(json.dumps({"software": f"openvino {openvino.__version__.split('-')[0]}", "what": arguments.what, "batch": arguments.batch, "precision": arguments.precision,
                      "threads": arguments.threads, "seconds": seconds, "rate": counted / typical, "unit": unit,
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}))


if __name__ == "__main__":
    main()
