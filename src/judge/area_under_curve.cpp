// SPDX-License-Identifier: Apache-2.0
#include "src/judge/area_under_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace bascule {

double area_under_curve(const float* scores, const std::int32_t* labels, std::int32_t* order,
                        std::int64_t count) noexcept {
  // A score that is no number stands below all others: sorting needs an order.
  const auto score = [&](std::int32_t i) {
    return std::isnan(scores[i]) ? -std::numeric_limits<float>::infinity() : scores[i];
  };
  std::iota(order, order + count, 0);
  std::sort(order, order + count,
            [&](std::int32_t a, std::int32_t b) { return score(a) < score(b) || (!(score(b) < score(a)) && a < b); });
  // Mann & Whitney 1947: the sum of the positives' ranks, tied scores sharing their mean rank.
  double rank_sum = 0.0, positives = 0.0;
  for (std::int64_t first = 0; first < count;) {
    std::int64_t last = first;
    while (last < count && !(score(order[first]) < score(order[last]))) ++last;
    const double rank = 0.5 * static_cast<double>(first + 1 + last);
    for (std::int64_t i = first; i < last; ++i) {
      if (labels[order[i]] != 1) continue;
      rank_sum += rank;
      positives += 1.0;
    }
    first = last;
  }
  const double negatives = static_cast<double>(count) - positives;
  if (positives == 0.0 || negatives == 0.0) return 0.5;
  return (rank_sum - positives * (positives + 1.0) / 2.0) / (positives * negatives);
}

}  // namespace bascule
