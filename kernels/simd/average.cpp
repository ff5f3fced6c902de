// SPDX-License-Identifier: Apache-2.0
// Moving averages: a pass over two streams.
#include <cstdint>

#include "kernels/lanes/lanes.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {

void average(const Average& a) {
  const f32x16 share = set(a.share);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 before = load(a.average + i, lanes);
        store(a.average + i, lanes, fma(load(a.value + i, lanes) - before, share, before));
      });
}

}  // namespace bascule::BASCULE_ISA
