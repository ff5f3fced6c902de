// SPDX-License-Identifier: Apache-2.0
// The inputs of a tape's replay, and the flat steps that a tape consists of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/batch.h"

namespace bascule {

// The batches of the other ranks, for a loss over the samples of all.
struct Peers {
  static constexpr int kOperands = 3;

  std::int64_t first = 0;  // the number of this rank's first sample among those of all ranks
  // Gathers rows (count, width) of every rank into out (samples of all, width), in rank order, for three operands at
  // once. By all ranks together; waits for them. A rank without samples calls it with count 0, and nulls.
  void (*gather)(void* context, float* const* out, const float* const* rows, std::int64_t count,
                 std::int64_t width) noexcept = nullptr;
  void* context = nullptr;
};

// One replay of a tape.
struct Replay {
  Batch batch;
  // The weight of each term of this micro-batch's loss, a mean, in the step's; gradients are scaled by it.
  float loss_weights[kMaxLossTerms] = {1.0f, 1.0f};
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
