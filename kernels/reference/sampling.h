// SPDX-License-Identifier: Apache-2.0
// Reference for sampling.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/sampling.h"

namespace bascule::reference {

template <typename T>
void sampling_step(T* slots, const T* output, const T* with_prompt, const T* weights, const SamplingStep& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    T e = output[i];
    if (with_prompt != nullptr) e += T(a.guidance) * (with_prompt[i] - output[i]);
    slots[a.output_slot * a.slot_stride + i] = e;
    T sum = T(0);
    for (std::int64_t j = 0; j < a.slot_count; ++j)
      if (weights[j] != T(0)) sum += weights[j] * slots[j * a.slot_stride + i];
    slots[a.next_slot * a.slot_stride + i] = sum;
  }
}

}  // namespace bascule::reference
