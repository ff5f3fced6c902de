// SPDX-License-Identifier: Apache-2.0
// Figures of a classifier that need the rows of each class: F1 and Matthews' correlation. Sealed.
#pragma once

#include <cstdint>

namespace bascule {

// The rows of one class.
struct ClassCounts {
  std::int64_t labelled = 0, predicted = 0, both = 0;

  // 2 both / (labelled + predicted), 0 of a class that no row has. Source: scikit-learn, f1_score.
  double f1() const noexcept;
};

// The mean of F1 over the classes that some row has as its label or its prediction. Source: f1_score(average="macro").
double macro_f1(const ClassCounts* counts, std::int64_t classes) noexcept;

// (c n - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2)) of n rows, c of them right, p_k predicted and
// t_k labelled as class k; 0 where all predictions, or all labels, are one class. Source: scikit-learn,
// matthews_corrcoef.
double matthews_correlation(const ClassCounts* counts, std::int64_t classes) noexcept;

}  // namespace bascule
