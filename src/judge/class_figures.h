// SPDX-License-Identifier: Apache-2.0
// Figures of labels: precision, recall and F1 of a class of rows, or of a type of entities; and over all classes the
// mean of F1, and Matthews' correlation. Sealed.
#pragma once

#include <cstdint>

namespace bascule {

// How many have a label, how many have it as the prediction, and how many have both.
struct LabelCounts {
  std::int64_t labelled = 0, predicted = 0, both = 0;

  // 0 where there is nothing to divide by. Source: zero_division = "warn" of scikit-learn and seqeval.
  double precision() const noexcept;  // both / predicted
  double recall() const noexcept;     // both / labelled
  double f1() const noexcept;         // 2 both / (labelled + predicted)
};

// counts: (classes), of rows. The mean of F1 over the classes that some row has as its label or its prediction. Source:
// f1_score(average="macro").
double macro_f1(const LabelCounts* counts, std::int64_t classes) noexcept;

// (c n - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2)) of n rows, c of them right, p_k predicted and
// t_k labelled as class k; 0 where all predictions, or all labels, are one class. Source: scikit-learn,
// matthews_corrcoef.
double matthews_correlation(const LabelCounts* counts, std::int64_t classes) noexcept;

}  // namespace bascule
