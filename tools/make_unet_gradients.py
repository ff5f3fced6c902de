#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of a whole UNet by PyTorch's autograd, in float64: the truth of tests/models/test_unet_gradients.cpp.

  tools/make_unet_gradients.py        writes tests/data/unet_gradients/; needs diffusers (0.42 wrote the files)

For the UNet of the reference case sd_v2: latents of an odd size, rows of text and a cotangent, all random; the output, and the gradient
of the sum of output times cotangent for every weight. float32_error.json has, for each of them, how far float32 is from it (the norm of the
difference over the norm): the worst of the plain run and of four whose weights were moved by half an ulp.
"""
import copy
import json
import pathlib

import torch
from diffusers import UNet2DConditionModel
from safetensors.torch import save_file

DATA = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data"
CASE, HEIGHT, WIDTH = "sd_v2", 5, 7
SAMPLES, TOKENS, TIMESTEP = 2, 5, 741


def results(unet, inputs, dtype):
    """{name: tensor in float64} of the output and the gradients."""
    unet = unet.to(dtype)
    unet.zero_grad()
    output = unet(inputs["latents"].to(dtype), TIMESTEP, encoder_hidden_states=inputs["text"].to(dtype)).sample
    (output * inputs["cotangent"].to(dtype)).sum().backward()
    return {"output": output.detach().double(), **{f"gradient/{name}": weight.grad.double() for name, weight in unet.named_parameters()}}


def moved(unet):
    """The same with each weight multiplied by 1 - e, 1 or 1 + e, e half an ulp, at random."""
    with torch.no_grad():
        for weight in unet.parameters():
            weight.mul_(1 + (torch.randint(3, weight.shape, dtype=torch.float64) - 1) * 2.0**-24)
    return unet


def main():
    torch.manual_seed(20)
    unet = UNet2DConditionModel.from_pretrained(DATA / "goldens-families" / CASE / "unet", torch_dtype=torch.float32).eval()
    shape = (SAMPLES, 4, HEIGHT, WIDTH)
    inputs = {"latents": torch.randn(shape), "text": torch.randn(SAMPLES, TOKENS, unet.config.cross_attention_dim), "cotangent": torch.randn(shape),
              "time": unet.time_proj(torch.tensor([TIMESTEP]))}  # as the class computes it: angles in float32, whatever the weights are
    truth = results(unet, inputs, torch.float64)
    runs = [results(copy.deepcopy(unet), inputs, torch.float32)]
    runs += [results(moved(copy.deepcopy(unet)), inputs, torch.float32) for _ in range(4)]
    errors = {name: max(float((run[name] - value).norm() / value.norm()) for run in runs) for name, value in truth.items()}
    folder = DATA / "unet_gradients"
    folder.mkdir(exist_ok=True)
    save_file({**inputs, **{name: value.float().contiguous() for name, value in truth.items()}}, folder / f"{CASE}.safetensors")
    (folder / f"{CASE}.safetensors").chmod(0o644)
    (folder / "float32_error.json").write_text(json.dumps(errors, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
