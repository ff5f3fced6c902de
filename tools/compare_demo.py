#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the demo with PyTorch + Transformers on the same pictures: training speed and retrieval quality.

    tools/compare_demo.py --reference DIR --python PYTHON [--program build/bascule] [--seeds 0 1 2] [--threads 2] [--json]

DIR holds oracle/peer_demo.py and emoji-captions/; PYTHON has torch and transformers. For every seed the two run in turn
(peer, ours), so that both see the same drift of the machine's speed. Quality: the mean of R@5 and R@10 both ways on
validation, and R@1 (mean of both ways) on the first 400 training rows. Run it on an idle machine.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "emoji-captions"


def run_peer(options, seed):
    command = [options.python, str(pathlib.Path(options.reference) / "oracle" / "peer_demo.py"), "--seed", str(seed),
               "--threads", str(options.threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result = json.loads(done.stdout.strip().splitlines()[-1])
    both = [result["validation"][way][k] for way in ("text_to_image", "image_to_text") for k in ("r@5", "r@10")]
    seen = [result["train"][way]["r@1"] for way in ("text_to_image", "image_to_text")]
    return {"samples_per_second": result["samples_per_s"], "train_seconds": result["train_s"],
            "validation": statistics.mean(both), "seen": statistics.mean(seen)}


def recalls(results, ks):
    return [results[f"eval_{way}_recall_at_{k}"] for way in ("text_to_image", "image_to_text") for k in ks]


def run_ours(options, seed, folder):
    text = (ROOT / "config" / "demo.toml").read_text()
    text = text.replace('"../tests/data', f'"{ROOT}/tests/data')
    text = re.sub(r"(?m)^seed = .*$", f"seed = {seed}", text)
    text = re.sub(r"(?m)^output_dir = .*$", f'output_dir = "{folder}/run"', text)
    text += f"\n[machine]\nthreads = {options.threads}\n"
    (folder / "run.toml").write_text(text)
    subprocess.run([options.program, "run", str(folder / "run.toml")], check=True, capture_output=True)
    train = json.loads((folder / "run" / "train_results.json").read_text())
    validation = json.loads((folder / "run" / "validation_results.json").read_text())

    rows = [json.loads(line) for line in (DATA / "train.jsonl").read_text().splitlines()[:400]]
    with open(folder / "seen.jsonl", "w") as seen:
        for row in rows:
            seen.write(json.dumps({"image": str(DATA / row["image"]), "caption": row["caption"]}) + "\n")
    (folder / "seen.toml").write_text(f"""
[model]
model_name_or_path = "{folder}/run"
[data]
validation_file = "{folder}/seen.jsonl"
max_seq_length = 32
preprocessing = "processor"
[training]
output_dir = "{folder}/seen"
do_train = false
per_device_eval_batch_size = 64
""")
    subprocess.run([options.program, "run", str(folder / "seen.toml")], check=True, capture_output=True)
    seen = json.loads((folder / "seen" / "validation_results.json").read_text())
    return {"samples_per_second": train["train_samples_per_second"], "train_seconds": train["train_runtime"],
            "validation": statistics.mean(recalls(validation, (5, 10))), "seen": statistics.mean(recalls(seen, (1,)))}


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--reference", required=True)
    arguments.add_argument("--python", default=sys.executable)
    arguments.add_argument("--program", default=str(ROOT / "build" / "bascule"))
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--json", action="store_true")
    options = arguments.parse_args()
    pairs = []
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as folder:
            peer = run_peer(options, seed)
            ours = run_ours(options, seed, pathlib.Path(folder))
        pairs.append({"seed": seed, "peer": peer, "ours": ours,
                      "speed_ratio": ours["samples_per_second"] / peer["samples_per_second"]})
        print(f"seed {seed}: peer {peer}, ours {ours}, {pairs[-1]['speed_ratio']:.2f} times as fast", file=sys.stderr, flush=True)
    summary = {"pairs": pairs, "speed_ratio_median": statistics.median(p["speed_ratio"] for p in pairs)}
    for key in ("validation", "seen"):
        summary[key] = {who: statistics.mean(p[who][key] for p in pairs) for who in ("peer", "ours")}
    if options.json:
        print(json.dumps(summary, indent=2))
        return
    print(f"speed, ours / peer, median of {len(pairs)} pairs: {summary['speed_ratio_median']:.2f}")
    print(f"validation, mean of R@5 and R@10 both ways: peer {summary['validation']['peer']:.4f}, ours {summary['validation']['ours']:.4f}")
    print(f"first 400 training rows, R@1 both ways:      peer {summary['seen']['peer']:.4f}, ours {summary['seen']['ours']:.4f}")


if __name__ == "__main__":
    main()
