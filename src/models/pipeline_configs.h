// SPDX-License-Identifier: Apache-2.0
// The configurations of a pipeline's UNet, autoencoder and text encoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activation.h"

namespace bascule {

// config.json of the UNet of a pipeline, with the class defaults of Diffusers 0.42 for what it leaves out.

// One of its levels, of half the resolution of the one before.
struct UnetLevel {
  std::int64_t channels = 0, heads = 0;
  bool attends = false;  // its blocks have transformers
};

struct UnetConfig {
  std::vector<UnetLevel> levels;  // from the whole resolution down
  std::vector<bool> up_attends;   // of the blocks upwards, from the lowest resolution on
  std::int64_t in_channels = 4, out_channels = 4, layers_per_block = 2, norm_num_groups = 32;
  std::int64_t cross_attention_dim = 1280, sample_size = 0;  // 0: not written
  float norm_eps = 1e-5f;
  bool use_linear_projection = false;
  bool flip_sin_to_cos = true;  // cosines first
  std::int64_t freq_shift = 0;

  std::int64_t time_width() const { return levels.front().channels; }  // of a timestep's sines and cosines
};

// Throws Error kData naming the file and the key, also for what cannot be computed yet.
UnetConfig read_unet_config(const std::string& path);

// config.json of a pipeline's autoencoder, as far as its decoder reads it, with the class defaults of Diffusers 0.42.

struct VaeConfig {
  std::vector<std::int64_t> block_out_channels;  // from the picture's resolution down
  std::int64_t latent_channels = 4, layers_per_block = 1, norm_num_groups = 32;
  double scaling_factor = 0.18215;  // latents are those of the encoder times this

  // Between the sides of a picture and of its latents.
  std::int64_t factor() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

// Throws Error kData naming the file and the key, also for what cannot be computed yet.
VaeConfig read_vae_config(const std::string& path);

// The text encoder of a pipeline.

// config.json of the text encoder of a pipeline, with the class defaults of Transformers 5.23 for what it leaves out.

struct ClipTextConfig {
  std::int64_t vocab_size = 49408, hidden_size = 512, intermediate_size = 2048;
  std::int64_t num_hidden_layers = 12, num_attention_heads = 8, max_position_embeddings = 77;
  Activation hidden_act = Activation::kQuickGelu;
  float layer_norm_eps = 1e-5f;
};

// Throws Error kData naming the file and the key, also where the model cannot be built.
ClipTextConfig read_clip_text_config(const std::string& path);

}  // namespace bascule
