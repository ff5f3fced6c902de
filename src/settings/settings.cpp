// SPDX-License-Identifier: Apache-2.0
#include "src/settings/settings.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/settings/command_line_keys.h"

namespace bascule {

std::string where_written(const SettingsOrigin& origin, const std::string& key) {
  const auto found = origin.where.find(key);
  return found == origin.where.end() ? origin.file : found->second;
}

std::string where_written(const Settings& settings, const std::string& key) {
  return where_written(settings.origin, key);
}

std::string DataSettings::random_change() const {
  const std::pair<bool, const char*> changes[] = {
      {augment != Augment::kNone, "data.augment"},
      {rand_augment_num_ops > 0, "data.rand_augment_num_ops"},
      {color_jitter_brightness > 0.0, "data.color_jitter_brightness"},
      {color_jitter_contrast > 0.0, "data.color_jitter_contrast"},
      {color_jitter_saturation > 0.0, "data.color_jitter_saturation"},
      {color_jitter_hue > 0.0, "data.color_jitter_hue"},
      {random_erasing_probability > 0.0, "data.random_erasing_probability"}};
  for (const auto& [is_set, key] : changes) {
    if (is_set) return key;
  }
  return "";
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

Precision read_number_type(const std::string& word) {
  if (word == "float32") return Precision::kFloat32;
  if (word == "bf16") return Precision::kBf16;
  throw Error(ErrorKind::kSettings, "--precision", "\"" + word + "\" is not a number type", "use float32 or bf16");
}

}  // namespace bascule
