// SPDX-License-Identifier: Apache-2.0
#include "src/judge/entities.h"

#include <algorithm>
#include <cstddef>

#include "src/base/utf8.h"

namespace bascule {
namespace {

std::string type_of(const std::string& name) {
  const std::string rest = name.substr(std::min(name.size(), std::max<std::size_t>(1, utf8_bytes_at(name, 0))));
  const std::size_t hyphen = rest.find('-');
  const std::string type = hyphen == std::string::npos ? rest : rest.substr(hyphen + 1);
  return type.empty() ? "_" : type;
}

// The letters of tags that are in no entity.
bool is_outside(char letter) noexcept { return letter == 'O' || letter == '.'; }

bool ends_between(const TagParts& before, const TagParts& tag) noexcept {
  if (before.letter == 'E' || before.letter == 'S') return true;
  const bool goes_on = before.letter == 'B' || before.letter == 'I';
  if (goes_on && (tag.letter == 'B' || tag.letter == 'S' || tag.letter == 'O')) return true;
  return !is_outside(before.letter) && before.type != tag.type;
}

bool begins_between(const TagParts& before, const TagParts& tag) noexcept {
  if (tag.letter == 'B' || tag.letter == 'S') return true;
  const bool begins_next = before.letter == 'E' || before.letter == 'S' || before.letter == 'O';
  if (begins_next && (tag.letter == 'E' || tag.letter == 'I')) return true;
  return !is_outside(tag.letter) && before.type != tag.type;
}

}  // namespace

EntityTags::EntityTags(const std::vector<std::string>& names) {
  types_ = {"_"};
  for (const std::string& name : names) types_.push_back(type_of(name));
  std::sort(types_.begin(), types_.end());
  types_.erase(std::unique(types_.begin(), types_.end()), types_.end());
  const auto number_of = [&](const std::string& type) {
    return static_cast<std::int32_t>(std::lower_bound(types_.begin(), types_.end(), type) - types_.begin());
  };
  for (const std::string& name : names) parts_.push_back({name.empty() ? 'O' : name[0], number_of(type_of(name))});
  outside_ = {'O', number_of("_")};
}

bool EntityFinder::take_parts(const TagParts& parts, Entity* ended) noexcept {
  const bool ends = ends_between(previous_, parts);
  if (ends) *ended = {previous_.type, begin_, taken_};
  if (begins_between(previous_, parts)) begin_ = taken_;
  previous_ = parts;
  ++taken_;
  return ends;
}

}  // namespace bascule
