// SPDX-License-Identifier: Apache-2.0
// Rounding to bf16 and back.
#include "kernels/bf16.h"

#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void to_bf16(const ToBf16& a) {
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i)
                   __attribute__((always_inline)) { store(a.out + i, lanes, load(a.x + i, lanes)); });
}

// Upwards, sixteen read before sixteen are written: what is written reaches x no sooner than it was read.
void from_bf16(const FromBf16& a) {
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i)
                   __attribute__((always_inline)) { store(a.out + i, lanes, load(a.x + i, lanes)); });
}

}  // namespace bascule::BASCULE_ISA
