// SPDX-License-Identifier: Apache-2.0
#include "src/verify/verify_gradients.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bascule {
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

}  // namespace bascule
