// SPDX-License-Identifier: Apache-2.0
// Drawing: the graphs of a pipeline, the noise and timesteps that they read, and the replays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "src/base/span.h"
#include "src/generate/pipeline.h"
#include "src/generate/samplers.h"
#include "src/graph/operations.h"
#include "src/models/pipeline_configs.h"

namespace bascule {

// The graphs of a session that draws with a pipeline. Before the seal.
//
//   encode  one prompt: its text rows, then its keys and values for every transformer of the UNet, kept in states
//   noise   one call of the UNet for all pictures of a batch, and the sampler's step behind it, over slots of latents
//   decode  the picture of one set of latents

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

// The noise that a picture begins with. Usable before and after the seal.

// latents[i] = element first + i of the picture's noise, N(0, 1): a function of (seed, picture, element), so a picture
// does not depend on the batch that it is in. Elements are numbered as latents lie in memory: pixel by pixel, the
// channels of a pixel side by side.
void fill_normal_latents(float* latents, std::uint64_t seed, std::uint64_t picture, std::int64_t first,
                         std::int64_t count) noexcept;

// A UNet's embedding of a timestep. Source: get_timestep_embedding() of Diffusers, which computes the angles in
// float32; here they are in float64, and each number is rounded once.

// out (config.time_width()): with w_i = 10000^(-i / (half - freq_shift)), half of the numbers are cos(t w_i), the
// others sin(t w_i). 0 <= timestep < 100,000; it may be fractional.
void write_time_embedding(float* out, const UnetConfig& config, double timestep);

// Pictures that a pipeline draws: prompts are encoded and kept, then a batch of pictures goes through all calls of the
// sampler, then each is decoded.
//
//   recorded = record_drawing(&session, pipeline, options, program)     record
//   Drawer drawer(pipeline, recorded, program); drawer.bytes()          plan
//   drawer.seal(memory, session.tapes())                                seal
//   drawer.keep_prompt(0, ids, threads); ...                            replay: allocates nothing
//   drawer.set_noise(picture, noise); ... drawer.call(0, prompts, threads); ... drawer.decode(picture, threads)

// The places of kept prompts that one picture is drawn with.
struct DrawnPrompt {
  std::int32_t negative = 0, prompt = 0;  // negative: only with guidance
};

class Drawer {
 public:
  // Everything is borrowed and outlives this.
  Drawer(const Pipeline& pipeline, const RecordedDrawing& recorded, const SamplingProgram& program);

  std::size_t bytes() const;
  // memory: bytes(), 64-byte aligned. tapes: of the session, which is sealed.
  void seal(std::byte* memory, const Tapes& tapes);
  // The same in memory of its own: for a drawer outside a run.
  void seal_alone(const Session& session);

  // ids: as many as the pipeline's prompts have. place: below DrawingOptions::prompts.
  void keep_prompt(std::int64_t place, Span<const std::int32_t> ids, Threads& threads) noexcept;
  // The noise of the picture with this number in the batch: N(0, 1) in the order of a file, (channels, height,
  // width).
  void set_noise(std::int64_t picture, const float* noise) noexcept;
  // The same, drawn by (seed, number): fill_normal_latents().
  void draw_noise(std::int64_t picture, std::uint64_t seed, std::uint64_t number) noexcept;
  // One call of the program for the batch's pictures, of which there are at most DrawingOptions::batch.
  void call(std::size_t number, Span<const DrawnPrompt> prompts, Threads& threads) noexcept;
  // After the last call. picture() is then (height, width, 3), about -1 to 1.
  void decode(std::int64_t picture, Threads& threads) noexcept;
  // The same for latents (pixels, channels) of the caller's.
  void decode_latents(const float* latents, Threads& threads) noexcept;
  const float* picture() const { return picture_; }

  // (pixels, channels) of a picture in a slot.
  const float* latents(int slot, std::int64_t picture) const {
    return latents_ + (slot * recorded_.options.batch + picture) * picture_elements_;
  }
  // The rows of the prompt encoded last, and the UNet's output of the last call, where they are kept.
  const float* text_embeddings() const { return text_embeddings_; }
  const float* model_output() const { return model_output_; }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  std::size_t cut_memory(std::byte* memory);  // bytes of the arrays; memory null: only counts
  float* first_latents(std::int64_t picture) noexcept {
    return latents_ + (program_.calls.front().x * recorded_.options.batch + picture) * picture_elements_;
  }

  const Pipeline& pipeline_;
  const RecordedDrawing& recorded_;
  const SamplingProgram& program_;
  const std::int64_t picture_elements_;
  std::unique_ptr<void, Free> memory_;  // of seal_alone()
  const Tape *encode_ = nullptr, *noise_ = nullptr, *decode_ = nullptr;
  float *latents_ = nullptr, *timestep_ = nullptr, *decoded_latents_ = nullptr;
  const float *picture_ = nullptr, *text_embeddings_ = nullptr, *model_output_ = nullptr;
  // The fields of batches.
  std::int32_t *ids_ = nullptr, *positions_ = nullptr, *kept_places_ = nullptr;
  float *time_ = nullptr, *scales_ = nullptr;  // of all calls
  std::int32_t* numbers_ = nullptr;            // the same
  std::int32_t *prompt_places_ = nullptr, *prompt_counts_ = nullptr;
};

// bytes[i] = 255 clamp(values[i] / 2 + 1/2, 0, 1) rounded half to even, all in float32; a NaN becomes 0. values: a
// decoder's output, -1 black and 1 white, as it lies in memory. Source: VaeImageProcessor.postprocess of diffusers.
void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept;

}  // namespace bascule
