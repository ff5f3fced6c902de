// SPDX-License-Identifier: Apache-2.0
// A step of an exponential moving average:
//   average += share * (value - average)
// Source: PyCls' update_model_ema, with alpha = share.
// Shapes: all (count), dense, any alignment. Aliasing: none.
#pragma once

#include <cstdint>

namespace bascule {

// Overwrites average.
struct Average {
  float* average;
  const float* value;
  std::int64_t count;
  float share;
};

}  // namespace bascule
