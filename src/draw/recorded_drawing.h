// SPDX-License-Identifier: Apache-2.0
// The graphs of a session that draws with a pipeline. Before the seal.
//
//   encode  one prompt: its text rows, then its keys and values for every transformer of the UNet, kept in states
//   noise   one call of the UNet for all pictures of a batch, and the sampler's step behind it, over slots of latents
//   decode  the picture of one set of latents
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/draw/pipeline.h"
#include "src/draw/sampling_program.h"
#include "src/graph/operations.h"

namespace bascule {

// With guidance, a batch of the noise graph has two samples a picture: first all pictures with what they shall not
// show, then all with their prompts.
inline constexpr int kPictures = kFirstModelStream;

// Fields of the noise graph beside the UNet's: SamplingFields of src/graph/operations.h.
inline constexpr char kSamplingScales[] = "sampling_scales", kSamplingNumbers[] = "sampling_numbers";
inline constexpr std::int64_t kSamplingNumberCount = 4;

struct DrawingOptions {
  std::int64_t batch = 1;                  // pictures at a time
  std::int64_t height = 512, width = 512;  // of a picture, pixels
  std::int64_t prompts = 2;                // whose keys and values are kept at a time
  float guidance = 7.5f;                   // above 1: the difference that a prompt makes is so many times as large
  Precision precision = Precision::kFloat32;

  bool is_guided() const { return guidance > 1.0f; }
  std::int64_t rows() const { return is_guided() ? 2 * batch : batch; }  // samples of the noise graph
};

struct RecordedDrawing {
  DrawingOptions options;
  DrawingShape shape;
  std::size_t encode = 0, noise = 0, decode = 0;  // their numbers in the session
  Tensor text_embeddings;                         // of the encode graph; none where outputs are not kept
  Tensor model_output;                            // of the noise graph
  Tensor timestep;                                // the same
  LatentSlots latents;                            // of the noise graph
  Tensor picture;                                 // of the decode graph
  Tensor decoded_latents;                         // the same
};

// bf16: products, convolutions and attention read bf16; what is summed, normalised or sampled is float32.
// keep_outputs: text rows and outputs of the UNet can be read after a replay, too.
RecordedDrawing record_drawing(Session* session, const Pipeline& pipeline, const DrawingOptions& options,
                               const SamplingProgram& program, bool keep_outputs = false);

}  // namespace bascule
