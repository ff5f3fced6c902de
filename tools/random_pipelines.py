# SPDX-License-Identifier: Apache-2.0
"""Stable Diffusion pipelines of random shape, drawn from a seed, as the CASES of the reference set's oracle/make_goldens_t5_sd.py describe them, and what that
program needs to make cases of them: every scheduler with every spacing of its timesteps, and weights in every form of file."""
import json
import logging
import math
import os
import random

PARTS = {"text_encoder": ("model", "pytorch_model"), "unet": ("diffusion_pytorch_model",) * 2, "vae": ("diffusion_pytorch_model",) * 2}
SPACINGS = ["leading", "linspace", "trailing"]
TEXT_ACTIVATIONS = ["quick_gelu", "quick_gelu", "gelu", "gelu_new", "relu", "silu"]
WORDS = ["a", "cat", "two", "red", "Heart", "SMILING", "face", "with", "tears", "joy", "of", "background,", "don't", "it's", "1024", "x", "|", "(best", "quality:1.2)", "--",
         "caf\u00e9", "\u0130stanbul", "\u65e5\u672c", "\U0001F600", "snow-covered", "mountains", "<|endoftext|>", "\u00df", "3.14", "oil\tpainting"]


def schedulers():
    """(class, what its scheduler_config.json has beside the betas) by name, as the oracle's SCHEDULERS."""
    result = {}
    for spacing in SPACINGS:
        for end, is_one in (("", False), ("_one", True)):
            result[f"pndm_{spacing}{end}"] = ("PNDMScheduler", dict(skip_prk_steps=True, set_alpha_to_one=is_one, steps_offset=1, timestep_spacing=spacing))
            result[f"ddim_{spacing}{end}"] = ("DDIMScheduler", dict(clip_sample=False, set_alpha_to_one=is_one, steps_offset=1, timestep_spacing=spacing))
        result[f"euler_{spacing}"] = ("EulerDiscreteScheduler", dict(steps_offset=1, timestep_spacing=spacing))
    return result


def two_schedulers(draw):
    kinds = draw.sample([(kind, spacing) for kind in ("pndm", "ddim", "euler") for spacing in SPACINGS], 2)
    return ["_".join(kind) + ("_one" if kind[0] != "euler" and draw.random() < 0.5 else "") for kind in kinds]


def text(draw):
    kind = draw.random()
    count = 0 if kind < 0.15 else draw.randint(1, 6) if kind < 0.7 else draw.randint(7, 25) if kind < 0.85 else draw.randint(80, 120)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def width(draw, groups, heads, most):
    """Channels that groups and heads divide."""
    unit = math.lcm(groups, heads, 2)
    return unit * draw.randint(1, max(1, most // unit))


def unet(draw):
    levels = draw.randint(2, 4)
    groups = draw.choice([1, 2, 3, 4, 8])
    heads = [draw.choice([1, 2, 3, 4, 5]) for _ in range(levels)]
    if draw.random() < 0.5:
        heads = [heads[0]] * levels
    kinds = lambda side: [f"CrossAttn{side}Block2D" if draw.random() < 0.6 else f"{side}Block2D" for _ in range(levels)]
    down, up = kinds("Down"), kinds("Up")
    attends = [below.startswith("Cross") or above.startswith("Cross") for below, above in zip(down, up[::-1], strict=True)]
    attends[-1] = True  # the block in the middle always does
    channels = [width(draw, groups, each if with_heads else 1, 40) for each, with_heads in zip(heads, attends, strict=True)]
    return dict(block_out_channels=channels, layers_per_block=draw.choice([1, 1, 2, 3]), norm_num_groups=groups,
                attention_head_dim=heads[0] if len(set(heads)) == 1 and draw.random() < 0.7 else heads, down_block_types=down, up_block_types=up,
                use_linear_projection=draw.random() < 0.5, upcast_attention=draw.random() < 0.3, norm_eps=draw.choice([1e-5, 1e-5, 1e-6]),
                flip_sin_to_cos=draw.random() < 0.8, freq_shift=int(channels[0] > 2 and draw.random() < 0.3))


def latents(draw, factor):
    """Height and width: pictures have sides of a multiple of 8 pixels, so only those of a decoder with 4 levels have latents with odd sides."""
    most = {1: 2, 2: 4, 4: 6, 8: 13}[factor]
    sides = sorted(draw.randint(1, most) * 8 // factor for _ in range(2))
    while sides[0] * sides[1] > 192:
        sides[1] -= 8 // math.gcd(8, factor)
    return sides[::-1] if draw.random() < 0.6 else sides


def files(draw):
    """How the weights of each part lie in its folder."""
    types = ["float32", "float16", "bfloat16"]
    result = {part: dict(dtype=draw.choice(types), form=draw.choice(["safetensors", "safetensors", "bin", "shards"])) for part in PARTS}
    for own in result.values():
        own["half_name"] = own["dtype"] == "float16" and own["form"] != "shards" and draw.random() < 0.5
    return result


def draw_pipeline(seed, with_run):
    del with_run  # pipelines are not trained
    draw = random.Random(seed)
    groups, levels = draw.choice([1, 2, 4]), draw.choice([1, 2, 3, 4, 4, 4])
    heads = draw.choice([1, 2, 3, 4])
    prompts = [text(draw) for _ in range(draw.choice([1, 2, 2, 3]))]
    spec = dict(family="stable_diffusion", head="text_to_image", seed=seed, description=f"drawn from seed {seed}",
                text=dict(hidden_size=heads * draw.choice([4, 5, 8, 12]), intermediate_size=draw.choice([7, 24, 40, 64]), num_hidden_layers=draw.randint(1, 4),
                          num_attention_heads=heads, hidden_act=draw.choice(TEXT_ACTIVATIONS), layer_norm_eps=draw.choice([1e-5, 1e-5, 1e-3])),
                unet=unet(draw),
                vae=dict(block_out_channels=[groups * draw.randint(1, 16 // groups) for _ in range(levels)], layers_per_block=draw.choice([1, 2, 3]), norm_num_groups=groups,
                         scaling_factor=draw.choice([0.18215, 0.13025, 1.0])),
                scheduler=dict(prediction_type=draw.choice(["epsilon", "v_prediction"])), schedulers=two_schedulers(draw), prompts=prompts,
                negative_prompts=[draw.choice(["", text(draw)]) for _ in prompts], guidance_scale=draw.choice([0.0, 1.0, 1.5, 4.0, 7.5, 7.5]),
                latents=latents(draw, 2 ** (levels - 1)), timestep=draw.choice([0, 1, 999, draw.randint(2, 998), draw.randint(0, 998) + 0.5]), steps=draw.randint(3, 20),
                published_names=draw.random() < 0.5, files=files(draw))
    if spec["published_names"] and spec["files"]["vae"]["form"] == "shards":
        spec["files"]["vae"]["form"] = "bin"  # Diffusers reads the old names from whole files alone
    if draw.random() < 0.4:
        spec["pad_token"] = "!"
    return spec


DRAWS = {"stable_diffusion": draw_pipeline}


def summary(spec):
    unet_, files_ = spec["unet"], spec["files"]
    forms = " ".join(f"{own['dtype']}.{own['form']}" for own in files_.values())
    return (f"unet {len(unet_['block_out_channels'])} x {unet_['layers_per_block']} vae {len(spec['vae']['block_out_channels'])} x {spec['vae']['layers_per_block']} "
            f"latents {spec['latents'][0]:2d} x {spec['latents'][1]:2d} {spec['scheduler']['prediction_type']:12s} guidance {spec['guidance_scale']:3} "
            f"{spec['steps']:2d} steps of {' '.join(spec['schedulers']):34s} {forms}{' old names' if spec['published_names'] else ''}")


def store_part(torch, load_file, save_file, folder, stems, own, seed):
    """Saves the part's weights anew. The oracle's are of bfloat16: those of a wider type are first moved within what bfloat16 rounds off."""
    safe, pickled = (os.path.join(folder, stem) for stem in stems)
    tensors = load_file(safe + ".safetensors")
    os.remove(safe + ".safetensors")
    generator, dtype = torch.Generator().manual_seed(seed), getattr(torch, own["dtype"])
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            moved = tensor.float() * (1 + (torch.rand(tensor.shape, generator=generator) - 0.5) * 2.0**-8)
            tensors[name] = (tensor if dtype == torch.bfloat16 else moved).to(dtype)
    if own["form"] == "bin":
        torch.save(tensors, pickled + ".bin")
    elif own["form"] == "safetensors":
        save_file(tensors, safe + ".safetensors", metadata={"format": "pt"})
    else:
        count = min(3, len(tensors))
        names = [f"{stems[0]}-{number + 1:05}-of-{count:05}.safetensors" for number in range(count)]
        place = {tensor: names[index % count] for index, tensor in enumerate(sorted(tensors))}
        for name in names:
            save_file({tensor: tensors[tensor] for tensor in place if place[tensor] == name}, os.path.join(folder, name), metadata={"format": "pt"})
        with open(safe + ".safetensors.index.json", "w") as f:
            json.dump({"metadata": {"total_size": sum(t.numel() * t.element_size() for t in tensors.values())}, "weight_map": place}, f)


def rename_halves(folder, files_):
    """Gives half precision files the names that published ones have, by which Diffusers finds them only when asked to."""
    for part, own in files_.items():
        if own["half_name"]:
            for stem in PARTS[part]:
                for end in (".safetensors", ".bin"):
                    path = os.path.join(folder, part, stem)
                    if os.path.exists(path + end):
                        os.rename(path + end, path + ".fp16" + end)


def extend_oracle(oracle, precision):
    """Lets the oracle make the pipelines that are drawn here. Its figures in bf16 are made only for that precision: they take five runs."""
    original_make, rename, original_sampler = oracle.sd_make, oracle.sd_rename, oracle.Sampler

    class Sampler(original_sampler):
        """The oracle's, with integer timesteps where its reference has them, and alpha as the scheduler's own keys say."""

        def __init__(self, name, prediction_type, steps):
            super().__init__(name, prediction_type, steps)
            if self.kind != "EulerDiscreteScheduler":
                self.timesteps = [oracle.round_half_even(t) for t in self.timesteps]

        def alpha(self, t):
            return 1.0 if t < 0 and self.own["set_alpha_to_one"] else super().alpha(t)

    def make(name, spec, folder, case, errors):
        def store(at, clip, published):
            rename(at, clip, published)
            for number, (part, own) in enumerate(spec["files"].items()):
                store_part(oracle.torch, oracle.load_file, oracle.save_file, os.path.join(at, part), PARTS[part], own, 10 * spec["seed"] + number)

        oracle.sd_rename = store
        original_make(name, spec, folder, case, errors)
        rename_halves(folder, spec["files"])

    logging.getLogger("diffusers.models.modeling_utils").disabled = True  # it names a file that is missing before it reads the .bin
    oracle.SCHEDULERS.update(schedulers())
    oracle.Sampler, oracle.sd_make = Sampler, make
    if precision == "float32":
        oracle.sd_bf16 = lambda *_: {}
    oracle.sd_sanity = lambda *_: None  # a random pipeline may hardly heed its text, and its pictures may be of one colour
