// SPDX-License-Identifier: Apache-2.0
// The judgement of a case: errors and limits, gradients, bf16.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/session/session.h"
#include "src/verify/verify_case.h"
#include "src/verify/verify_files.h"
#include "src/verify/verify_model.h"

namespace bascule {

// The common part of a case's judgement: the measure of an error, and the rule for its limit. See
// tests/data/goldens/README.md, "Passing".

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

// A case's gradients, ours beside those that it stores: whole, or of a large case elements k * max(1, count / S), for
// its S samples. Layout: tests/data/goldens/README.md.

struct CaseGradient {
  std::string name;                 // of the parameter
  std::size_t elements = 0;         // of the parameter
  std::optional<double> zero_part;  // norm of our slice that is zero in exact arithmetic; below it is zero
  bool is_all_zero = false;         // that slice is the whole parameter: nothing below is set
  bool is_sampled = false;          // ours and truth: samples
  double length = 0.0;              // norm of our whole gradient
  std::vector<float> ours, truth;
};

// Calls judge with the gradient of each trained parameter's pieces, in the order of the parameters, after a step. A
// parameter of which the case holds neither the gradient nor its error has a line in not_compared instead. Throws Error
// kData.
void for_each_gradient(const CaseFiles& files, const Session& session, std::vector<NotCompared>* not_compared,
                       const std::function<void(const CaseGradient&)>& judge);

// A case in bf16: loss and gradients of batch 0, judged by what torch.autocast reaches.
//   gradient of a parameter of 64 elements or more: 1 - cosine at most max(0.001, twice autocast's), as
//     tests/data/goldens/README.md has it ("Passing"), and its length within a tenth of the truth's
//   slice that is zero in exact arithmetic: at most 2^-8 of the gradient norm
//   loss: error at most max(0.005, twice autocast's). Not of the bare model, which has no loss of its own.
// Autocast's figures are those of one run, or the worst of the case's `bf16_draws` runs, which differ widely.

// The case holds one of them: model->trains().
void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement);

}  // namespace bascule
