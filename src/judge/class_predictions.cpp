// SPDX-License-Identifier: Apache-2.0
#include "src/judge/class_predictions.h"

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/largest.h"

namespace bascule {

std::int64_t predict_classes(const float* logits, std::int64_t classes, ClassPrediction* best,
                             std::int64_t most) noexcept {
  BASCULE_CHECK(most >= 1 && most <= kMostPredicted);
  std::int32_t places[kMostPredicted] = {};  // GCC, with sanitizers, does not see that they are set
  const std::int64_t count = places_of_largest(logits, classes, places, most);
  const double top = static_cast<double>(logits[places[0]]);
  double sum = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) sum += fixed_exp(static_cast<double>(logits[c]) - top);
  for (std::int64_t i = 0; i < count; ++i)
    best[i] = {places[i], static_cast<float>(fixed_exp(static_cast<double>(logits[places[i]]) - top) / sum)};
  return count;
}

}  // namespace bascule
