// SPDX-License-Identifier: Apache-2.0
// What a worker has of a served model: the tapes of its graphs, and memory for a batch; and the answers to one. Before
// the seal the constructor, which may throw Error; what follows allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/pictures/picture_decoder.h"
#include "src/runtime/threads.h"
#include "src/serve/served_drawer.h"
#include "src/serve/served_model.h"
#include "src/serve/text_batch.h"
#include "src/serve/text_writer.h"
#include "src/session/session.h"

namespace bascule {

class BatchAnswerer {
 public:
  // After the model's record().
  static std::size_t bytes(const ServedModel& model);
  // Everything outlives this. tapes: of the worker's arena, which is sealed; memory: bytes(), aligned to a cache line.
  BatchAnswerer(const ServedModel& model, const Tapes& tapes, Threads& threads, std::byte* memory);

  // Answers all inputs, for which the planned room suffices; of kWrites, begins texts, writes a token, and gives up.
  void run(ServedInput* const* inputs, std::size_t count) noexcept;
  // Of kDraws: nanoseconds of a picture.
  double measure_drawing() noexcept { return drawer_->measure(threads_); }
  TextWriter* writer() const { return writer_.get(); }  // of kWrites
  // Of kWrites: the inputs get slots; then each step writes a token of every text.
  void join(ServedInput* const* inputs, std::size_t count) noexcept;
  void step() noexcept { writer_->step(threads_); }

 private:
  using ServedGraph = ServedModel::ServedGraph;
  void decode() noexcept;
  Batch pack(ServedInput* const* inputs, std::size_t count) noexcept;
  const float* replay(const ServedGraph& graph) noexcept;
  void answer(const float* output) noexcept;

  const ServedModel& model_;
  const Tapes& tapes_;
  Threads& threads_;
  std::vector<ServedInput*> part_;  // of a batch: the inputs of one graph
  const std::vector<std::int32_t> no_labels_;
  std::unique_ptr<TextBatch> batch_;
  std::unique_ptr<TextWriter> writer_;
  std::unique_ptr<PictureDrawer> drawer_;
  std::unique_ptr<PictureDecoder> decoder_;
  float* pixels_ = nullptr;
};

}  // namespace bascule
