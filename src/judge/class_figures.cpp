// SPDX-License-Identifier: Apache-2.0
#include "src/judge/class_figures.h"

#include <cmath>

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

}  // namespace bascule
