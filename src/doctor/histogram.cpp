// SPDX-License-Identifier: Apache-2.0
#include "src/doctor/histogram.h"

#include <algorithm>

namespace bascule {
namespace {

constexpr std::int64_t kMostBars = 12;

std::int64_t width_for(std::int64_t first, std::int64_t last) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t times : {1, 2, 5}) {
      const std::int64_t width = times * power;
      if (last / width - first / width < kMostBars) return width;
    }
  }
}

}  // namespace

std::vector<LengthBar> length_bars(const TextFigures& figures) {
  std::vector<LengthBar> bars;
  const auto is_used = [](std::int64_t count) { return count > 0; };
  const auto first_used = std::find_if(figures.counts.begin(), figures.counts.end(), is_used);
  if (first_used == figures.counts.end()) return bars;
  const std::int64_t first = first_used - figures.counts.begin();
  const std::int64_t last = static_cast<std::int64_t>(figures.counts.size()) - 1;
  const std::int64_t width = width_for(first, last);
  for (std::int64_t from = first / width * width; from <= last; from += width) {
    LengthBar bar{from, from + width - 1, 0};
    for (std::int64_t length = from; length <= std::min(last, bar.to); ++length) {
      const std::int64_t texts = figures.counts[static_cast<std::size_t>(length)];
      bar.texts += texts;
      if (figures.limit > 0 && length > figures.limit) bar.cut += texts;
    }
    if (bar.to >= last && figures.longest > last) bar.to = figures.longest;
    bars.push_back(bar);
  }
  return bars;
}

}  // namespace bascule
