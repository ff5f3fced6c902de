// SPDX-License-Identifier: Apache-2.0
// Dropout of whole rows.
#include <cstdint>

#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void dropout_forward(const DropoutForward& a) {
  const f32x16 scale = set(a.stream.scale);
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const x = a.x + r * a.cols;
    float* const y = a.y + r * a.cols;
    if (a.stream.threshold == 0) {
      copy_row(y, x, a.cols);
      continue;
    }
    for_kept_lanes(
        a.cols, a.stream, a.row_keys[r], [&](auto lanes, std::int64_t c, Mask16 kept) __attribute__((always_inline)) {
          store(y + c, lanes, drop(kept, load(x + c, lanes), scale));
        });
  }
}

}  // namespace bascule::BASCULE_ISA
