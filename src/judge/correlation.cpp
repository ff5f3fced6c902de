// SPDX-License-Identifier: Apache-2.0
#include "src/judge/correlation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace bascule {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double mean_of(const double* x, std::int64_t count) noexcept {
  return std::accumulate(x, x + count, 0.0) / static_cast<double>(count);
}

// From 1 on; numbers that are equal share the mean of their ranks.
void rank(double* x, std::int64_t count, std::int32_t* order) noexcept {
  std::iota(order, order + count, 0);
  std::sort(order, order + count,
            [x](std::int32_t a, std::int32_t b) { return x[a] < x[b] || (x[a] == x[b] && a < b); });
  for (std::int64_t first = 0; first < count;) {
    std::int64_t end = first + 1;
    while (end < count && x[order[end]] == x[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2.0;
    for (; first < end; ++first) x[order[first]] = shared;
  }
}

}  // namespace

double pearson_correlation(const double* x, const double* y, std::int64_t count) noexcept {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  if (count < 2 || !std::all_of(x, x + count, is_finite) || !std::all_of(y, y + count, is_finite)) return kNone;
  const auto is_constant = [count](const double* list) {
    return std::all_of(list, list + count, [list](double value) { return value == list[0]; });
  };
  if (is_constant(x) || is_constant(y)) return kNone;
  const double mean_x = mean_of(x, count), mean_y = mean_of(y, count);
  double xx = 0.0, yy = 0.0, xy = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double dx = x[i] - mean_x, dy = y[i] - mean_y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  return std::min(1.0, std::max(-1.0, xy / std::sqrt(xx) / std::sqrt(yy)));
}

double spearman_correlation(double* x, double* y, std::int64_t count, std::int32_t* order) noexcept {
  const auto is_number = [](double value) { return !std::isnan(value); };
  if (!std::all_of(x, x + count, is_number) || !std::all_of(y, y + count, is_number)) return kNone;
  rank(x, count, order);
  rank(y, count, order);
  return pearson_correlation(x, y, count);
}

}  // namespace bascule
