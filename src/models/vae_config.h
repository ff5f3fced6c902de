// SPDX-License-Identifier: Apache-2.0
// config.json of a pipeline's autoencoder, as far as its decoder reads it, with the class defaults of Diffusers 0.42.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

struct VaeConfig {
  std::vector<std::int64_t> block_out_channels;  // from the picture's resolution down
  std::int64_t latent_channels = 4, layers_per_block = 1, norm_num_groups = 32;
  double scaling_factor = 0.18215;  // latents are those of the encoder times this

  // Between the sides of a picture and of its latents.
  std::int64_t factor() const { return std::int64_t{1} << (block_out_channels.size() - 1); }
};

// Throws Error kData naming the file and the key, also for what cannot be computed yet.
VaeConfig read_vae_config(const std::string& path);

}  // namespace bascule
