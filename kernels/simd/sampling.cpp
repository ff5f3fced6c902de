// SPDX-License-Identifier: Apache-2.0
// One step of a sampler. Few slots have a weight, so those are listed first.
#include "kernels/sampling.h"

#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {
namespace {

struct Terms {
  const float* slot[kMaxSamplingSlots];
  f32x16 weight[kMaxSamplingSlots];
  std::int64_t count;
};

inline void list_terms(Terms* terms, const SamplingStep& a) {
  terms->count = 0;
  for (std::int64_t j = 0; j < a.slot_count; ++j) {
    if (a.weights[j] == 0.0f) continue;
    terms->slot[terms->count] = a.slots + j * a.slot_stride;
    terms->weight[terms->count] = set(a.weights[j]);
    ++terms->count;
  }
}

}  // namespace

void sampling_step(const SamplingStep& a) {
  Terms terms;
  list_terms(&terms, a);
  const f32x16 guidance = set(a.guidance);
  float* const output = a.slots + a.output_slot * a.slot_stride;
  float* const next = a.slots + a.next_slot * a.slot_stride;
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        f32x16 e = load(a.output + i, lanes);
        if (a.with_prompt != nullptr) e = fma(guidance, load(a.with_prompt + i, lanes) - e, e);
        store(output + i, lanes, e);
        f32x16 sum = set(0.0f);
        for (std::int64_t t = 0; t < terms.count; ++t) sum = fma(terms.weight[t], load(terms.slot[t] + i, lanes), sum);
        store(next + i, lanes, sum);
      });
}

}  // namespace bascule::BASCULE_ISA
