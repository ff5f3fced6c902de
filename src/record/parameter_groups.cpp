// SPDX-License-Identifier: Apache-2.0
#include "src/record/parameter_groups.h"

#include <cstddef>
#include <string>

#include "src/base/error.h"

namespace bascule {
namespace {

[[noreturn]] void refuse(const TrainingSettings& training, const SettingsOrigin& origin, std::size_t group,
                         const std::string& problem, const std::string& what_to_do) {
  throw Error(ErrorKind::kSettings, where_written(origin, group_name(group)),
              "training.groups: \"" + training.groups[group].match + "\" " + problem, what_to_do);
}

void check_has_tensors(const TrainingSettings& training, const SettingsOrigin& origin, const ParameterSet& parameters,
                       std::size_t group) {
  bool matches_any = false;
  for (int p = 0; p < parameters.size(); ++p) {
    for (const ParameterPiece& piece : parameters[p].pieces) {
      if (piece.group == static_cast<int>(group)) return;
      matches_any = matches_any || parameters.matches(group, piece.name);
    }
  }
  if (matches_any)
    refuse(training, origin, group, "matches only tensors of earlier groups", "remove it, or move it before them");
  const std::string first = parameters[0].pieces.front().name;
  refuse(training, origin, group, "matches no tensor that this head uses",
         "write a pattern of tensor names, such as \"" + first + "\", in which * stands for any characters");
}

// Query, key and value weights are one matrix here, which has a gradient or has none.
void check_freezes_whole_matrices(const TrainingSettings& training, const SettingsOrigin& origin,
                                  const ParameterSet& parameters) {
  const auto is_frozen = [&](const ParameterPiece& piece) {
    return piece.group >= 0 && parameters.groups()[static_cast<std::size_t>(piece.group)].freeze;
  };
  for (int p = 0; p < parameters.size(); ++p) {
    if (!parameters[p].trained) continue;
    const ParameterPiece *frozen = nullptr, *trained = nullptr;
    for (const ParameterPiece& piece : parameters[p].pieces) (is_frozen(piece) ? frozen : trained) = &piece;
    if (frozen == nullptr) continue;
    refuse(training, origin, static_cast<std::size_t>(frozen->group),
           "freezes " + frozen->name + " but not " + trained->name + ", which belongs to the same matrix product",
           "freeze both or neither; learning_rate_multiplier may differ");
  }
}

}  // namespace

std::vector<ParameterGroup> parameter_groups(const TrainingSettings& training) {
  std::vector<ParameterGroup> groups;
  for (const GroupSettings& group : training.groups) groups.push_back({group.match, group.freeze});
  return groups;
}

void check_parameter_groups(const TrainingSettings& training, const SettingsOrigin& origin,
                            const ParameterSet& parameters) {
  if (training.groups.empty()) return;
  for (std::size_t group = 0; group < training.groups.size(); ++group)
    check_has_tensors(training, origin, parameters, group);
  check_freezes_whole_matrices(training, origin, parameters);
  for (int p = 0; p < parameters.size(); ++p) {
    if (parameters[p].trained) return;
  }
  throw Error(ErrorKind::kSettings, where_written(origin, "training.groups"),
              "training.groups and model.freeze leave nothing to train",
              "freeze less, or set training.do_train = false");
}

}  // namespace bascule
