// SPDX-License-Identifier: Apache-2.0
// What a tape reads when it is replayed, and the flat steps that it is made of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/graph/extent.h"

namespace bascule {

// One batch, borrowed from its slot. Text is packed: the valid tokens of all captions one after another, R in all.
// Everything in it was checked where it was read: ids lie in the vocabulary, offsets grow, labels are classes.
struct BatchView {
  BatchCounts counts;
  const float* pixels = nullptr;                 // (B, channels, height, width)
  const std::int32_t* token_ids = nullptr;       // (R)
  const std::int32_t* position_ids = nullptr;    // (R), rows of the position table
  const std::int32_t* text_offsets = nullptr;    // (B + 1), first text row of each sample; the last is R
  const std::uint64_t* text_row_keys = nullptr;  // (R), dropout_row_key(sample, token)
  const std::uint64_t* image_row_keys =
      nullptr;  // (B * image rows), dropout_row_key(sample, image row); null where nothing is dropped
  const std::uint64_t* sample_keys =
      nullptr;  // (B), dropout_row_key(sample, 0); sample: its number in the run's global order
  const std::int32_t* selected_rows = nullptr;  // (M), text rows
  const std::int32_t* labels = nullptr;         // matching: (B) 0 or 1; masked LM: (M) token ids, negative: not counted
};

// The batches of the other ranks, for a loss over the samples of all.
struct Peers {
  static constexpr int kOperands = 3;

  std::int64_t first = 0, samples = 0;  // the number of this rank's first sample among those of all ranks; all of them
  // Gathers rows (count, width) of every rank into out (samples, width), in rank order, for three operands at once. By
  // all ranks together; waits for them. A rank without samples calls it with count 0, and nulls.
  void (*gather)(void* context, float* const* out, const float* const* rows, std::int64_t count,
                 std::int64_t width) noexcept = nullptr;
  void* context = nullptr;
};

// One replay of a tape.
struct Replay {
  BatchView batch;
  float loss_weight = 1.0f;  // what this micro-batch's mean loss counts in the step's loss; gradients are scaled by it
  bool add_to_gradients = false;          // second and later micro-batches of a step
  std::uint32_t dropout_key[2] = {0, 0};  // from seed and step
  Peers peers;                            // read by a loss that was recorded over all ranks
  std::byte* thread_scratch = nullptr;    // thread t has the bytes from t * thread_scratch_bytes
  std::size_t thread_scratch_bytes = 0;

  float* scratch(int thread) const {
    return static_cast<float*>(
        static_cast<void*>(thread_scratch + static_cast<std::size_t>(thread) * thread_scratch_bytes));
  }
};

// One step of a tape: `tasks` independent calls, done by whichever threads are free, then everybody waits for the last.
// Neither function allocates or throws. A task writes only what no other task of the step touches.
struct Step {
  void (*run)(const void* arguments, const Replay& replay, std::int64_t task, int thread) = nullptr;
  std::int64_t (*tasks)(const void* arguments, const Replay& replay) = nullptr;
  const void* arguments = nullptr;
  std::int32_t node = 0;  // the graph's node that it belongs to
};

}  // namespace bascule
