#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What diffusers' schedulers do, in float64: the truth of tests/generate/test_programs.cpp.

  tools/make_sampling_goldens.py        writes tests/data/sampling/schedulers.json; needs diffusers (0.39 wrote the file)

`timesteps`: for each class and spacing four hexadecimal digits for each number of steps from 1 to 1000: the first of the SHA-256
of the timesteps as little-endian float32, "----" where diffusers fails or where numpy's rounding gives others than the formula of
trailing spacing. `runs`: what three latents become with a model of fixed outputs that also answers to its input. diffusers keeps
its tables in float32; here its own code runs with float64 wherever it says float32.
"""
import hashlib
import json
import pathlib
from fractions import Fraction

import diffusers
import numpy
import torch
from diffusers.schedulers import scheduling_ddim, scheduling_euler_discrete, scheduling_pndm

TRAINING_STEPS = 1000
OWN = {"DDIMScheduler": {"clip_sample": False}, "PNDMScheduler": {"skip_prk_steps": True}, "EulerDiscreteScheduler": {}}
SPACINGS = ["leading", "linspace", "trailing"]
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
STEPS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 15, 20, 25, 27, 30, 33, 47, 50, 100, 250, 333, 501, 999, 1000]
VARIANTS = [  # beside the published configuration, at few steps
    {"steps_offset": 0}, {"set_alpha_to_one": True}, {"set_alpha_to_one": True, "steps_offset": 0},
    {"beta_start": 0.0001, "beta_end": 0.02, "beta_schedule": "linear"}, {"num_train_timesteps": 37, "beta_end": 0.3}]


class Wide:
    """A module whose float32 is its float64."""

    def __init__(self, module):
        self.module, self.float32 = module, module.float64

    def __getattr__(self, name):
        return getattr(self.module, name)


def set_width(wide):
    for module in (scheduling_ddim, scheduling_euler_discrete, scheduling_pndm):
        module.torch, module.np = (Wide(torch), Wide(numpy)) if wide else (torch, numpy)


def scheduler_of(config):
    own = {key: value for key, value in config.items() if key != "_class_name"}
    if config["_class_name"] == "EulerDiscreteScheduler":
        own.pop("set_alpha_to_one", None)
    return getattr(diffusers, config["_class_name"])(**own)


def trailing_by_formula(total, steps):
    return [round(Fraction(total) - Fraction(i * total, steps)) - 1 for i in range(steps)]


def timesteps_of(config, steps):
    """None: not to be compared."""
    scheduler = scheduler_of(config)
    scheduler.set_timesteps(steps)
    timesteps = [float(t) for t in scheduler.timesteps]
    total = scheduler.config.num_train_timesteps
    distinct = timesteps[:1] + timesteps[2:] if config["_class_name"] == "PNDMScheduler" and steps > 1 else timesteps
    if config["timestep_spacing"] == "trailing" and distinct != trailing_by_formula(total, steps):
        return None
    return timesteps if max(timesteps) < total else None


def digest_of(config, steps):
    timesteps = timesteps_of(config, steps)
    return "----" if timesteps is None else hashlib.sha256(numpy.array(timesteps, "<f4").tobytes()).hexdigest()[:4]


def model(call, x):
    fixed = torch.tensor([((call * 37 + j * 101 + 11) % 257 - 128) / 64 for j in range(3)], dtype=torch.float64)
    return fixed + x / 4


def run(config, steps):
    scheduler = scheduler_of(config)
    scheduler.set_timesteps(steps)
    x = torch.tensor([1.0, -0.5, 0.25], dtype=torch.float64) * scheduler.init_noise_sigma
    for call, t in enumerate(scheduler.timesteps):
        x = scheduler.step(model(call, scheduler.scale_model_input(x, t)), t, x, return_dict=False)[0]
    assert x.dtype == torch.float64
    return x.tolist()


def configurations():
    """Each with the numbers of steps to be run."""
    for class_name, own in OWN.items():
        for prediction in ("epsilon", "v_prediction"):
            for spacing in SPACINGS:
                config = {"_class_name": class_name, "num_train_timesteps": TRAINING_STEPS, **BETAS, **own, "set_alpha_to_one": False,
                          "steps_offset": 1, "timestep_spacing": spacing, "prediction_type": prediction}
                if class_name == "EulerDiscreteScheduler":
                    del config["set_alpha_to_one"]
                yield config, STEPS
                for variant in VARIANTS:
                    if class_name != "EulerDiscreteScheduler" or "set_alpha_to_one" not in variant:
                        yield {**config, **variant}, [1, 2, 5, 12]


def main():
    file = {"made_by": f"tools/make_sampling_goldens.py, diffusers {diffusers.__version__}", "timesteps": {}}
    for class_name, own in OWN.items():
        for spacing in SPACINGS:
            config = {"_class_name": class_name, **BETAS, **own, "steps_offset": 1, "timestep_spacing": spacing}
            digests = [digest_of(config, steps) for steps in range(1, TRAINING_STEPS + 1)]
            print(class_name, spacing, "compared at", sum(digest != "----" for digest in digests), "numbers of steps")
            file["timesteps"][f"{class_name} {spacing}"] = "".join(digests)
    runs = []
    for config, numbers in configurations():
        numbers = [steps for steps in numbers if timesteps_of(config, steps) is not None]
        set_width(True)
        runs.append({"config": config, "steps": numbers, "latents": [run(config, steps) for steps in numbers]})
        set_width(False)
    text = json.dumps(file, separators=(",", ":"))[:-1] + ',\n"runs": [\n' + ",\n".join(json.dumps(one, separators=(",", ":")) for one in runs) + "]}\n"
    path = pathlib.Path(__file__).resolve().parent.parent / "tests/data/sampling/schedulers.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    print(sum(len(one["steps"]) for one in runs), "runs,", len(text), "bytes")


if __name__ == "__main__":
    main()
