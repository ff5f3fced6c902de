// SPDX-License-Identifier: Apache-2.0
// Pearson's and Spearman's correlation of two lists of numbers. Sealed: allocates nothing.
#pragma once

#include <cstdint>

namespace bascule {

// NaN where one of the lists is constant, has fewer than two numbers, or holds one that is not finite. Source:
// scipy.stats.pearsonr: both lists less their mean, divided by their length, and multiplied.
double pearson_correlation(const double* x, const double* y, std::int64_t count) noexcept;

// The same of the ranks, where equal numbers share the mean of theirs. Source: scipy.stats.spearmanr. x and y become
// their ranks; order: `count` places to work with.
double spearman_correlation(double* x, double* y, std::int64_t count, std::int32_t* order) noexcept;

}  // namespace bascule
