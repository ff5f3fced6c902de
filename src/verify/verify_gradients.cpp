// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bascule {

double relative_l2(const std::vector<float>& ours, const std::vector<float>& truth) {
  double difference = 0.0, norm = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double d = static_cast<double>(ours[i]) - static_cast<double>(truth[i]);
    difference += d * d;
    norm += static_cast<double>(truth[i]) * static_cast<double>(truth[i]);
  }
  return norm > 0.0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

double one_minus_cosine(const std::vector<float>& ours, const std::vector<float>& truth) {
  double product = 0.0, our_squares = 0.0, true_squares = 0.0;
  if (ours.size() != truth.size()) return std::nan("");
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double a = static_cast<double>(ours[i]), b = static_cast<double>(truth[i]);
    product += a * b;
    our_squares += a * a;
    true_squares += b * b;
  }
  if (true_squares == 0.0) return our_squares == 0.0 ? 0.0 : 1.0;
  return 1.0 - product / std::sqrt(our_squares * true_squares);
}

std::vector<float> pick_rows(const std::vector<float>& tensor, const std::vector<std::int64_t>& rows,
                             std::int64_t cols) {
  std::vector<float> picked;
  picked.reserve(rows.size() * static_cast<std::size_t>(cols));
  for (const std::int64_t row : rows)
    picked.insert(picked.end(), tensor.begin() + row * cols, tensor.begin() + (row + 1) * cols);
  return picked;
}

void Judgement::add(const std::string& name, double error, double reference, double floor) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.error = error;
  tensor.reference = reference;
  tensor.limit = std::max(3.0 * reference, floor);
  tensors.push_back(tensor);
}

void Judgement::add_angle(const std::string& name, double error, double reference, double floor) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.measure = Measure::kOneMinusCosine;
  tensor.error = error;
  tensor.reference = reference;
  tensor.limit = std::max(2.0 * reference, floor);
  tensors.push_back(tensor);
}

void Judgement::add_norm(const std::string& name, double norm, double limit) {
  VerifiedTensor tensor;
  tensor.name = name;
  tensor.measure = Measure::kNorm;
  tensor.error = norm;
  tensor.limit = limit;
  tensors.push_back(tensor);
}

namespace {

double norm_of(const float* first, const float* end) {
  double squares = 0.0;
  for (; first < end; ++first) squares += static_cast<double>(*first) * static_cast<double>(*first);
  return std::sqrt(squares);
}

std::vector<float> samples_of(const CaseFiles& files, const std::vector<float>& whole, std::size_t count) {
  const std::int64_t samples = get_int(files.description, "gradient_sample", files.folder);
  const std::size_t stride =
      static_cast<std::size_t>(std::max<std::int64_t>(1, static_cast<std::int64_t>(whole.size()) / samples));
  std::vector<float> sampled;
  for (std::size_t k = 0; k < count && k * stride < whole.size(); ++k) sampled.push_back(whole[k * stride]);
  return sampled;
}

CaseGradient gradient_of_case(const CaseFiles& files, const std::string& name, std::vector<float> ours) {
  CaseGradient gradient;
  gradient.name = name;
  gradient.elements = ours.size();
  const Slice* const zero = files.zero_slice(name, ours.size());
  if (zero != nullptr) {
    gradient.zero_part = norm_of(ours.data() + zero->start, ours.data() + zero->stop);
    std::fill(ours.begin() + zero->start, ours.begin() + zero->stop, 0.0f);
    gradient.is_all_zero = zero->start == 0 && zero->stop == static_cast<std::int64_t>(ours.size());
    if (gradient.is_all_zero) return gradient;
  }
  gradient.length = norm_of(ours.data(), ours.data() + ours.size());
  gradient.is_sampled = files.expected.find("grad." + name) == nullptr;
  gradient.truth = read_floats(files.expected, (gradient.is_sampled ? "grad_sample." : "grad.") + name, files.folder);
  if (gradient.is_sampled) {
    gradient.ours = samples_of(files, ours, gradient.truth.size());
    return gradient;
  }
  if (zero != nullptr && gradient.truth.size() == ours.size())
    std::fill(gradient.truth.begin() + zero->start, gradient.truth.begin() + zero->stop, 0.0f);
  gradient.ours = std::move(ours);
  return gradient;
}

// Whether the case says what the parameter's gradient is, or what the reference's error of it is.
bool holds_gradient(const CaseFiles& files, const std::string& name) {
  if (files.expected.find("grad." + name) != nullptr || files.expected.find("grad_sample." + name) != nullptr)
    return true;
  if (std::any_of(files.zero_gradient.begin(), files.zero_gradient.end(),
                  [&](const Slice& slice) { return slice.parameter == name; }))
    return true;
  const Json* const errors = find_member(files.errors, "gradients", files.folder);
  return errors != nullptr && find_member(*errors, name, files.folder) != nullptr;
}

}  // namespace

void for_each_gradient(const CaseFiles& files, const Session& session, std::vector<NotCompared>* not_compared,
                       const std::function<void(const CaseGradient&)>& judge) {
  const ParameterSet& set = session.parameters();
  for (int p = 0; p < set.size(); ++p) {
    const ParameterLayout::Place& place = session.layout().places[static_cast<std::size_t>(p)];
    if (!place.trained) continue;
    for (const ParameterPiece& piece : set[p].pieces) {
      if (!holds_gradient(files, piece.name)) {
        not_compared->push_back({"grad." + piece.name, "the case does not hold it"});
        continue;
      }
      const float* const first = session.training().gradients() + place.offset + piece.first_element;
      judge(gradient_of_case(files, piece.name, {first, first + piece.elements}));
    }
  }
}

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
