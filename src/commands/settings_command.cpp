// SPDX-License-Identifier: Apache-2.0
#include "src/commands/commands.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "src/json/json.h"
#include "src/record/opened_model.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/resume_rules.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

Json rules_json(const std::vector<KeyRule>& rules, bool has_values) {
  Json keys = Json::array();
  for (const KeyRule& rule : rules) {
    Json key = {{"key", rule.key}, {"may_change", rule.word}, {"meaning", rule.resume_meaning}};
    if (has_values) key["value"] = rule.value;
    keys.push_back(key);
  }
  return Json{{"keys", keys}};
}

Json reference_json() {
  Json keys = Json::array();
  for (const KeyReference& one : key_reference(words_of_usual_family())) {
    keys.push_back({{"key", one.key},
                    {"meaning", one.meaning},
                    {"allowed", one.allowed},
                    {"default", one.default_value},
                    {"may_change", one.may_change}});
  }
  return Json{{"keys", keys}};
}

// The settings of a file, every key with its value.
Json values_json(const Settings& settings) {
  Json values = Json::object();
  for (const KeyRule& rule : resume_rules(settings)) values[rule.key] = rule.value;
  return Json{{"settings", values}};
}

void print_json(const Json& json) { std::printf("%s\n", json_text(json, 2).c_str()); }

void print_rules(const std::vector<KeyRule>& rules, bool has_values) {
  std::size_t widest = 0;
  for (const KeyRule& rule : rules) widest = std::max(widest, rule.key.size());
  for (const KeyRule& rule : rules) {
    if (has_values) {
      std::printf("%-*s  %-13s  %s\n", static_cast<int>(widest), rule.key.c_str(), rule.word, rule.value.c_str());
    } else {
      std::printf("%-*s  %s\n", static_cast<int>(widest), rule.key.c_str(), rule.word);
    }
  }
  std::printf("\nKeys that may change when a run resumes from a checkpoint:\n\n%s", resume_legend().c_str());
}

}  // namespace

int settings_command(const SettingsSource& source, bool resume, bool json, bool markdown) {
  const bool has_file = !source.file.empty() || sealed_settings() != nullptr;
  if (markdown || (!has_file && !resume && !json)) {
    std::fputs(
        (markdown ? settings_reference(words_of_usual_family()) : wrapped(settings_help(words_of_usual_family())))
            .c_str(),
        stdout);
    return 0;
  }
  const Settings settings = has_file ? settings_of_run(source, model_words) : default_settings(words_of_usual_family());
  if (resume && json) {
    print_json(rules_json(resume_rules(settings), has_file));
  } else if (resume) {
    print_rules(resume_rules(settings), has_file);
  } else if (json) {
    print_json(has_file ? values_json(settings) : reference_json());
  } else {
    std::printf("%s", print_settings(settings).c_str());
  }
  return 0;
}

}  // namespace bascule
