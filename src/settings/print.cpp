// SPDX-License-Identifier: Apache-2.0
// The canonical form of settings, their digest, and the reference of keys: three walks over one list.
#include <cstdint>
#include <cstdio>

#include <xxhash.h>

#include "src/settings/keys.h"
#include "src/settings/settings.h"

namespace bascule {
namespace {

bool is_present(const Key& key, const Settings& settings) {
  return key.table != std::string_view(kSimulationTable) || settings.media_engine.simulation.is_given;
}

// Several ranks with less accumulation sum the same gradient: only the product counts.
std::pair<std::string, std::string> backward_passes_of_an_update(const Settings& settings) {
  const std::int64_t passes = settings.distributed.world_size * settings.training.gradient_accumulation_steps;
  return {"distributed.world_size * training.gradient_accumulation_steps", std::to_string(passes)};
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
  return text;
}

std::vector<std::pair<std::string, std::string>> number_keys(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Key& key : all_keys()) {
    if (key.effect != KeyEffect::kNumbers || !is_present(key, settings)) continue;
    const std::string name = qualified_name(key);
    if (name == "training.gradient_accumulation_steps") {
      keys.push_back(backward_passes_of_an_update(settings));
    } else {
      keys.emplace_back(name, value_text(key, settings));
    }
  }
  // Negatives come from the ranks of one micro-batch: then it is another loss with another number of them. And what is
  // dropped is a micro-batch that is not whole: then it is another epoch.
  for (const auto& [is_on, key] : {std::pair{settings.training.gather_negatives, "training.gather_negatives"},
                                   {settings.data.dataloader_drop_last, "data.dataloader_drop_last"}}) {
    if (is_on)
      keys.emplace_back(std::string("distributed.world_size with ") + key,
                        std::to_string(settings.distributed.world_size));
  }
  return keys;
}

std::string settings_digest(const Settings& settings) {
  std::string text;
  for (const auto& [key, value] : number_keys(settings)) text.append(key).append(" = ").append(value).append("\n");
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

std::string settings_reference() {
  const Settings defaults;
  std::string text;
  std::string_view table;
  for (const Key& key : all_keys()) {
    if (table != key.table) {
      table = key.table;
      text += (text.empty() ? "" : "\n") + std::string("### [") + std::string(table) + "]\n\n";
      text += "| key | default | allowed | meaning | numbers |\n|---|---|---|---|---|\n";
    }
    const std::string value = key.default_note != nullptr ? key.default_note : "`" + value_text(key, defaults) + "`";
    text += std::string("| `") + key.name + "` | " + value + " | " + cell(allowed_values(key)) + " | " +
            cell(key.meaning) + " | " + (key.effect == KeyEffect::kNumbers ? "yes" : "") + " |\n";
  }
  return text + "\nnumbers: another value gives other results, so a run that is resumed must have the same.\n";
}

}  // namespace bascule
