# SPDX-License-Identifier: Apache-2.0
"""The script that draws pictures whose command lines tools/settings_from_command_line.py takes: Optimum Habana's
text_to_image_generation.py, as of January 2026. A flag that asks for another kind of picture is an error; one that Bascule draws
without is named."""
import re

from conversion import NOT_CARRIED, CommandLineError, Script, parse_bool, place_of

CARRIED = {
    "num_images_per_prompt": ("draw.num_images_per_prompt", int),
    "batch_size": ("draw.batch_size", int),
    "num_inference_steps": ("draw.num_inference_steps", int),
    "guidance_scale": ("draw.guidance_scale", float),
    "seed": ("draw.seed", int),
    "throughput_warmup_steps": ("draw.throughput_warmup_batches", int),
}

# Flags without which the pictures would be of another kind.
REFUSED = {
    "control_image": "Bascule has no ControlNet",
    "base_image": "Bascule draws whole pictures: there is no inpainting",
    "mask_image": "Bascule draws whole pictures: there is no inpainting",
    "ldm3d": "Bascule draws no depth maps",
    "prompt": "the script's flag is --prompts",
    "negative_prompt": "the script's flag is --negative_prompts",
}

# Read by a function below.
TRANSLATED = {
    "model_name_or_path", "prompts", "prompts_file", "negative_prompts", "height", "width", "scheduler", "timestep_spacing", "eta", "output_type",
    "image_save_dir", "bf16", *REFUSED,
}

NUMBER_TYPES = "precision = \"float32\" and \"bf16\" are implemented"
OWN_RANKS = "distributed.world_size is all that Bascule needs: it starts its ranks itself"
ONE_ENCODER = "Stable Diffusion 1 and 2 have one text encoder"
NO_ADAPTERS = "merge adapters into the model's weights first"
NOT_DRAWN = {
    "use_habana": "Bascule runs on the CPU",
    "gaudi_config_name": "specific to Gaudi",
    "optimize": "specific to Gaudi",
    "quant_mode": NUMBER_TYPES, "fp16": NUMBER_TYPES, "dtype": NUMBER_TYPES, "torch_dtype": NUMBER_TYPES,
    "profiling_warmup_steps": "all_results.json has the seconds of each stage",
    "profiling_steps": "all_results.json has the seconds of each stage",
    "use_cpu_rng": "the noise is the same on every machine",
    "latents": "name a safetensors file in draw.latents_file",
    "pipeline_save_dir": "the model's folder stays as it is",
    "prompts_2": ONE_ENCODER, "prompts_3": ONE_ENCODER, "negative_prompts_2": ONE_ENCODER, "negative_prompts_3": ONE_ENCODER,
    "clip_skip": "the text encoder's last layer is always used",
    "use_compel": "words of prompts have no weights",
    "use_freeu": "FreeU is not implemented",
    "use_zero_snr": "rescale_betas_zero_snr is not implemented",
    "guidance_rescale": "not implemented",
    "controlnet_model_name_or_path": "has no effect without --control_image",
    "control_preprocessing_type": "has no effect without --control_image",
    "use_lora": NO_ADAPTERS, "lora_id": NO_ADAPTERS, "lora_scale": NO_ADAPTERS,
    "unet_adapter_name_or_path": NO_ADAPTERS, "text_encoder_adapter_name_or_path": NO_ADAPTERS,
    "distributed": OWN_RANKS, "use_mpi": OWN_RANKS, "use_deepspeed": OWN_RANKS, "master_port": OWN_RANKS,
    "use_distributed_cfg": "a rank computes both halves of the guidance",
}

# By the names for which the script chooses another pipeline, and those of published models with other inputs or outputs.
OTHER_MODELS = r"stable-diffusion-xl|sdxl|stable-diffusion-3|sd3|flux|qwen|ldm3d|inpaint|2-depth"

SCHEDULERS = {"ddim": "ddim", "euler_discrete": "euler", "pndm": "pndm", "default": "default"}
DEFAULT = "the script's default"


def refuse(flag, value, reason):
    raise CommandLineError(f"--{flag} {value}".rstrip() + f": {reason}")


def model(c):
    name = c.text("model_name_or_path", "CompVis/stable-diffusion-v1-4")
    if re.search(OTHER_MODELS, name, re.IGNORECASE):
        refuse("model_name_or_path", name, "Bascule draws with Stable Diffusion 1 and 2: name one of these")
    folder, comment = place_of(c, name, True)
    c.set("model.model_name_or_path", folder, comment if "model_name_or_path" in c.flags else f"{comment}, {DEFAULT}")


def prompts(c):
    """The number of prompts, or None if they are in a file."""
    if "prompts_file" in c.flags:
        c.set("draw.prompts_file", c.text("prompts_file"))
        if "prompts" in c.flags:
            c.drop("prompts", "prompts_file takes precedence, as in the script")
        if c.text("prompts_file").endswith(".jsonl"):
            c.notes.append("give prompts_file another ending: rows of a .jsonl file are JSON objects, and those of the script's file are prompts")
        return None
    texts = c.flags.get("prompts", ["An image of a squirrel in Picasso style"])
    if not texts:
        raise CommandLineError("--prompts: at least one prompt is wanted")
    c.set("draw.prompts", texts, "" if "prompts" in c.flags else DEFAULT)
    return len(texts)


def negative_prompts(c, number_of_prompts):
    texts = c.flags.get("negative_prompts", [])
    if len(texts) > 1 and number_of_prompts not in (None, len(texts)):
        raise CommandLineError(f"--negative_prompts: {len(texts)} for {number_of_prompts} of --prompts: give one for all, or one for each")
    if not any(texts):
        return
    if c.converted("guidance_scale", float, 7.5) <= 1.0:
        c.drop("negative_prompts", "has no effect without guidance: --guidance_scale is 1 or less")
    elif len(set(texts)) == 1:
        c.set("draw.negative_prompt", texts[0])
    else:
        c.drop("negative_prompts", "the settings have one for all prompts")
        c.notes.append("for a negative prompt of each prompt, name a .jsonl file in draw.prompts_file, with a row for each: "
                       "{\"prompt\": \"...\", \"negative_prompt\": \"...\"}")


def size(c):
    sides = {flag: c.converted(flag, int, 0) for flag in ("height", "width")}
    for flag, side in sides.items():
        if min(sides.values()) > 0:
            c.set("draw." + flag, side)
        elif side > 0:
            c.drop(flag, "the script takes height and width only together")


def scheduler(c):
    name = c.text("scheduler", "ddim")
    if name not in SCHEDULERS:
        reason = {"euler_ancestral_discrete": "it draws new noise in every step, which Bascule's schedulers do not",
                  "flow_match_euler_discrete": "it is for models of flow matching, such as FLUX"}.get(name, "not supported")
        refuse("scheduler", name, f"{reason}; known: {', '.join(SCHEDULERS)}")
    c.set("draw.scheduler", SCHEDULERS[name], "" if "scheduler" in c.flags else DEFAULT)
    if name == "default" and "timestep_spacing" in c.flags:
        c.drop("timestep_spacing", "with the model's own scheduler the script keeps its spacing")
    elif "timestep_spacing" in c.flags:
        c.set("draw.timestep_spacing", c.text("timestep_spacing"))
    elif name in ("ddim", "euler_discrete"):
        c.set("draw.timestep_spacing", "linspace", f"{DEFAULT} since 2024; before, the model's own")
    if c.converted("eta", float, 0.0) != 0.0:
        c.drop("eta", "Bascule's DDIM adds no noise: eta is 0")


def ranks(c):
    if c.settings.pop("distributed.hostfile", None):
        c.drop("hostfile", "the ranks of a run that draws are on one machine")


def settings(c):
    for flag, reason in REFUSED.items():
        if flag in c.flags:
            refuse(flag, " ".join(c.flags[flag]), reason)
    ranks(c)
    model(c)
    if c.converted("bf16", parse_bool, False):
        c.set("model.precision", "bf16")
    c.set("draw.output_dir", c.text("image_save_dir", "stable-diffusion-generated-images"), "" if "image_save_dir" in c.flags else DEFAULT)
    negative_prompts(c, prompts(c))
    c.carry(CARRIED)
    size(c)
    scheduler(c)
    if "draw.seed" in c.settings:
        c.set("draw.seed", c.settings["draw.seed"][0], "other noise than the script's of this seed; draw.latents_file takes that")
    if c.text("output_type", "pil") != "pil":
        c.drop("output_type", "pictures are written as PNG files")


SCRIPTS = {"text_to_image_generation.py": Script(CARRIED, TRANSLATED, {**NOT_CARRIED, **NOT_DRAWN}, settings)}
