// SPDX-License-Identifier: Apache-2.0
// Rounding to bf16 and back.
#include "kernels/bf16.h"

#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void to_bf16(const ToBf16& a) {
  std::int64_t i = 0;
  for (; i + kLanes <= a.count; i += kLanes) store_bf16(a.out + i, load(a.x + i));
  if (i == a.count) return;
  std::uint16_t rest[kLanes];
  store_bf16(rest, load(a.x + i, FirstLanes{a.count - i}));
  for (std::int64_t r = 0; i + r < a.count; ++r) a.out[i + r] = rest[r];
}

// Upwards, sixteen read before sixteen are written: what is written reaches x no sooner than it was read.
void from_bf16(const FromBf16& a) {
  std::int64_t i = 0;
  for (; i + kLanes <= a.count; i += kLanes) store(a.out + i, load_bf16(a.x + i));
  if (i == a.count) return;
  std::uint16_t rest[kLanes] = {};
  for (std::int64_t r = 0; i + r < a.count; ++r) rest[r] = a.x[i + r];
  store(a.out + i, FirstLanes{a.count - i}, load_bf16(rest));
}

}  // namespace bascule::BASCULE_ISA
