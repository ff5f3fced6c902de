// SPDX-License-Identifier: Apache-2.0
// A served pipeline that draws: each worker draws one picture at a time, all of one size and number of steps. draw()
// and what is around it allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/generate/drawer.h"
#include "src/generate/pipeline.h"
#include "src/pictures/png_file.h"
#include "src/settings/settings.h"

namespace bascule {

struct ServedInput;

// What all workers share.
class ServedDrawer {
 public:
  // Throws Error kData, kSettings.
  ServedDrawer(const ModelSettings& model, const ServeSettings& serve, const SettingsOrigin& origin);

  const Pipeline& pipeline() const { return pipeline_; }
  const PromptTokenizer& tokenizer() const { return tokenizer_; }
  const DrawingOptions& options() const { return options_; }
  std::int64_t steps() const { return steps_; }
  const SamplingProgram& program() const { return program_; }
  const RecordedDrawing& recorded() const { return recorded_; }
  PngLimits file_limits() const { return {options_.width, options_.height, 0, 0}; }
  std::size_t most_file_bytes() const { return file_bytes_; }
  std::int64_t numbers() const { return 3 * options_.height * options_.width; }  // of a picture

  void record(Session* session);
  std::size_t bytes() const { return bytes_; }  // of a PictureDrawer

 private:
  const Pipeline pipeline_;
  const PromptTokenizer tokenizer_;
  const std::int64_t steps_;
  const SamplingProgram program_;
  DrawingOptions options_;
  RecordedDrawing recorded_;
  std::size_t file_bytes_, bytes_ = 0;
};

// What a worker has of its own.
class PictureDrawer {
 public:
  // Before the seal. served: outlives this; memory: its bytes(), aligned to a cache line; tapes: of the worker's arena.
  PictureDrawer(const ServedDrawer& served, const Tapes& tapes, std::byte* memory);

  // Writes the file into the input, unless its client goes meanwhile.
  void draw(ServedInput* input, Threads& threads) noexcept;
  // Nanoseconds of a picture, from one call of the UNet and one decoding.
  double measure(Threads& threads) noexcept;

 private:
  const ServedDrawer& served_;
  Drawer drawer_;
  PngWriter png_;
  std::uint8_t* pixels_ = nullptr;  // (height, width, 3)
};

}  // namespace bascule
