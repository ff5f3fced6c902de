// SPDX-License-Identifier: Apache-2.0
// The canonical form of settings, their digest, and the reference of keys: three walks over one list.
#include <cstdint>
#include <cstdio>

#include <xxhash.h>

#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

// The keys of a group work on the last group, so each is printed from settings that have it alone.
std::vector<Settings> with_one_group_each(const Settings& settings) {
  std::vector<Settings> all;
  for (const GroupSettings& group : settings.training.groups) {
    all.emplace_back();
    all.back().training.groups = {group};
  }
  return all;
}

// The keys of the only group. A weight decay that was not written has no value.
std::string group_text(const Settings& settings, const char* separator) {
  std::string text;
  for (const Key& key : group_keys()) {
    if (key.name == std::string_view("weight_decay") && settings.training.groups.front().weight_decay < 0.0) continue;
    text += (text.empty() ? "" : separator) + std::string(key.name) + " = " + value_text(key, settings);
  }
  return text;
}

// '|' would end a cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string print_settings(const Settings& settings) {
  std::string text;
  std::string_view table;
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    if (table != key.table) {
      table = key.table;
      text += (text.empty() ? "[" : "\n[") + std::string(table) + "]\n";
    }
    text += std::string(key.name) + " = " + value_text(key, settings) + "\n";
  }
  for (const Settings& one : with_one_group_each(settings)) {
    text += "\n[[" + std::string(kGroupsTable) + "]]\n" + group_text(one, "\n") + "\n";
  }
  return text;
}

KeyValues printed_keys(const Settings& settings) {
  KeyValues values;
  std::size_t groups = 0;  // behind the other keys of their table
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings)) continue;
    values.emplace_back(qualified_name(key), value_text(key, settings));
    if (std::string_view("training") == key.table) groups = values.size();
  }
  if (!settings.training.groups.empty())
    values.insert(values.begin() + static_cast<std::ptrdiff_t>(groups), {kGroupsTable, groups_text(settings)});
  return values;
}

std::string group_name(std::size_t index) { return std::string(kGroupsTable) + "[" + std::to_string(index) + "]"; }

std::string groups_text(const Settings& settings) {
  std::string text;
  for (const Settings& one : with_one_group_each(settings))
    text += (text.empty() ? "{" : ", {") + group_text(one, ", ") + "}";
  return "[" + text + "]";
}

std::vector<std::string> command_line_keys(const Settings& settings) {
  const auto is_given = [&](const std::string& name) {
    const auto found = settings.origin.where.find(name);
    return found != settings.origin.where.end() && found->second == kCommandLinePlace;
  };
  std::vector<std::string> keys;
  for (const Key& key : all_keys()) {
    if (is_given(qualified_name(key))) keys.push_back(qualified_name(key) + "=" + value_text(key, settings));
  }
  if (is_given(kGroupsTable)) keys.push_back(std::string(kGroupsTable) + "=" + groups_text(settings));
  return keys;
}

std::string settings_digest(const Settings& settings) {
  Settings numbers = settings;
  if (settings.distributed.machines == 1) numbers.distributed.wire_type = DistributedSettings().wire_type;
  std::string text;
  for (const auto& [key, value] : number_keys(numbers)) text.append(key).append(" = ").append(value).append("\n");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

std::string settings_reference(const ModelWords& words) {
  Settings defaults = default_settings(words);
  defaults.training.groups.resize(1);
  std::string text;
  std::string_view table;
  for (const Key& key : keys_of_file()) {
    if (table != key.table) {
      table = key.table;
      const bool many = table == kGroupsTable;
      text += (text.empty() ? "### [" : "\n### [") + std::string(many ? "[" : "") + std::string(table) +
              (many ? "]]\n\n" : "]\n\n");
      text += "| key | default | allowed | meaning | may change |\n|---|---|---|---|---|\n";
    }
    const std::string value = key.default_note != nullptr ? key.default_note : "`" + value_text(key, defaults) + "`";
    text += std::string("| `") + key.name + "` | " + value + " | " + cell(allowed_values(key, words)) + " | " +
            cell(key.meaning) + " | " + resume_word(key.effect) + " |\n";
  }
  return text +
         "\nThe last column says whether a key may change when a run resumes from a checkpoint; `bascule settings "
         "--resume` prints "
         "the same:\n\n" +
         resume_legend();
}

}  // namespace bascule
