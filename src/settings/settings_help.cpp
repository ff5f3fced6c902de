// SPDX-License-Identifier: Apache-2.0
// The reference of keys for a terminal: what `bascule settings` prints.
#include <string>
#include <string_view>
#include <vector>

#include "src/settings/keys.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

constexpr std::size_t kMeaningColumn = 30;

// Code marks are Markdown's, which a terminal shows as they are.
std::string plain(std::string_view markdown) {
  std::string text;
  for (const char c : markdown) {
    if (c != '`') text += c;
  }
  return text;
}

std::string row(const std::string& name, const std::string& text) {
  const std::size_t width = name.size() + 2;
  return "  " + name + std::string(width + 1 < kMeaningColumn ? kMeaningColumn - width : 2, ' ') + text + "\n";
}

}  // namespace

std::vector<KeyReference> key_reference(const ModelWords& words) {
  Settings defaults = default_settings(words);
  defaults.training.groups.resize(1);
  std::vector<KeyReference> reference;
  for (const Key& key : keys_of_file()) {
    const std::string name = key.table == std::string_view(kGroupsTable) ? std::string(kGroupsTable) + "[]." + key.name
                                                                         : qualified_name(key);
    const std::string value = key.default_note != nullptr ? plain(key.default_note) : value_text(key, defaults);
    reference.push_back({name, plain(key.meaning), plain(allowed_values(key, words)), value, resume_word(key.effect)});
  }
  return reference;
}

std::string settings_help(const ModelWords& words) {
  Settings defaults = default_settings(words);
  defaults.training.groups.resize(1);
  std::string text = "Settings, by table of the TOML file:\n";
  std::string_view table;
  for (const Key& key : keys_of_file()) {
    if (table != key.table) {
      table = key.table;
      const bool many = table == kGroupsTable;
      text += (many ? "\n[[" : "\n[") + std::string(table) + (many ? "]]\n" : "]\n");
    }
    text += row(key.name, plain(key.meaning));
    const std::string value = key.default_note != nullptr ? plain(key.default_note) : value_text(key, defaults);
    text += row("", plain(allowed_values(key, words)) + (is_required(key) ? "; required" : "; default: " + value));
  }
  return text;
}

}  // namespace bascule
