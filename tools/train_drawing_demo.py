#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the small Stable Diffusion of tests/data/emoji-drawing on tests/data/emoji-captions, with PyTorch and Diffusers.

  for stage in "autoencoder 15" "text 10"; do tools/train_drawing_demo.py --work W ${stage% *} --minutes ${stage#* }; done
  for worker in 0 1; do tools/train_drawing_demo.py --work W unet --minutes 50 --workers 2 --worker $worker & done; wait
  tools/train_drawing_demo.py --work W save --save tests/data/emoji-drawing

autoencoder  pictures of 64 x 64 pixels to latents of 4 x 16 x 16 and back
text         the text encoder, with a head that guesses small pictures: without it, the UNet first has to learn to read
unet         the UNet and the text encoder: v prediction, one caption in ten dropped for guidance
save         the pipeline in float16, and what Diffusers draws with it, for a test

Each stage keeps its weights in the work folder every two minutes and goes on from what lies there. The learning rate follows
the clock, so a second call does not give the same weights. All captions are trained on: the pipeline draws emoji that it has
seen. Needs diffusers, transformers and torch; one thread a process."""
import argparse
import copy
import json
import math
import pathlib
import shutil
import time

import numpy
import torch
from diffusers import AutoencoderKL, DDIMScheduler, StableDiffusionPipeline, UNet2DConditionModel
from PIL import Image
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
PICTURES = ROOT / "tests/data/emoji-captions"
TOKENIZER = ROOT / "tests/data/tokenizer/clip"
SIDE, TOKENS, WIDTH = 64, 48, 96  # pixels; the longest caption has 44 tokens; columns of a text row
DROPPED_CAPTIONS, NAMES_ALONE = 0.1, 0.2  # shares of the samples
WARM_UP = 0.02  # of a stage
EMA = 0.999
STEPS_APART = 20  # of several workers, before they take the mean of their weights


def rows():
    for part in ("train", "validation", "test"):
        for line in (PICTURES / f"{part}.jsonl").read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def picture(path):
    """The middle square, in -1 to 1."""
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    return torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1).float() / 127.5 - 1.0


def make_tokenizer(folder):
    """CLIP's, without tokenizer.json as in published folders, and for shorter prompts."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("vocab.json", "merges.txt"):
        shutil.copyfile(TOKENIZER / name, folder / name)
    settings = json.loads((TOKENIZER / "tokenizer_config.json").read_text())
    settings.pop("backend", None)
    settings["model_max_length"] = TOKENS
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    return CLIPTokenizer.from_pretrained(folder)


def make_autoencoder():
    return AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 3, up_block_types=("UpDecoderBlock2D",) * 3, block_out_channels=(12, 24, 48),
        layers_per_block=1, latent_channels=4, norm_num_groups=4, sample_size=SIDE, scaling_factor=1.0)


def make_text_encoder(tokenizer):
    return CLIPTextModel(CLIPTextConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, intermediate_size=2 * WIDTH, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=TOKENS, hidden_act="quick_gelu", projection_dim=WIDTH, bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id))


def make_unet():
    return UNet2DConditionModel(
        sample_size=SIDE // 4, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(48, 96),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=WIDTH, attention_head_dim=4, norm_num_groups=8)


def make_scheduler():
    return DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type="v_prediction", clip_sample=False,
        set_alpha_to_one=False, steps_offset=1, timestep_spacing="trailing")


class Trainer:
    """One stage: AdamW with clipped gradients, a rate that rises and falls with the time, an average of the weights."""

    def __init__(self, name, modules, rate, minutes, work):
        self.name, self.minutes, self.file = name, minutes, work / f"{name}.pt"
        self.modules, self.rate = torch.nn.ModuleList(modules), rate
        if self.file.exists():
            load(work, name, *self.modules)
        self.workers = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
        if self.workers > 1:
            for value in self.modules.parameters():
                torch.distributed.broadcast(value.data, 0)
        self.average = copy.deepcopy(self.modules).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.modules.parameters(), lr=rate, betas=(0.9, 0.99), weight_decay=1e-4)
        self.start = self.saved = self.shown = time.monotonic()
        self.steps, self.losses = 0, []

    def save(self):
        if self.workers > 1 and torch.distributed.get_rank() > 0:
            return
        new = self.file.with_suffix(".new")
        torch.save([module.state_dict() for module in self.average], new)
        new.replace(self.file)

    def progress(self):
        return (time.monotonic() - self.start) / 60 / self.minutes

    def step(self, loss):
        """Returns False when the time is up."""
        progress = self.progress()
        rate = self.rate * min(1.0, progress / WARM_UP, 0.02 + 0.49 * (1.0 + math.cos(math.pi * min(progress, 1.0))))
        for group in self.optimizer.param_groups:
            group["lr"] = max(rate, 1e-6)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.modules.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        decay = min(EMA, (1 + self.steps) / (10 + self.steps))
        with torch.no_grad():
            for kept, value in zip(self.average.parameters(), self.modules.parameters()):
                kept.lerp_(value, 1.0 - decay)
        self.losses.append(loss.item())
        now = time.monotonic()
        if now - self.shown > 20:
            print(f"{self.name}: {(now - self.start) / 60:5.1f} min  step {self.steps}  loss {numpy.mean(self.losses):.4f}", flush=True)
            self.losses, self.shown = [], now
        if now - self.saved > 120:
            self.saved = now
            self.save()
        if self.workers > 1:  # they agree on the end, too
            progress = self.meet(progress) if self.steps % STEPS_APART == 0 else 0.0
        if progress < 1.0:
            return True
        self.save()
        return False

    def meet(self, progress):
        """Takes the mean of the weights, of their averages and of the progress of all workers; returns the progress."""
        values = [*self.modules.parameters(), *self.average.parameters()]
        together = torch.cat([value.data.flatten() for value in values] + [torch.tensor([progress])])
        torch.distributed.all_reduce(together)
        together /= self.workers
        for value, mean in zip(values, together.split([value.numel() for value in values] + [1])):
            value.data.copy_(mean.view_as(value))
        return together[-1].item()


def load(work, stage, *modules):
    for module, state in zip(modules, torch.load(work / f"{stage}.pt")):
        module.load_state_dict(state)


def batches(count, size):
    while True:
        order = torch.randperm(count)
        yield from (order[i:i + size] for i in range(0, count - size + 1, size))


def train_autoencoder(data, minutes, work):
    """At first, three of the four channels are pulled towards red, green and blue: otherwise colours are learnt last."""
    model = make_autoencoder()
    trainer = Trainer("autoencoder", [model], 2e-3, minutes, work)
    for batch in batches(len(data.pictures), 8):
        x = data.pictures[batch]
        posterior = model.encode(x).latent_dist
        divergence = 0.5 * (posterior.mean.square() + posterior.var - 1.0 - posterior.logvar).mean()
        colours = (posterior.mean[:, :3] - 1.5 * torch.nn.functional.avg_pool2d(x, 4)).square().mean()
        loss = difference(model.decode(posterior.sample()).sample, x) + 1e-3 * divergence
        if not trainer.step(loss + max(0.0, 0.5 - 2.0 * trainer.progress()) * colours):
            return


def difference(y, x):
    return (y - x).abs().mean() + (y - x).square().mean()


def load_autoencoder(work):
    model = make_autoencoder()
    load(work, "autoencoder", model)
    return model


@torch.no_grad()
def encode(model, pictures):
    return torch.cat([model.encode(x).latent_dist.mean for x in pictures.split(64)])


@torch.no_grad()
def standardise(data, work):
    """Gives each channel of the latents mean 0 and deviation 1, by the 1 x 1 convolutions before and after them."""
    model = load_autoencoder(work)
    latents = encode(model, data.pictures)
    mean, deviation = latents.mean((0, 2, 3)), latents.std((0, 2, 3))
    before, after = model.quant_conv, model.post_quant_conv
    before.weight[:4] /= deviation[:, None, None, None]
    before.bias[:4] = (before.bias[:4] - mean) / deviation
    before.bias[4:] -= 2.0 * deviation.log()
    after.bias += after.weight[:, :, 0, 0] @ mean
    after.weight *= deviation[:, None, None]
    torch.save([model.state_dict()], work / "autoencoder.pt")


class GuessPicture(torch.nn.Module):
    """Guesses a picture of 16 x 16 pixels from rows of text. Reads them as the UNet does: each 2 x 2 pixels by attention."""

    def __init__(self):
        super().__init__()
        self.places = torch.nn.Parameter(torch.randn(64, WIDTH))
        self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.output = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, 12))

    def forward(self, text):
        places = self.places.expand(len(text), -1, -1)
        return self.output(places + self.attention(places, text, text, need_weights=False)[0])


def train_text_encoder(data, minutes, work):
    small = torch.nn.functional.avg_pool2d(data.pictures, 4)
    small = torch.nn.functional.unfold(small, 2, stride=2).transpose(1, 2)
    model, head = make_text_encoder(data.tokenizer), GuessPicture()
    trainer = Trainer("text", [model, head], 2e-3, minutes, work)
    for batch in batches(len(small), 64):
        guess = head(model(captions(data, batch)).last_hidden_state)
        if not trainer.step((guess - small[batch]).square().mean()):
            return


def captions(data, batch):
    return torch.where(torch.rand(len(batch), 1) < NAMES_ALONE, data.names[batch], data.captions[batch])


def train_unet(data, minutes, work):
    unet, text_encoder, scheduler = make_unet().to(memory_format=torch.channels_last), make_text_encoder(data.tokenizer), make_scheduler()
    load(work, "text", text_encoder)
    latents = encode(load_autoencoder(work), data.pictures)
    trainer = Trainer("unet", [unet, text_encoder], 1e-3, minutes, work)
    for batch in batches(len(latents), 16):
        x, noise = latents[batch], torch.randn(len(batch), *latents.shape[1:])
        times = (scheduler.config.num_train_timesteps * torch.rand(len(batch)) ** 0.6).long()  # text counts where noise is strong
        tokens = torch.where(torch.rand(len(batch), 1) < DROPPED_CAPTIONS, data.nothing, captions(data, batch))
        guess = unet(scheduler.add_noise(x, noise, times), times, text_encoder(tokens).last_hidden_state).sample
        if not trainer.step((guess - scheduler.get_velocity(x, noise, times)).square().mean()):
            return


def save(data, work, folder):
    vae, unet, text_encoder = load_autoencoder(work), make_unet(), make_text_encoder(data.tokenizer)
    load(work, "unet", unet, text_encoder)
    pipeline = StableDiffusionPipeline(
        vae=vae, text_encoder=text_encoder, tokenizer=data.tokenizer, unet=unet, scheduler=make_scheduler(), safety_checker=None,
        feature_extractor=None, requires_safety_checker=False)
    pipeline.to(torch.float16).save_pretrained(folder)
    shutil.rmtree(folder / "tokenizer")
    make_tokenizer(folder / "tokenizer")


@torch.no_grad()
def golden(folder):
    """What the pipeline in the folder draws of the first prompts in float32, for tests/seal/test_drawing_demo.cpp."""
    pipeline = StableDiffusionPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    prompts = (folder / "prompts.txt").read_text(encoding="utf-8").splitlines()[:3]
    latents = torch.randn(len(prompts), 4, SIDE // 4, SIDE // 4, generator=torch.Generator().manual_seed(0))
    drawn = pipeline(prompts, num_inference_steps=4, guidance_scale=3.0, latents=latents, output_type="np").images
    save_file({"latents": latents, "bytes": torch.from_numpy((drawn * 255).round().astype("uint8")).contiguous()}, folder / "diffusers.safetensors")


class Data:
    def __init__(self, work):
        data = list(rows())
        self.pictures = torch.stack([picture(PICTURES / row["image"]) for row in data])
        self.tokenizer = make_tokenizer(work / "tokenizer")
        self.captions = self.tokens([row["caption"] for row in data])
        self.names = self.tokens([row["caption"].split(" | ")[0] for row in data])
        self.nothing = self.tokens([""])

    def tokens(self, texts):
        return self.tokenizer(texts, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt").input_ids


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("stage", choices=[*STAGES, "save"])
    options.add_argument("--work", type=pathlib.Path, required=True, help="folder for what each stage leaves")
    options.add_argument("--minutes", type=float, help="how long the stage trains")
    options.add_argument("--save", type=pathlib.Path, help="folder that save writes the pipeline to; its prompts.txt is there")
    options.add_argument("--worker", type=int, default=0, help="number of this process among --workers, which train a stage together")
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--seed", type=int, default=0)
    options = options.parse_args()
    torch.manual_seed(1000 * options.seed + options.worker)
    torch.set_num_threads(1)
    options.work.mkdir(parents=True, exist_ok=True)
    data = Data(options.work)
    if options.workers > 1:
        meeting = (options.work / f"{options.stage}.meeting").absolute()
        torch.distributed.init_process_group("gloo", init_method=meeting.as_uri(), rank=options.worker, world_size=options.workers)
    if options.stage == "save":
        save(data, options.work, options.save)
        golden(options.save)
    else:
        STAGES[options.stage](data, options.minutes, options.work)
    if options.stage == "autoencoder" and options.worker == 0:
        standardise(data, options.work)


STAGES = {"autoencoder": train_autoencoder, "text": train_text_encoder, "unet": train_unet}

if __name__ == "__main__":
    main()
