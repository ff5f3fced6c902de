// SPDX-License-Identifier: Apache-2.0
// What the models of a pipeline that draws read beside their weights, and how much of it there may be. Whoever draws
// fills these fields, not a loader.
#pragma once

#include <cstdint>

#include "src/base/batch.h"

namespace bascule {

// Bounds of what is drawn at once; graphs and states have these extents.
struct DrawingShape {
  std::int64_t height = 0, width = 0;  // of latents
  std::int64_t prompts = 0;            // whose keys and values are kept at a time
  std::int64_t prompt_tokens = 0;      // of each; the last ones are padding
};

// Tensors that parts find by name, and that therefore have no scope. The tensor that a text encoder writes and a UNet
// in the same graph reads: (samples * tokens, width).
inline constexpr char kTextEmbeddings[] = "text_embeddings";
// The tensors that a UNet reads and writes: (samples * pixels, channels). Whoever draws adds the first to its graph; it
// may be of another stream, of which each row stands for as many samples, all first ones before all second ones.
inline constexpr char kNoisyLatents[] = "noisy_latents", kModelOutput[] = "model_output";
// The tensor that a decoder writes: (pixels, 3), about -1 to 1.
inline constexpr char kPicture[] = "picture";

// Inputs of graphs, written before a replay. Of Use::kPredictNoise, (1, width): the sines and cosines of a timestep. Of
// Use::kDecodeLatents: (pixels, channels).
inline constexpr char kTimeEmbedding[] = "timestep", kLatents[] = "latents";

// Fields.
inline constexpr char kPromptIds[] = "prompt_ids";              // Use::kEncodePrompt (tokens): the tokens of a prompt
inline constexpr char kPromptPositions[] = "prompt_positions";  // (tokens): their positions, 0, 1, ...
inline constexpr char kKeptPlaces[] = "kept_places";            // (tokens): the places that keep their keys and values
inline constexpr char kPromptPlaces[] = "prompt_places";        // (samples, tokens): the places of each row's prompt
inline constexpr char kPromptCounts[] = "prompt_counts";        // (samples): their number

inline Fields prompt_fields(const DrawingShape& shape) {
  const Extent tokens = rows_per_sample(shape.prompt_tokens);
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kPromptIds, DType::kInt32, tokens, 1, kSource},
          {kPromptPositions, DType::kInt32, tokens, 1, kSource},
          {kKeptPlaces, DType::kInt32, tokens, 1, kSource}};
}

inline Fields noise_fields(const DrawingShape& shape) {
  const Extent samples = rows_per_sample(1);
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kPromptPlaces, DType::kInt32, samples, shape.prompt_tokens, kSource},
          {kPromptCounts, DType::kInt32, samples, 1, kSource}};
}

}  // namespace bascule
