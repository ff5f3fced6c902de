#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times training steps of BERT-base with a classifier of texts in PyTorch + Transformers, the peer of tools/compare_families.

  tools/peer_sequences.py [--group] [--batch 32] [--seq 128] [--steps 3] [--warmup 1] [--threads N]

It runs with a Python that has torch and transformers. The texts are those of tools/joined_sentences.py, the weights random. A step is
that of Transformers' Trainer: BertForSequenceClassification in float32, gradients clipped at 1.0, fused AdamW, a linear schedule. Batches are
random and padded to --seq tokens, as run_classification.py and run_glue.py do by default. With --group they are those of Trainer's train_sampling_strategy =
"group_by_length", each padded to its longest text, and the steps are batches in a row: the sampler sorts 8 batches of 32 at a time, so that
a multiple of 8 steps has short and long ones. The last line of standard output is one JSON object; samples_per_second is over all measured steps together.
"""
import argparse
import json
import resource
import statistics
import time

import torch
from joined_sentences import WORD_PIECE, joined_rows
from transformers import BertConfig, BertForSequenceClassification, BertTokenizer, get_linear_schedule_with_warmup
from transformers.trainer_pt_utils import LengthGroupedSampler

VOCABULARY = 30522  # rows of the word table, as in bert-base-uncased


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="default: PyTorch's choice, one for each core")
    return parser.parse_args()


def read_batches(arguments):
    """([batch of the model's inputs], [length of each text])"""
    rows = joined_rows()
    tokenizer = BertTokenizer.from_pretrained(WORD_PIECE)
    ids = tokenizer([row["text"] for row in rows], truncation=True, max_length=arguments.seq)["input_ids"]
    names = sorted({row["label"] for row in rows})
    lengths = [len(one) for one in ids]
    generator = torch.Generator().manual_seed(0)
    order = list(LengthGroupedSampler(arguments.batch, lengths=lengths, generator=generator)) if arguments.group else torch.randperm(len(rows), generator=generator).tolist()
    batches = []
    for step in range(arguments.steps):
        chosen = [order[(step * arguments.batch + k) % len(order)] for k in range(arguments.batch)]
        padding = {"padding": "longest"} if arguments.group else {"padding": "max_length", "max_length": arguments.seq}
        batch = tokenizer.pad({"input_ids": [ids[row] for row in chosen]}, return_tensors="pt", **padding)
        batches.append({**batch, "token_type_ids": torch.zeros_like(batch["input_ids"]), "labels": torch.tensor([names.index(rows[row]["label"]) for row in chosen])})
    return batches, lengths


def make_optimizer(model):
    decayed = [value for name, value in model.named_parameters() if "bias" not in name and "LayerNorm" not in name]
    others = [value for name, value in model.named_parameters() if "bias" in name or "LayerNorm" in name]
    return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}], lr=2e-5, fused=True)


def main():
    arguments = read_arguments()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    batches, lengths = read_batches(arguments)
    classes = len({row["label"] for row in joined_rows()})
    model = BertForSequenceClassification(BertConfig(vocab_size=VOCABULARY, num_labels=classes)).train()
    optimizer = make_optimizer(model)
    schedule = get_linear_schedule_with_warmup(optimizer, 0, 1000)

    def step(batch):
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)

    for index in range(arguments.warmup):
        step(batches[index % len(batches)])
    seconds = []
    for batch in batches:
        begin = time.perf_counter()
        step(batch)
        seconds.append(time.perf_counter() - begin)
    timed = sum(int(batch["attention_mask"].sum()) for batch in batches)
    computed = sum(batch["input_ids"].numel() for batch in batches)
    samples = arguments.batch * len(batches)
    print(json.dumps({
        "software": f"torch {torch.__version__}", "layout": "grouped" if arguments.group else "padded", "batch": arguments.batch, "rows": len(lengths),
        "lengths": {"shortest": min(lengths), "median": statistics.median(lengths), "mean": round(statistics.mean(lengths), 1), "longest": max(lengths)},
        "mean_length_timed": round(timed / samples, 1), "mean_length_computed": round(computed / samples, 1), "threads": torch.get_num_threads(),
        "samples_per_second": round(samples / sum(seconds), 4), "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }))


if __name__ == "__main__":
    main()
