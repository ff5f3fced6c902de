// SPDX-License-Identifier: Apache-2.0
// Statistics of predictions: figures of labels, probable classes, area under the curve, correlations.
#pragma once

#include <cstdint>

namespace bascule {

// Figures of labels: precision, recall and F1 of a class of rows, or of a type of entities; and over all classes the
// mean of F1, and Matthews' correlation. Sealed.

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

// The most probable classes of a row of logits. Sealed: allocates nothing.

struct ClassPrediction {
  std::int32_t id = 0;
  float probability = 0.0f;  // softmax of the logits, summed in float64 in the order of the classes
};

inline constexpr std::int64_t kMostPredicted = 5;

// best[0, most): those of the largest logits, the largest first and the first of equals first. logits: (classes).
// most: 1 to kMostPredicted. Returns how many there are: `most`, or all classes where there are fewer.
std::int64_t predict_classes(const float* logits, std::int64_t classes, ClassPrediction* best,
                             std::int64_t most) noexcept;

// The area under the receiver operating curve: the chance that a positive scores above a negative, ties counting half.
// Sealed: allocates nothing.

// scores, labels: (count); a label of 1 is a positive. order: (count) scratch. 0.5 if one class is missing.
double area_under_curve(const float* scores, const std::int32_t* labels, std::int32_t* order,
                        std::int64_t count) noexcept;

// Pearson's and Spearman's correlation of two lists of numbers. Sealed: allocates nothing.

// NaN where one of the lists is constant, has fewer than two numbers, or holds one that is not finite. Source:
// scipy.stats.pearsonr: both lists less their mean, divided by their length, and multiplied.
double pearson_correlation(const double* x, const double* y, std::int64_t count) noexcept;

// The same of the ranks, where equal numbers share the mean of theirs. Source: scipy.stats.spearmanr. x and y become
// their ranks; order: `count` places to work with.
double spearman_correlation(double* x, double* y, std::int64_t count, std::int32_t* order) noexcept;

// Of embeddings, summed in float64 in the order of their numbers. Sealed.

// At least 1e-12, as where an embedding is divided by it.
double vector_length(const float* x, std::int64_t width) noexcept;
double cosine(const float* a, const float* b, std::int64_t width) noexcept;

}  // namespace bascule
