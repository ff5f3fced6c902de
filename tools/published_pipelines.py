# SPDX-License-Identifier: Apache-2.0
"""Pipelines of published size for tools/make_published_model: the configurations of Stable Diffusion's parts, without weights."""
import json
import pathlib
import shutil

TOKENIZER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizer" / "clip"
TEXT = {"model_type": "clip_text_model", "vocab_size": 49408, "max_position_embeddings": 77, "layer_norm_eps": 1e-5}
UNET = {"_class_name": "UNet2DConditionModel", "in_channels": 4, "out_channels": 4, "block_out_channels": [320, 640, 1280, 1280], "layers_per_block": 2,
        "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"], "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3, "act_fn": "silu",
        "norm_num_groups": 32, "norm_eps": 1e-5, "flip_sin_to_cos": True, "freq_shift": 0}
VAE = {"_class_name": "AutoencoderKL", "in_channels": 3, "out_channels": 3, "latent_channels": 4, "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
       "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "act_fn": "silu", "norm_num_groups": 32}
SCHEDULER = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "num_train_timesteps": 1000, "set_alpha_to_one": False, "steps_offset": 1,
             "clip_sample": False, "skip_prk_steps": True}
KINDS = {
    # Stable Diffusion 1.4 and 1.5.
    "sd-v1": {"text": {"hidden_act": "quick_gelu", "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12},
              "unet": {"cross_attention_dim": 768, "attention_head_dim": 8}, "side": 512, "scheduler": {"_class_name": "PNDMScheduler"}, "pad": "<|endoftext|>"},
    # 2.1, 768 pixels.
    "sd-v2": {"text": {"hidden_act": "gelu", "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 23},
              "unet": {"cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}, "side": 768,
              "scheduler": {"_class_name": "DDIMScheduler", "prediction_type": "v_prediction"}, "pad": "!"},
}


def write_pipeline(kind, folder):
    """The files of the pipeline in that folder, which exists."""
    own = KINDS[kind]
    parts = {"scheduler": ["diffusers", own["scheduler"]["_class_name"]], "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
             "unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
    files = {"model_index.json": {"_class_name": "StableDiffusionPipeline", "requires_safety_checker": False, "safety_checker": [None, None], "feature_extractor": [None, None], **parts},
             "text_encoder/config.json": {"architectures": ["CLIPTextModel"], **TEXT, **own["text"]},
             "unet/config.json": {**UNET, "sample_size": own["side"] // 8, **own["unet"]},
             "vae/config.json": {**VAE, "sample_size": own["side"]},
             "scheduler/scheduler_config.json": {**SCHEDULER, **own["scheduler"]},
             "tokenizer/tokenizer_config.json": {**json.loads((TOKENIZER / "tokenizer_config.json").read_text(encoding="utf-8")), "pad_token": own["pad"]}}
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(TOKENIZER / name, folder / "tokenizer")
