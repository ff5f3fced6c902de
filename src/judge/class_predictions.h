// SPDX-License-Identifier: Apache-2.0
// The most probable classes of a row of logits. Sealed: allocates nothing.
#pragma once

#include <cstdint>

namespace bascule {

struct ClassPrediction {
  std::int32_t id = 0;
  float probability = 0.0f;  // softmax of the logits, summed in float64 in the order of the classes
};

inline constexpr std::int64_t kMostPredicted = 5;

// best[0, most): those of the largest logits, the largest first and the first of equals first. logits: (classes).
// most: 1 to kMostPredicted. Returns how many there are: `most`, or all classes where there are fewer.
std::int64_t predict_classes(const float* logits, std::int64_t classes, ClassPrediction* best,
                             std::int64_t most) noexcept;

}  // namespace bascule
