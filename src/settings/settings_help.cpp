// SPDX-License-Identifier: Apache-2.0
// The reference of keys for a terminal: what `bascule run --help` prints.
#include <string>
#include <string_view>

#include "src/settings/keys.h"
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

std::string settings_help() {
  Settings defaults;
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
    text += row("", plain(allowed_values(key)) + (is_required(key) ? "; required" : "; default: " + value));
  }
  return text;
}

}  // namespace bascule
