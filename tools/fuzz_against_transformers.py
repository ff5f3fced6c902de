#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Bascule with Transformers and Diffusers on models of random shape.

    fuzz_against_transformers.py --bascule build/bascule [--family bridgetower | vit | deit | bert | roberta | distilbert | t5 | embedding | stable_diffusion] [--head NAME] [--precision bf16] [--cases 40] [--seed 1] [--keep DIR] [--threads N] [--isa NAME]

Draws models from the seed (tools/random_models.py, tools/random_pipelines.py). For each, the reference set's own oracle/make_goldens*.py computes the
truth in float64 and the error of 17 float32 runs of PyTorch (5 of a pipeline) in the form of a golden case, and `bascule verify` judges us by it. Every third case
has a training run; a pipeline has runs of two schedulers.
In bf16 the rule is that of `bascule verify --precision bf16`, with the worst figures of 17 equivalent runs of torch.autocast; a gradient may also be as much longer
or shorter than the truth as twice the worst of them, whatever the constant limit of `verify`. Latents and pictures of a pipeline have a constant limit there, which a
random one may exceed after many steps.

The reference set is found through BASCULE_REFERENCE_DIR. Prints one line a case; for a failure the whole description, and the tensors that failed.
Needs torch, transformers and safetensors, for pipelines also diffusers, for `embedding` sentence-transformers. Exit 0: all passed; 1: some failed; 2: wrong use.
"""
import argparse
import copy
import importlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import bert_relatives
import deit_oracle
import random_models
import random_pipelines
import sequence_oracle
import token_oracle

EQUIVALENT_AUTOCAST_RUNS = 17  # with five, 10 to 30 % of equally good runs of PyTorch itself fail where the model is small
EQUIVALENT_RUNS = 16  # with five in all, 3 to 5 % of equally good runs of PyTorch itself fail
ORACLES = {"bridgetower": "make_goldens", "vit": "make_goldens_vit_bert", "deit": "make_goldens_vit_bert", "bert": "make_goldens_vit_bert", **dict.fromkeys(bert_relatives.FAMILIES, "make_goldens_vit_bert"),
           "t5": "make_goldens_t5_sd", "embedding": "make_goldens_embeddings", "stable_diffusion": "make_goldens_t5_sd"}


def load_oracle(reference_dir, family="bridgetower"):
    """The reference set's program that makes a family's cases, with limits that rest on 16 equally good float32 runs beside the plain one: its own two with the rows in another order, all others
    with every weight moved by half a unit in the last place."""
    sys.path.insert(0, os.path.join(reference_dir, "oracle"))
    module = importlib.import_module(ORACLES[family])
    if family == "embedding":  # whose parts take the place of another oracle's
        module.take_the_place_of_vit_and_bert()
        module = module.families
    if ORACLES[family] == "make_goldens_vit_bert":
        bert_relatives.extend_oracle(module)
        deit_oracle.extend_oracle(module)
    few = module.equivalent_runs
    module.equivalent_runs = lambda model, batches, seed: few(model, batches, seed)[:2] + [
        (module.moved(model, seed * 1000 + number), batches) for number in range(EQUIVALENT_RUNS - 2)]
    if family == "bert" or family in bert_relatives.FAMILIES:
        sequence_oracle.add_sequence_head(module)
        token_oracle.add_token_head(module)
    module.run_once = worst_autocast(module)
    return module


def worst_autocast(module):
    """run_once() which, under autocast, gives the loss and each gradient that is farthest from the float64 run before it, of equivalent runs: the
    plain one, and some with every weight moved by at most one part in 4096, which rounds anew and moves the truth by far less than bf16 does.
    module.autocast_lengths: of each gradient, how much its length differs from the truth's in the worst of these runs.
    module.zero_parts: how long the part of a gradient that is zero in exact arithmetic is in the case's worst float32 run."""
    torch, plain_run, truth = module.torch, module.run_once, []
    module.autocast_lengths, module.zero_parts = {}, {}

    def moved(model, seed):
        generator = torch.Generator().manual_seed(seed)
        model = copy.deepcopy(model)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + (torch.rand(p.shape, generator=generator) - 0.5) * 2.0**-11)
        return model

    def cosine(a, b):
        return torch.nn.functional.cosine_similarity(a.flatten().double(), b.flatten().double(), dim=0).item()

    def length(gradient):
        return gradient.double().norm().item()

    def run_once(model, spec, batch):
        if not torch.is_autocast_enabled("cpu"):
            result = plain_run(model, spec, batch)
            if next(iter(result[2].values())).dtype == torch.float64:
                truth[:] = result
            elif hasattr(module, "insensitive_slices"):
                for name, start, stop in module.insensitive_slices(result[2]):
                    module.zero_parts[name] = max(module.zero_parts.get(name, 0.0), length(result[2][name].flatten()[start:stop]))
            return result
        models = [model] + [moved(model, seed) for seed in range(EQUIVALENT_AUTOCAST_RUNS - 1)]
        runs = [plain_run(each, spec, batch) for each in models]
        outputs = max((run[0] for run in runs), key=lambda output: abs(output["loss"].item() - truth[0]["loss"].item()))
        module.autocast_lengths = {name: max(abs(length(run[2][name]) / length(truth[2][name]) - 1) for run in runs) for name in runs[0][2] if length(truth[2][name]) > 0}
        gradients = {name: min((run[2][name] for run in runs), key=lambda gradient: cosine(gradient, truth[2][name])) for name in runs[0][2]}
        return outputs, runs[0][1], gradients

    return run_once


def check_finite(model, spec, batch, outputs, gradients, *_):
    """In place of the oracle's own check: a random case may have gradients that are zero or nearly so."""
    if not all(v.isfinite().all() for v in (*outputs.values(), *gradients.values())):
        raise AssertionError("not finite")


def make_case(oracle, name, spec, folder):
    """The case's folder. Searches whose ids hang on the last bit are drawn anew, then left out; a run that leaves no place for a clipping bound, or a parameter where it was,
    is left out of the case."""
    for attempt in range(8):
        try:
            return oracle.make_case(name, spec, folder)
        except getattr(oracle, "NotRobust", ()):
            draw = random.Random(1000 * spec["seed"] + attempt)
            spec["generate"] = random_models.t5_searches(draw, spec["config"]["vocab_size"]) if attempt < 6 else {}
        except (AssertionError, TypeError):
            if "train" not in spec:
                raise
            del spec["train"]


def verify(arguments, folder):
    command = [arguments.bascule, "verify", "--json", "--precision", arguments.precision, "--threads", str(arguments.threads), "--isa", arguments.isa, folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3) or not done.stdout.strip():
        return None, f"exit {done.returncode}: {done.stderr.strip()}"
    document = json.loads(done.stdout)
    return (document["cases"][0], "") if "cases" in document else (None, f"exit {done.returncode}: {done.stderr.strip()}")


def draw(arguments, seed):
    """The description of the seed's case."""
    return family_of(arguments).DRAWS[arguments.family](seed, with_run=seed % 3 == 0 and arguments.precision == "float32")


def family_of(arguments):
    return random_pipelines if arguments.family == "stable_diffusion" else random_models


def seeds_of(arguments):
    """Of the cases with the head that is asked for; of whatever head without one."""
    seeds = (seed for seed in itertools.count(arguments.seed) if arguments.head in (None, draw(arguments, seed)["head"]))
    return itertools.islice(seeds, arguments.cases)


def has_failed(tensor, oracle):
    """By more than twice what PyTorch's gradients differ in length, too. Where a gradient is zero in exact arithmetic, `verify` allows a part of the whole gradient's length; that
    is nothing where the whole gradient is zero too, as it is of a ranking loss whose candidates all have the same few tokens. So it may also have three times the length that it has
    in the worst float32 run of PyTorch, the factor of every other tensor."""
    name, _, part = tensor["name"].removeprefix("grad.").partition(" ")
    allowed = {"(length)": 2 * oracle.autocast_lengths.get(name, 0.0), "(zero part)": 3 * oracle.zero_parts.get(name, 0.0)}
    return not tensor["passed"] and not (part in allowed and tensor["name"].startswith("grad.") and tensor["norm"] <= allowed[part])


def run_case(oracle, arguments, seed, folder):
    """Makes and judges one case; prints what it is, and what failed. Whether it passed."""
    family = family_of(arguments)
    spec = draw(arguments, seed)
    name = f"random_{seed}"
    oracle.zero_parts.clear()
    try:
        make_case(oracle, name, spec, folder)
        result, said = verify(arguments, os.path.join(folder, name))
    except AssertionError as error:
        result, said = None, f"the oracle's own check fails: {error}"
    failed = [] if result is None else [t for t in result["tensors"] if has_failed(t, oracle)]
    passed = result is not None and not failed
    count = 0 if result is None else len(result["tensors"])
    print(f"{'passed' if passed else 'FAILED'} {name:12s} {spec['head']:20s} {family.summary(spec)} {'run ' if 'train' in spec else ''}{count} tensors, "
          f"{len(failed)} failed {said}", flush=True)
    if not passed:
        print(f"    {json.dumps(spec)}")
    for tensor in failed[:12]:
        measure = next(name for name in ("relative_l2", "one_minus_cosine", "norm") if name in tensor)
        error, reference = tensor[measure], tensor.get("reference_" + measure)
        shown = "not a number" if error is None else f"{error:.3e}"
        print(f"    {tensor['name']}: {shown}, limit {tensor['limit']:.3e}, reference {reference}")
    if not arguments.keep:
        shutil.rmtree(os.path.join(folder, name))
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bascule", required=True, help="the program")
    parser.add_argument("--family", choices=ORACLES, default="bridgetower")
    parser.add_argument("--head", help="of every case; default: all that the family has, in turn")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1, help="of the first case; the others follow")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--precision", choices=["float32", "bf16"], default="float32")
    parser.add_argument("--keep", help="a folder in which the cases stay")
    arguments = parser.parse_args()
    heads = random_models.HEADS.get(arguments.family, [])
    if arguments.head and arguments.head not in heads:
        parser.error(f"{arguments.family} has " + (", ".join(heads) if heads else "one head alone"))
    reference_dir = os.environ.get("BASCULE_REFERENCE_DIR")
    if not reference_dir:
        parser.error("set BASCULE_REFERENCE_DIR to the reference set")
    oracle = load_oracle(reference_dir, arguments.family)
    oracle.check_sanity = check_finite
    if arguments.family == "stable_diffusion":
        random_pipelines.extend_oracle(oracle, arguments.precision)
    oracle.summary = lambda *_: ""  # it sorts errors, which are none where a gradient is zero
    oracle.torch.set_num_threads(1)
    oracle.transformers.logging.set_verbosity_error()
    oracle.transformers.logging.disable_progress_bar()
    failures = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or temporary
        for seed in seeds_of(arguments):
            if not run_case(oracle, arguments, seed, folder):
                failures.append(seed)
    print(f"{arguments.cases - len(failures)} passed, {len(failures)} failed" + (f": seeds {failures}" if failures else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
