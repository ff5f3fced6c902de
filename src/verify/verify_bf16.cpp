// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_bf16.h"

#include <algorithm>
#include <cmath>

namespace bascule {
namespace {

constexpr double kLossFloor = 0.005;         // of the limit on the loss
constexpr std::size_t kFewestElements = 64;  // of a parameter whose angle says something
constexpr double kLengthLimit = 0.1;
constexpr double kZeroGradientBf16 = 0x1p-8;  // of the gradient norm, where a gradient is zero in exact arithmetic

// Elements of the gradient that the case stores: all, or k * max(1, count / S).
std::vector<float> stored_elements(const CaseFiles& files, const std::string& name, std::vector<float> ours,
                                   std::vector<float>* truth) {
  if (files.expected.find("grad." + name) != nullptr) {
    *truth = read_floats(files.expected, "grad." + name, files.folder);
    return ours;
  }
  *truth = read_floats(files.expected, "grad_sample." + name, files.folder);
  const std::int64_t samples = get_int(files.description, "gradient_sample", files.folder);
  const std::size_t stride =
      static_cast<std::size_t>(std::max<std::int64_t>(1, static_cast<std::int64_t>(ours.size()) / samples));
  std::vector<float> sampled;
  for (std::size_t k = 0; k < truth->size(); ++k) sampled.push_back(ours.at(k * stride));
  return sampled;
}

double length_of(const std::vector<float>& x) {
  double squares = 0.0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(squares);
}

void judge_gradient(const CaseFiles& files, const Json& cosines, const std::string& name, std::vector<float> ours,
                    Judgement* judgement) {
  std::vector<float> truth;
  const Slice* const slice = files.zero_slice(name, ours.size());
  if (slice != nullptr) {
    double squares = 0.0;
    for (std::int64_t i = slice->start; i < slice->stop; ++i)
      squares += std::pow(static_cast<double>(ours[static_cast<std::size_t>(i)]), 2.0);
    judgement->add_norm("grad." + name + " (zero part)", std::sqrt(squares), kZeroGradientBf16 * files.gradient_norm);
    std::fill(ours.begin() + slice->start, ours.begin() + slice->stop, 0.0f);
    if (slice->start == 0 && slice->stop == static_cast<std::int64_t>(ours.size())) return;
  }
  if (ours.size() < kFewestElements) return;
  const bool is_whole = files.expected.find("grad." + name) != nullptr;
  ours = stored_elements(files, name, std::move(ours), &truth);
  if (slice != nullptr && is_whole && truth.size() == ours.size())
    std::fill(truth.begin() + slice->start, truth.begin() + slice->stop, 0.0f);
  judgement->add_norm("grad." + name + " (length)", std::fabs(length_of(ours) / length_of(truth) - 1.0), kLengthLimit);
  judgement->add_angle("grad." + name, one_minus_cosine(ours, truth), 1.0 - get_number(cosines, name, files.folder));
}

}  // namespace

void judge_bf16(const CaseFiles& files, CaseModel* model, Judgement* judgement) {
  const std::string where = files.folder + "/float32_error.json";
  const Json& autocast = get_object(files.errors, "bf16_autocast", where);
  const double loss = model->step({0});
  const double truth = static_cast<double>(read_floats(files.expected, "loss", files.folder).at(0));
  if (model->has_own_loss()) {
    judgement->add_norm("loss", std::fabs(loss - truth),
                        std::max(2.0 * get_number(autocast, "loss_abs", where), kLossFloor));
  }
  const Json& cosines = get_object(autocast, "gradient_cosine", where);
  const Session& session = model->training();
  const ParameterSet& set = session.parameters();
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = session.layout().places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      const float* const first = session.gradients() + place.offset + piece.first_element;
      judge_gradient(files, cosines, piece.name, {first, first + piece.elements}, judgement);
    }
  }
}

}  // namespace bascule
