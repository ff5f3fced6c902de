// SPDX-License-Identifier: Apache-2.0
// Titles of the charts that the report of a run and the page of several runs have in common.
#pragma once

namespace bascule {

inline constexpr char kLossTitle[] = "Loss";
inline constexpr char kLearningRateTitle[] = "Learning rate";
inline constexpr char kGradientNormTitle[] = "Gradient norm";
inline constexpr char kSamplesTitle[] = "Samples/s";

}  // namespace bascule
