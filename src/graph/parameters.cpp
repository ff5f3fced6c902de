// SPDX-License-Identifier: Apache-2.0
#include "src/graph/parameters.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "src/base/check.h"

namespace bascule {

void ParameterSet::set_groups(std::vector<ParameterGroup> groups, std::string body_prefix) {
  BASCULE_CHECK(parameters_.empty());
  groups_ = std::move(groups);
  body_prefix_ = std::move(body_prefix);
}

bool ParameterSet::matches(std::size_t index, const std::string& name) const {
  const char* const pattern = groups_[index].match.c_str();
  if (fnmatch(pattern, name.c_str(), 0) == 0) return true;
  return name.compare(0, body_prefix_.size(), body_prefix_) == 0 &&
         fnmatch(pattern, name.c_str() + body_prefix_.size(), 0) == 0;
}

void ParameterSet::put_into_groups(Parameter* parameter) const {
  if (groups_.empty()) return;
  for (ParameterPiece& piece : parameter->pieces) {
    for (std::size_t group = 0; group < groups_.size() && piece.group < 0; ++group) {
      if (matches(group, piece.name)) piece.group = static_cast<int>(group);
    }
  }
  const auto is_trained = [&](const ParameterPiece& piece) {
    return piece.group < 0 || !groups_[static_cast<std::size_t>(piece.group)].freeze;
  };
  parameter->trained =
      parameter->trained && std::any_of(parameter->pieces.begin(), parameter->pieces.end(), is_trained);
}

int ParameterSet::add(Parameter parameter) {
  put_into_groups(&parameter);
  for (int i = 0; i < size(); ++i) {
    const Parameter& known = parameters_[static_cast<std::size_t>(i)];
    if (known.name != parameter.name) continue;
    BASCULE_CHECK(known.rows == parameter.rows && known.cols == parameter.cols && known.trained == parameter.trained);
    return i;
  }
  parameters_.push_back(std::move(parameter));
  return size() - 1;
}

namespace {

void set_matrices(ParameterLayout::Run* run, const Parameter& parameter, std::size_t piece) {
  std::vector<std::int64_t> shape = {parameter.rows, parameter.cols};
  if (!parameter.pieces.empty()) {
    BASCULE_CHECK(parameter.pieces[piece].order.empty());  // its matrices are those of the file
    shape = parameter.pieces[piece].shape;
  }
  const std::int64_t elements = parameter.pieces.empty() ? parameter.elements() : parameter.pieces[piece].elements;
  const bool is_matrix = shape.size() > 1;
  run->cols = shape.empty() ? 1 : shape.back();
  run->rows = is_matrix ? shape[shape.size() - 2] : 1;
  run->matrices = is_matrix ? elements / (run->rows * run->cols) : 0;
}

}  // namespace

ParameterLayout lay_out_parameters(const ParameterSet& parameters, Span<const int> order, RunDivision division) {
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
    ParameterLayout::Place& place = layout.places[static_cast<std::size_t>(index)];
    if (parameter.rounded) {
      place = {false, layout.rounded_elements, true};
      layout.rounded_elements += align_up<std::int64_t>(parameter.elements(), 32);
      continue;
    }
    const std::int64_t room = align_up<std::int64_t>(parameter.elements(), 16);
    place.trained = parameter.trained;
    if (!parameter.trained) {
      place.offset = layout.fixed_elements;
      layout.fixed_elements += room;
      continue;
    }
    place.offset = layout.trained_elements;
    // A parameter without pieces is no tensor of a checkpoint and belongs to no group.
    const std::size_t pieces = std::max<std::size_t>(1, parameter.pieces.size());
    for (std::size_t i = 0; i < pieces; ++i) {
      const std::int64_t begin = i == 0 ? 0 : parameter.pieces[i].first_element;
      const std::int64_t end = i + 1 == pieces ? room : parameter.pieces[i + 1].first_element;
      const int group = parameter.pieces.empty() ? -1 : parameter.pieces[i].group;
      if (division != RunDivision::kByRule || layout.runs.empty() || layout.runs.back().decayed != parameter.decayed ||
          layout.runs.back().group != group) {
        layout.runs.push_back({layout.trained_elements + begin, 0, parameter.decayed, group});
      }
      layout.runs.back().elements += end - begin;
      if (division == RunDivision::kByMatrix) set_matrices(&layout.runs.back(), parameter, i);
    }
    layout.trained_elements += room;
  }
  return layout;
}

}  // namespace bascule
