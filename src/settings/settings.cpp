// SPDX-License-Identifier: Apache-2.0
#include "src/settings/settings.h"

#include <algorithm>

namespace bascule {

std::string where_written(const Settings& settings, const std::string& key) {
  const auto found = settings.origin.where.find(key);
  return found == settings.origin.where.end() ? settings.origin.file : found->second;
}

const HeadWords* Settings::head() const {
  const auto found = std::find_if(words.heads.begin(), words.heads.end(),
                                  [&](const HeadWords& head) { return head.name == model.head; });
  return found == words.heads.end() ? nullptr : &*found;
}

Settings default_settings(const ModelWords& words) {
  Settings settings;
  settings.words = words;
  if (!words.heads.empty()) settings.model.head = words.heads.front().name;
  settings.model.freeze = words.frozen;
  return settings;
}

}  // namespace bascule
