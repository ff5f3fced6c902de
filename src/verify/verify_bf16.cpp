// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_bf16.h"

#include <algorithm>
#include <cmath>

#include "src/verify/verify_gradients.h"

namespace bascule {
namespace {

constexpr double kLossFloor = 0.005;         // of the limit on the loss
constexpr std::size_t kFewestElements = 64;  // of a parameter whose angle says something
constexpr double kLengthLimit = 0.1;
constexpr double kZeroGradientBf16 = 0x1p-8;  // of the gradient norm, where a gradient is zero in exact arithmetic

double length_of(const std::vector<float>& x) {
  double squares = 0.0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

void judge_gradient(const CaseFiles& files, const Json& cosines, const CaseGradient& gradient, Judgement* judgement) {
  const std::string name = "grad." + gradient.name;
  if (gradient.zero_part)
    judgement->add_norm(name + " (zero part)", *gradient.zero_part, kZeroGradientBf16 * files.gradient_norm);
  if (gradient.is_all_zero || gradient.elements < kFewestElements) return;
  judgement->add_norm(name + " (length)", std::fabs(length_of(gradient.ours) / length_of(gradient.truth) - 1.0),
                      kLengthLimit);
  judgement->add_angle(name, one_minus_cosine(gradient.ours, gradient.truth),
                       1.0 - get_number(cosines, gradient.name, files.folder));
}

}  // namespace

void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  const std::string where = files.folder + "/float32_error.json";
  const Json& autocast = get_object(files.errors, "bf16_autocast", where);
  const double loss = model->step({0});
  if (files.contents.loss && !model->has_own_loss())
    judgement->not_compared.push_back({"loss", "the bare model has none of its own"});
  if (files.contents.loss && model->has_own_loss()) {
    const double truth = static_cast<double>(read_floats(files.expected, "loss", files.folder).at(0));
    judgement->add_norm("loss", std::fabs(loss - truth),
                        std::max(2.0 * get_number(autocast, "loss_abs", where), kLossFloor));
  }
  if (!files.contents.gradients) return;
  const Json& cosines = get_object(autocast, "gradient_cosine", where);
  for_each_gradient(files, model->training(), &judgement->not_compared,
                    [&](const CaseGradient& gradient) { judge_gradient(files, cosines, gradient, judgement); });
}

}  // namespace bascule
