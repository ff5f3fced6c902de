// SPDX-License-Identifier: Apache-2.0
#include "src/graph/parameters.h"

#include <utility>

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {

int ParameterSet::add(Parameter parameter) {
  for (int i = 0; i < size(); ++i) {
    const Parameter& known = parameters_[static_cast<std::size_t>(i)];
    if (known.name != parameter.name) continue;
    BASCULE_CHECK(known.rows == parameter.rows && known.cols == parameter.cols && known.trained == parameter.trained);
    return i;
  }
  parameters_.push_back(std::move(parameter));
  return size() - 1;
}

ParameterLayout lay_out_parameters(const ParameterSet& parameters, Span<const int> order) {
  ParameterLayout layout;
  const std::size_t count = static_cast<std::size_t>(parameters.size());
  layout.places.resize(count);
  std::vector<int> sequence(order.begin(), order.end());
  std::vector<bool> listed(count, false);
  for (const int index : sequence) listed[static_cast<std::size_t>(index)] = true;
  for (int i = 0; i < parameters.size(); ++i) {
    if (!listed[static_cast<std::size_t>(i)]) sequence.push_back(i);
  }
  for (const int index : sequence) {
    const Parameter& parameter = parameters[index];
    const std::int64_t room = align_up<std::int64_t>(parameter.elements(), 16);
    ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(index)];
    place.trained = parameter.trained;
    if (!parameter.trained) {
      place.offset = layout.fixed_elements;
      layout.fixed_elements += room;
      continue;
    }
    place.offset = layout.trained_elements;
    if (layout.runs.empty() || layout.runs.back().decayed != parameter.decayed) {
      layout.runs.push_back({layout.trained_elements, 0, parameter.decayed});
    }
    layout.runs.back().elements += room;
    layout.trained_elements += room;
  }
  return layout;
}

}  // namespace bascule
