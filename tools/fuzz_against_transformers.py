#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Bascule with Transformers on BridgeTower models of random shape.

    fuzz_against_transformers.py --bascule build/bascule [--precision bf16] [--cases 40] [--seed 1] [--keep DIR] [--threads N] [--isa NAME]

Draws models from the seed (head, widths, head counts, layers, link towers, sharing, activations, image and patch sizes, channels, frozen towers,
image sizes other than the model's, captions of one token, ...). For each, the reference set's own oracle/make_goldens.py computes the
truth in float64 and the error of 17 float32 runs of PyTorch in the form of a golden case, and `bascule verify` judges us by it. Every third case has a training run.
In bf16 the rule is that of `bascule verify --precision bf16`, with the worst figures of 5 equivalent runs of torch.autocast.

The reference set is found through BASCULE_REFERENCE_DIR. Prints one line a case; for a failure the whole description, and the tensors that failed.
Needs torch, transformers and safetensors. Exit 0: all passed; 1: some failed; 2: wrong use.
"""
import argparse
import copy
import importlib.util
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

HEADS = ["contrastive", "image_text_matching", "masked_lm", "base"]
ACTIVATIONS = ["gelu", "gelu_python", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "silu", "swish", "tanh", "sigmoid", "linear"]


EQUIVALENT_AUTOCAST_RUNS = 5
EQUIVALENT_RUNS = 16  # with five in all, 3 to 5 % of equally good runs of PyTorch itself fail


def load_oracle(reference_dir):
    """The reference set's make_goldens.py, with limits that rest on 16 equally good float32 runs beside the plain one: its own two with the rows in another order, all others
    with every weight moved by half a unit in the last place."""
    path = pathlib.Path(reference_dir) / "oracle" / "make_goldens.py"
    spec = importlib.util.spec_from_file_location("make_goldens", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    few = module.equivalent_runs
    module.equivalent_runs = lambda model, batches, seed: few(model, batches, seed)[:2] + [
        (module.moved(model, seed * 1000 + number), batches) for number in range(EQUIVALENT_RUNS - 2)]
    module.run_once = worst_autocast(module)
    return module


def worst_autocast(module):
    """run_once() which, under autocast, gives the loss and each gradient that is farthest from the float64 run before it, of equivalent runs: the
    plain one, and some with every weight moved by at most one part in 4096, which rounds anew and moves the truth by far less than bf16 does."""
    torch, plain_run, truth = module.torch, module.run_once, []

    def moved(model, seed):
        generator = torch.Generator().manual_seed(seed)
        model = copy.deepcopy(model)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + (torch.rand(p.shape, generator=generator) - 0.5) * 2.0**-11)
        return model

    def cosine(a, b):
        return torch.nn.functional.cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0).item()

    def run_once(model, spec, batch):
        if not torch.is_autocast_enabled("cpu"):
            result = plain_run(model, spec, batch)
            if next(iter(result[2].values())).dtype == torch.float64:
                truth[:] = result
            return result
        models = [model] + [moved(model, seed) for seed in range(EQUIVALENT_AUTOCAST_RUNS - 1)]
        runs = [plain_run(each, spec, batch) for each in models]
        outputs = max((run[0] for run in runs), key=lambda output: abs(output["loss"].item() - truth[0]["loss"].item()))
        gradients = {name: min((run[2][name] for run in runs), key=lambda gradient: cosine(gradient, truth[2][name])) for name in runs[0][2]}
        return outputs, runs[0][1], gradients

    return run_once


def vision_width(draw):
    """The tower has width // 64 heads, of any size from 64 on, as long as they divide the width."""
    return draw.choice([64, 65, 67, 72, 80, 96, 127, 128, 130, 134, 160, 192, 195])


def draw_widths(draw, head):
    if head == "contrastive":  # one width for everything
        width = draw.choice([64, 66, 70, 72, 80, 96, 100, 128, 130, 160])
        sizes = [d for d in range(1, 81) if width % d == 0]
        return width, width // draw.choice(sizes), width
    size = draw.choice([1, 2, 3, 5, 6, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 72, 79, 80])
    heads = draw.randint(1, max(1, min(6, 160 // size)))
    while size * heads < 6:
        heads += 1
    return size * heads, heads, vision_width(draw)


def draw_case(seed, with_run):
    """A description as make_goldens.py's own CASES have it."""
    draw = random.Random(seed)
    head = HEADS[seed % len(HEADS)]
    width, heads, vision = draw_widths(draw, head)
    layers = draw.randint(1, 4)
    cross = draw.randint(1, layers + 1)
    removed = draw.random() < 0.3
    pad = draw.choice([1, 1, 0, 3])
    longest = draw.choice([1, 2, 3, 5, 9, 16, 17, 33, 40])
    if head == "masked_lm":
        longest = max(longest, 3)
    samples = draw.randint(2 if head in ("contrastive", "image_text_matching") else 1, 6)
    lengths = [longest] + [draw.randint(1, longest) for _ in range(samples - 1)]
    draw.shuffle(lengths)
    patch = draw.choice([2, 3, 4, 5, 8, 14, 16])
    image = patch * draw.randint(1, 5) + draw.randint(0, patch - 1)
    positions = longest + pad + 1
    text = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=draw.choice([1, 7, 16, 33, 64, 100]),
                hidden_act=draw.choice(ACTIVATIONS), vocab_size=draw.randint(12, 200), max_position_embeddings=draw.randint(positions, positions + 9),
                type_vocab_size=draw.choice([1, 1, 2, 3]), layer_norm_eps=draw.choice([1e-5, 1e-12, 1e-3]), pad_token_id=pad,
                bos_token_id=4 if pad == 0 else 0, hidden_dropout_prob=draw.choice([0.0, 0.1]), attention_probs_dropout_prob=draw.choice([0.0, 0.1]))
    vision_config = dict(hidden_size=vision, num_hidden_layers=layers + draw.randint(0, 2) + removed, patch_size=patch, image_size=image,
                         num_channels=draw.choice([3, 3, 1, 2, 4]), layer_norm_eps=draw.choice([1e-5, 1e-6]), remove_last_layer=removed,
                         share_layernorm=draw.random() < 0.7, stop_gradient=draw.random() < 0.3)
    top = dict(hidden_size=width, num_hidden_layers=cross, link_tower_type=draw.choice(["add", "scaled_add", "interpolate"]),
               share_cross_modal_transformer_layers=head == "contrastive" or draw.random() < 0.5, hidden_act=draw.choice(ACTIVATIONS),
               layer_norm_eps=draw.choice([1e-5, 1e-6, 1e-12]), share_link_tower_layers=cross == 1 and draw.random() < 0.3)
    if head == "masked_lm":
        top["tie_word_embeddings"] = draw.random() < 0.4
    if head == "contrastive":
        top.update(contrastive_hidden_size=draw.choice([5, 16, 24, 33]), logit_scale_init_value=draw.choice([2.6592, 0.0, 1.3]))
    spec = dict(head=head, seed=seed, top=top, text=text, vision=vision_config, batch=dict(lengths=lengths, length=longest + draw.choice([0, 0, 2])),
                description=f"drawn from seed {seed}", save=dict(dtype=draw.choice(["float32", "bfloat16"])))
    if draw.random() < 0.3:
        spec["freeze"] = draw.choice([["vision_model"], ["text_model"], ["vision_model", "text_model"]])
    if draw.random() < 0.25:
        spec["batch"]["image"] = tuple(patch * draw.randint(1, 6) + draw.randint(0, patch - 1) for _ in range(2))
        spec["forward"] = dict(interpolate_pos_encoding=True)
    if with_run and head != "base":
        spec["train"] = dict(weight_decay=draw.choice([0.0, 0.05]), gradient_accumulation_steps=draw.choice([1, 1, 2]))
    return spec


def check_finite(model, spec, batch, outputs, gradients):
    """In place of the oracle's own check: a random case may have gradients that are zero or nearly so."""
    if not all(v.isfinite().all() for v in (*outputs.values(), *gradients.values())):
        raise AssertionError("not finite")


def make_case(oracle, name, spec, folder):
    """The case's folder; a run that leaves no place for a clipping bound, or a parameter where it was, is left out of the case."""
    try:
        oracle.make_case(name, spec, folder)
    except (AssertionError, TypeError):
        if "train" not in spec:
            raise
        del spec["train"]
        oracle.make_case(name, spec, folder)


def verify(arguments, folder):
    command = [arguments.bascule, "verify", "--json", "--precision", arguments.precision, "--threads", str(arguments.threads), "--isa", arguments.isa, folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3) or not done.stdout.strip():
        return None, f"exit {done.returncode}: {done.stderr.strip()}"
    return json.loads(done.stdout)["cases"][0], ""


def run_case(oracle, arguments, seed, folder):
    """Makes and judges one case; prints what it is, and what failed. Whether it passed."""
    spec = draw_case(seed, with_run=seed % 3 == 0 and arguments.precision == "float32")
    name = f"random_{seed}"
    make_case(oracle, name, spec, folder)
    result, said = verify(arguments, os.path.join(folder, name))
    failed = [] if result is None else [t for t in result["tensors"] if not t["passed"]]
    passed = result is not None and not failed
    text, vision = spec["text"], spec["vision"]
    count = 0 if result is None else len(result["tensors"])
    print(f"{'passed' if passed else 'FAILED'} {name:12s} {spec['head']:20s} width {text['hidden_size']:3d} heads {text['num_attention_heads']:3d} vision {vision['hidden_size']:3d} "
          f"layers {text['num_hidden_layers']}+{spec['top']['num_hidden_layers']} {spec['top']['link_tower_type']:11s} {text['hidden_act']:17s} "
          f"{'run ' if 'train' in spec else ''}{count} tensors, {len(failed)} failed {said}", flush=True)
    if not passed:
        print(f"    {json.dumps(spec)}")
    for tensor in failed[:12]:
        measure = next(name for name in ("relative_l2", "one_minus_cosine", "norm") if name in tensor)
        error, reference = tensor[measure], tensor.get("reference_" + measure)
        print(f"    {tensor['name']}: {error:.3e}, limit {tensor['limit']:.3e}, reference {reference}")
    if not arguments.keep:
        shutil.rmtree(os.path.join(folder, name))
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", required=True, help="the program")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the others follow")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--keep", help="a folder in which the cases stay")
    arguments = parser.parse_args()
    reference_dir = os.environ.get("BASCULE_REFERENCE_DIR")
    if not reference_dir:
        parser.error("set BASCULE_REFERENCE_DIR to the reference set")
    oracle = load_oracle(reference_dir)
    oracle.check_sanity = check_finite
    oracle.summary = lambda *_: ""  # it sorts errors, which are none where a gradient is zero
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.set_verbosity_error()
    oracle.transformers.logging.disable_progress_bar()
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        for seed in range(arguments.seed, arguments.seed + arguments.cases):
            if not run_case(oracle, arguments, seed, folder):
                failures.append(seed)
    print(f"{arguments.cases - len(failures)} passed, {len(failures)} failed" + (f": seeds {failures}" if failures else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
