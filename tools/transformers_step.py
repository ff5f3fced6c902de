#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times one training or evaluation step of BridgeTower in PyTorch + Transformers on the CPU; prints one JSON object.

  tools/transformers_step.py --config FOLDER --batch 8 --caption 25 [--pad-to 128] [--precision bf16] [--evaluate] [--compile]
                             [--steps 3] [--warmup 1] [--threads N]

FOLDER has a BridgeTower config.json. Weights, pictures and token ids are random and in memory: nothing is loaded. Each step is
what run_bridgetower.py does, in PyTorch's fastest form: fused AdamW, clipping at 1.0, bf16 as torch.autocast.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from transformers import BridgeTowerConfig, BridgeTowerForContrastiveLearning


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--caption", type=int, default=25, help="tokens, with the first and the last")
    parser.add_argument("--pad-to", type=int, default=0)
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--evaluate", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0)
    return parser.parse_args()


def main():
    arguments = read_arguments()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    config = BridgeTowerConfig.from_pretrained(arguments.config)
    model = BridgeTowerForContrastiveLearning(config)
    model.bridgetower.text_model.pooler = None  # as in the recipe
    model.train(not arguments.evaluate)
    forward = torch.compile(model) if arguments.compile else model
    optimizer = None if arguments.evaluate else torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)

    length = max(arguments.caption, arguments.pad_to)
    mask = (torch.arange(length) < arguments.caption).long().repeat(arguments.batch, 1)
    token_ids = torch.randint(4, config.text_config.vocab_size, (arguments.batch, length)) * mask + (1 - mask)  # 1: padding
    side = config.vision_config.image_size
    pixels = torch.randn(arguments.batch, 3, side, side)

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16"):
            loss = forward(pixel_values=pixels, input_ids=token_ids, attention_mask=mask, return_loss=True).loss
        if optimizer is not None:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    seconds = []
    with torch.set_grad_enabled(not arguments.evaluate):
        for index in range(arguments.warmup + arguments.steps):
            began = time.perf_counter()
            step()
            if index >= arguments.warmup:
                seconds.append(time.perf_counter() - began)
    print(json.dumps({
        "samples_per_second": arguments.batch / statistics.median(seconds),
        "resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "software": f"PyTorch {torch.__version__}",
    }))


if __name__ == "__main__":
    main()
