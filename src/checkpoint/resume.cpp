// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/resume.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "src/base/error.h"

namespace bascule {

void check_same_settings(const ResumePoint& point, const std::vector<SettingValue>& now) {
  std::map<std::string, std::pair<std::string, std::string>> values;  // key -> then, now
  for (const SettingValue& setting : point.settings) values[setting.key].first = setting.value;
  for (const SettingValue& setting : now) values[setting.key].second = setting.value;
  for (const auto& [key, value] : values) {
    const auto& [then, today] = value;
    if (then == today) continue;
    const auto shown = [](const std::string& text) { return text.empty() ? std::string("not set") : text; };
    throw Error{ErrorKind::kSettings, key,
                "is " + shown(today) + ", but " + point.folder + " was trained with " + shown(then),
                "set it back, or choose another output_dir"};
  }
}

void check_same_data(const ResumePoint& point, const std::vector<SettingValue>& now) {
  for (const SettingValue& data : now) {
    const auto then = std::find_if(point.data.begin(), point.data.end(),
                                   [&](const SettingValue& other) { return other.key == data.key; });
    if (then == point.data.end() || then->value == data.value)
      continue;  // a split that was not read before is no conflict
    throw Error{ErrorKind::kData, data.key,
                "its file or the sizes of its pictures are not those that " + point.folder +
                    " was trained with (digest " + data.value + ", was " + then->value + ")",
                "put the data back, or choose another output_dir"};
  }
}

}  // namespace bascule
