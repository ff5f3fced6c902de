// SPDX-License-Identifier: Apache-2.0
// The common part of a case's judgement: the measure of an error, and the rule for its limit. See
// tests/data/goldens/README.md, "Passing".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/verify/verify_case.h"

namespace bascule {

constexpr double kFloor = 2e-6;         // of every limit
constexpr double kUpdateFloor = 1e-3;   // of the limit on what a run changed
constexpr double kAngleFloor = 1e-3;    // of every limit on a gradient's angle, in bf16
constexpr double kZeroGradient = 1e-6;  // of the gradient norm, where a gradient is zero in exact arithmetic

// Relative to the norm of the truth; absolute where the truth is zero; NaN for another number of elements.
double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth);

// 1 minus the cosine of the angle between them; NaN for another number of elements, or if ours is all zero and the
// truth is not.
double one_minus_cosine(const std::vector<float>& ours, const std::vector<float>& truth);

// Rows of a tensor of `cols` columns, in the order that `rows` names them.
std::vector<float> pick_rows(const std::vector<float>& tensor, const std::vector<std::int64_t>& rows,
                             std::int64_t cols);

struct Judgement {
  std::vector<VerifiedTensor> tensors;
  std::vector<NotCompared> not_compared;

  // Limit: three times the reference's own error, or the floor if that is larger.
  void add(const std::string& name, double error, double reference, double floor);
  // Limit: twice the reference's own, or the floor if that is larger.
  void add_angle(const std::string& name, double error, double reference, double floor = kAngleFloor);
  // A norm, a distance, or a count of faults with a limit of its own.
  void add_norm(const std::string& name, double norm, double limit);
};

}  // namespace bascule
