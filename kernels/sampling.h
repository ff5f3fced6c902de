// SPDX-License-Identifier: Apache-2.0
// One step of a sampler: latents in numbered slots, the model's output put into one, a weighted sum into another.
#pragma once

#include <cstdint>

namespace bascule {

inline constexpr std::int64_t kMaxSamplingSlots = 16;

// With e[i] = output[i] or, where there is `with_prompt`, output[i] + guidance (with_prompt[i] - output[i]):
//   slot[output_slot][i] = e[i]
//   slot[next_slot][i]   = sum_j weights[j] slot[j][i], after that
// Source: Ho and Salimans 2022, equation 6, whose 1 + w is `guidance` (StableDiffusionPipeline).
// Shapes: slot j is the `count` elements from slots + j * slot_stride on; weights (slot_count), slot_count <=
// kMaxSamplingSlots. A slot whose weight is 0 is not read. Aliasing: next_slot may be one that the sum reads; neither
// it nor output_slot are those of `output`, `with_prompt` or `weights`. Overwrites both slots.
// Numerics: the difference is rounded, its product with `guidance` fused with the addition; the sum begins with 0 and
// is one chain of fused multiply-adds in the order of the slots.
struct SamplingStep {
  float* slots;
  const float* output;
  const float* with_prompt;  // null: no guidance
  const float* weights;
  std::int64_t slot_stride, slot_count, count;
  std::int64_t output_slot, next_slot;
  float guidance;
};

}  // namespace bascule
