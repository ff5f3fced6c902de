// SPDX-License-Identifier: Apache-2.0
#include "src/bringup/figure.h"

#include <algorithm>

namespace bascule {

double TakenTime::share() const { return std::max({missing, delay + stolen, throttled + stolen}); }

double Figure::median() const {
  std::vector<double> sorted = rounds;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  if (sorted.empty()) return 0.0;
  return sorted.size() % 2 == 1 ? sorted[middle] : 0.5 * (sorted[middle - 1] + sorted[middle]);
}

double Figure::best() const {
  if (rounds.empty()) return 0.0;
  return more_is_better ? *std::max_element(rounds.begin(), rounds.end())
                        : *std::min_element(rounds.begin(), rounds.end());
}

double Figure::worst() const {
  if (rounds.empty()) return 0.0;
  return more_is_better ? *std::min_element(rounds.begin(), rounds.end())
                        : *std::max_element(rounds.begin(), rounds.end());
}

}  // namespace bascule
