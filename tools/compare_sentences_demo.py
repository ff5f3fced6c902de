#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what two demos on texts learn with the same training in the libraries that most people use.

  tools/compare_sentences_demo.py [--demo sentences|embeddings] [--program build/bascule] [--seeds 0 1 2] [--threads 2] [--json]

--demo sentences: config/bert_sentences_demo.toml beside PyTorch + Transformers. The figures are the accuracy and the loss on the validation rows
after the last epoch, and training samples per second.
--demo embeddings: config/bert_embeddings_demo.toml beside sentence-transformers, with its own trainer, loss, sampler and evaluator. The figures are those
of the test queries, and NDCG@10 of the validation queries, with the weights of the best epoch.

It runs with a Python that has torch, transformers and, for embeddings, sentence-transformers, accelerate and datasets. For every seed the two run in turn.
The peer starts from our initial weights, which a run with a learning rate of 0 saves, reads the same rows and follows the settings of the file; its order
of the rows and its dropout are random in their own way.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

import torch
from transformers import BertForSequenceClassification, BertTokenizer, get_linear_schedule_with_warmup

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIGURES = {"sentences": ["accuracy", "loss", "samples_per_second"],
           "embeddings": ["accuracy_at_1", "accuracy_at_10", "ndcg_at_10", "validation_ndcg_at_10"]}


def settings_of(options):
    return ROOT / "config" / f"bert_{options.demo}_demo.toml"


def run_ours(options, folder, seed, *keys):
    command = [options.program, "run", settings_of(options), f"training.output_dir={folder}", f"training.seed={seed}", f"machine.threads={options.threads}", *keys]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)


def ours(options, folder, seed):
    run_ours(options, folder, seed)
    if options.demo == "embeddings":
        test, validation = (json.loads((folder / f"{split}_results.json").read_text()) for split in ("test", "validation"))
        return {**{key: test[f"eval_{key}"] for key in FIGURES["embeddings"][:3]}, "validation_ndcg_at_10": validation["eval_ndcg_at_10"]}
    validation, train = (json.loads((folder / f"{split}_results.json").read_text()) for split in ("validation", "train"))
    return {"accuracy": validation["eval_accuracy"], "loss": validation["eval_loss"], "samples_per_second": train["train_samples_per_second"]}


class Rows:
    def __init__(self, path, data, tokenizer, numbers):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.ids = tokenizer([row[data["text_column"]] for row in rows], truncation=True, max_length=data["max_seq_length"])["input_ids"]
        self.labels = [numbers[row[data["label_column"]]] for row in rows]
        self.tokenizer = tokenizer

    def batches(self, order, size):
        """Each padded to its longest text: padding changes no number."""
        for at in range(0, len(order), size):
            chosen = order[at:at + size]
            batch = self.tokenizer.pad({"input_ids": [self.ids[row] for row in chosen]}, return_tensors="pt")
            yield {key: batch[key] for key in ("input_ids", "attention_mask")}, torch.tensor([self.labels[row] for row in chosen])


@torch.no_grad()
def evaluate(model, rows, size, smoothing):
    """As in Trainer, labels are smoothed here too."""
    model.eval()
    right, loss = 0, 0.0
    for inputs, labels in rows.batches(range(len(rows.labels)), size):
        logits = model(**inputs).logits
        right += int((logits.argmax(1) == labels).sum())
        loss += float(torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing))
    model.train()
    return {"accuracy": right / len(rows.labels), "loss": loss / len(rows.labels)}


def make_optimizer(model, training):
    named = list(model.named_parameters())
    is_decayed = lambda name: "bias" not in name and "LayerNorm" not in name
    return torch.optim.AdamW([{"params": [value for name, value in named if is_decayed(name)], "weight_decay": training["weight_decay"]},
                              {"params": [value for name, value in named if not is_decayed(name)], "weight_decay": 0.0}], lr=training["learning_rate"], fused=True)


def embeddings_peer(options, initial, seed):
    import datasets
    from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    settings = tomllib.loads(settings_of(options).read_text())
    data, training = settings["data"], settings["training"]
    rows_of = lambda key: [json.loads(line) for line in (settings_of(options).parent / data[key]).read_text(encoding="utf-8").splitlines()]

    def evaluator(split):
        relevance = {}
        for line in (settings_of(options).parent / data[f"{split}_relevance"]).read_text(encoding="utf-8").splitlines()[1:]:
            query, text = line.split("\t")[:2]
            relevance.setdefault(query, set()).add(text)
        queries, corpus = ({row["_id"]: row["text"] for row in rows_of(f"{split}_{what}")} for what in ("queries", "corpus"))
        return InformationRetrievalEvaluator(queries, corpus, relevance, accuracy_at_k=[1, 10], ndcg_at_k=[10], name=split, write_csv=False)

    model = SentenceTransformer(str(initial), device="cpu")
    rows = rows_of("train_file")
    pairs = datasets.Dataset.from_dict({key: [row[data[key]] for row in rows] for key in ("text_column", "text_pair_column")})
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder, seed=seed, num_train_epochs=training["num_train_epochs"], per_device_train_batch_size=training["per_device_train_batch_size"],
            learning_rate=training["learning_rate"], weight_decay=training["weight_decay"], warmup_steps=training["warmup_ratio"], batch_sampler="no_duplicates",
            eval_strategy="epoch", save_strategy="epoch", save_total_limit=2, load_best_model_at_end=True,
            metric_for_best_model="eval_validation_cosine_ndcg@10", greater_is_better=True, report_to=[], disable_tqdm=True, use_cpu=True)
        trainer = SentenceTransformerTrainer(model, arguments, train_dataset=pairs, loss=MultipleNegativesRankingLoss(model), evaluator=evaluator("validation"))
        trainer.train()
        test, validation = (evaluator(split)(model) for split in ("test", "validation"))
    return {**{key: test[f"test_cosine_{key.replace('_at_', '@')}"] for key in FIGURES["embeddings"][:3]},
            "validation_ndcg_at_10": validation["validation_cosine_ndcg@10"]}


def sentences_peer(options, initial, seed):
    settings = tomllib.loads(settings_of(options).read_text())
    data, training = settings["data"], settings["training"]
    model, tokenizer = BertForSequenceClassification.from_pretrained(initial).train(), BertTokenizer.from_pretrained(initial)
    train, validation = (Rows(settings_of(options).parent / data[f"{split}_file"], data, tokenizer, model.config.label2id) for split in ("train", "validation"))
    batch, epochs, smoothing = training["per_device_train_batch_size"], training["num_train_epochs"], training["label_smoothing_factor"]
    updates = math.ceil(len(train.labels) / batch) * epochs
    optimizer = make_optimizer(model, training)
    schedule = get_linear_schedule_with_warmup(optimizer, math.ceil(training["warmup_ratio"] * updates), updates)
    torch.manual_seed(seed)
    began = time.perf_counter()
    for epoch in range(epochs):
        for inputs, labels in train.batches(torch.randperm(len(train.labels)).tolist(), batch):
            logits = model(**inputs).logits
            torch.nn.functional.cross_entropy(logits, labels, label_smoothing=smoothing).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print(f"peer, seed {seed}: epoch {epoch + 1} of {epochs}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - began
    return {**evaluate(model, validation, training["per_device_eval_batch_size"], smoothing), "samples_per_second": len(train.labels) * epochs / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", choices=FIGURES, default="sentences")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "bascule")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    peer = {"sentences": sentences_peer, "embeddings": embeddings_peer}[options.demo]
    found = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as temporary:
            initial = pathlib.Path(temporary, "initial")
            run_ours(options, initial, seed, "training.learning_rate=0", "training.max_steps=1")
            found.append({"seed": seed, "ours": ours(options, pathlib.Path(temporary, "run"), seed), "peer": peer(options, initial, seed)})
        print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    means = {key: {who: statistics.mean(one[who][key] for one in found) for who in ("peer", "ours")} for key in FIGURES[options.demo]}
    if options.json:
        print(json.dumps({"seeds": found, "means": means}))
        return
    for key, mean in means.items():
        print(f"{key:22s} peer {mean['peer']:9.4f}   ours {mean['ours']:9.4f}")


if __name__ == "__main__":
    main()
