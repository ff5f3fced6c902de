// SPDX-License-Identifier: Apache-2.0
// Between float32 and bf16, the upper half of its bits. Rows of `count` numbers.
#pragma once

#include <cstdint>

namespace bascule {

// out[i] = x[i] rounded to the nearest bf16, to an even last bit where two are equally near; beyond the largest finite
// one to infinity. NaN becomes a quiet NaN of the same sign. Aliasing: none.
struct ToBf16 {
  std::uint16_t* out;
  const float* x;
  std::int64_t count;
};

// out[i] = x[i], exactly. Aliasing: x may be the upper half of out's memory, 2 count bytes from its beginning.
struct FromBf16 {
  float* out;
  const std::uint16_t* x;
  std::int64_t count;
};

}  // namespace bascule
