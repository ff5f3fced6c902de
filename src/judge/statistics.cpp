// SPDX-License-Identifier: Apache-2.0
#include "src/judge/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/nearest.h"

namespace bascule {
namespace {

double ratio(std::int64_t part, std::int64_t whole) noexcept {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double LabelCounts::precision() const noexcept { return ratio(both, predicted); }
double LabelCounts::recall() const noexcept { return ratio(both, labelled); }
double LabelCounts::f1() const noexcept { return ratio(2 * both, labelled + predicted); }

double macro_f1(const LabelCounts* counts, std::int64_t classes) noexcept {
  double sum = 0.0;
  std::int64_t present = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    if (counts[c].labelled + counts[c].predicted == 0) continue;
    sum += counts[c].f1();
    ++present;
  }
  return present == 0 ? 0.0 : sum / static_cast<double>(present);
}

double matthews_correlation(const LabelCounts* counts, std::int64_t classes) noexcept {
  double rows = 0.0, right = 0.0, product = 0.0, predicted = 0.0, labelled = 0.0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double p = static_cast<double>(counts[c].predicted), t = static_cast<double>(counts[c].labelled);
    rows += t;
    right += static_cast<double>(counts[c].both);
    product += p * t;
    predicted += p * p;
    labelled += t * t;
  }
  const double varies_predicted = rows * rows - predicted, varies_labelled = rows * rows - labelled;
  if (varies_predicted == 0.0 || varies_labelled == 0.0) return 0.0;
  return (right * rows - product) / std::sqrt(varies_predicted * varies_labelled);
}

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

namespace {

double dot(const float* a, const float* b, std::int64_t width) noexcept {
  double sum = 0.0;
  for (std::int64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

double vector_length(const float* x, std::int64_t width) noexcept {
  return std::max(std::sqrt(dot(x, x, width)), 1e-12);
}

double cosine(const float* a, const float* b, std::int64_t width) noexcept {
  return dot(a, b, width) / (vector_length(a, width) * vector_length(b, width));
}

}  // namespace bascule
