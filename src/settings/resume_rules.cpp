// SPDX-License-Identifier: Apache-2.0
#include "src/settings/resume_rules.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "src/settings/keys.h"

namespace bascule {
namespace {

constexpr char kNotSet[] = "not set";

struct EffectText {
  KeyEffect effect;
  const char* word;
  const char* meaning;
};

constexpr EffectText kEffects[] = {
    {KeyEffect::kFree, "yes", "any value gives the same results"},
    {KeyEffect::kWhileTraining, "while training",
     "a change may lead to different weights (another best evaluation, an earlier stop, different rounding, a picture "
     "too large to decode); it applies from the checkpoint on and leaves a finished run unchanged"},
    {KeyEffect::kFromThereOn, "from there on", "a change gives different results; it applies from the checkpoint on"},
    {KeyEffect::kLonger, "longer",
     "the run may become longer; its schedule is stretched to the new end, or kept with `training.lr_schedule_steps`"},
    {KeyEffect::kLower, "lower", "it may be lowered after the run stopped on values that are not finite"},
    {KeyEffect::kSameFiles, "same content", "the path may change if its files have the same content"},
    {KeyEffect::kSameRows, "same rows",
     "the path may change if it leads to the same rows; pictures that the run found bad or missing may be replaced, or "
     "their rows removed"},
    {KeyEffect::kSameProduct, "same product",
     "`distributed.world_size` times `training.gradient_accumulation_steps` must stay the same; with "
     "`training.gather_negatives`, `data.dataloader_drop_last` or `training.batch_sampler = \"no_duplicates\"`, "
     "`distributed.world_size` must too; results then differ by rounding alone"},
    {KeyEffect::kBetweenMachines, "on one machine",
     "it may change on one machine, where it has no effect; on several a change would give different results, so it is "
     "refused"},
    {KeyEffect::kWithLibrary, "with our products",
     "any value gives the same results with `machine.products = \"ours\"`; with oneDNN's products a change may lead to "
     "different weights, and applies from the checkpoint on"},
    {KeyEffect::kNumbers, "no", "a change would give different results, so it is refused"},
};

const EffectText& text_of(KeyEffect effect) {
  return *std::find_if(std::begin(kEffects), std::end(kEffects),
                       [&](const EffectText& text) { return text.effect == effect; });
}

// A picture does not depend on the rank that draws it.
bool is_of_free_ranks(const Key& key, const Settings& settings) {
  return settings.draw.is_given && key.effect == KeyEffect::kSameProduct;
}

KeyEffect effect_of(const Key& key, const Settings& settings) {
  if (is_of_free_ranks(key, settings)) return KeyEffect::kFree;
  if (key.effect == KeyEffect::kWithLibrary)
    return settings.machine.products == Products::kOurs ? KeyEffect::kFree : KeyEffect::kWhileTraining;
  if (key.effect != KeyEffect::kBetweenMachines) return key.effect;
  return settings.distributed.machines > 1 ? KeyEffect::kNumbers : KeyEffect::kFree;
}

bool is_number(KeyEffect effect) {
  return effect != KeyEffect::kFree && effect != KeyEffect::kWhileTraining && effect != KeyEffect::kSameProduct &&
         effect != KeyEffect::kWithLibrary;
}

// The frozen parts as a checkpoint keeps them, idle ones being frozen as they are by default; other values as they are.
std::string idle_parts_at_default(const Key& key, const std::string& value, const ModelWords& words) {
  if (!std::holds_alternative<FreezeKey>(key.kind)) return value;
  const auto holds = [](const std::vector<std::string>& all, const std::string& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  Settings settings;
  for (const std::string& part : words.parts) {
    const bool is_frozen =
        holds(words.idle, part) ? holds(words.frozen, part) : value.find(quoted(part)) != std::string::npos;
    if (is_frozen) std::get<FreezeKey>(key.kind).member.at(settings).push_back(part);
  }
  return value_text(key, settings);
}

// Of the run itself: not how its finished folder is served afterwards.
bool is_of_run(const Key& key, const Settings& settings) {
  return is_present(key, settings) && (!trains_and_serves(settings) || key.table != std::string_view(kServeTable));
}

KeyValues keys_where(bool numbers, const Settings& settings) {
  KeyValues keys;
  for (const Key& key : all_keys()) {
    if (is_number(key.effect) != numbers || !is_of_run(key, settings)) continue;
    const std::string value = idle_parts_at_default(key, value_text(key, settings), settings.words);
    if (key.before == nullptr || value != key.before) keys.push_back({qualified_name(key), value});
  }
  return keys;
}

bool is_key(const std::string& name) {
  return std::any_of(all_keys().begin(), all_keys().end(), [&](const Key& key) { return qualified_name(key) == name; });
}

}  // namespace

const char* resume_word(KeyEffect effect) { return text_of(effect).word; }
const char* resume_meaning(KeyEffect effect) { return text_of(effect).meaning; }

std::vector<NamedText> resume_words() {
  std::vector<NamedText> words;
  for (const EffectText& effect : kEffects) words.push_back({effect.word, effect.meaning});
  return words;
}

std::string resume_legend() {
  std::string text;
  for (const auto& [word, meaning] : resume_words())
    text.append("- ").append(word).append(": ").append(meaning).append("\n");
  return text;
}

std::vector<KeyRule> resume_rules(const Settings& settings) {
  std::vector<KeyRule> rules;
  for (const Key& key : all_keys()) {
    if (!is_present(key, settings) && key.table != std::string_view(kSimulationTable)) continue;
    const EffectText& text = text_of(is_of_free_ranks(key, settings) ? KeyEffect::kFree : key.effect);
    rules.push_back({qualified_name(key), value_text(key, settings), text.word, text.meaning});
  }
  if (settings.draw.is_given || only_serves(settings)) return rules;
  const EffectText& text = text_of(KeyEffect::kNumbers);
  rules.push_back({kGroupsTable, groups_text(settings), text.word, text.meaning});
  return rules;
}

KeyValues number_keys(const Settings& settings) {
  KeyValues keys = keys_where(true, settings);
  if (settings.draw.is_given || only_serves(settings)) return keys;
  // Several ranks with less accumulation sum the same gradient: only the product counts.
  const std::int64_t passes = settings.distributed.world_size * settings.training.gradient_accumulation_steps;
  keys.push_back({"distributed.world_size * training.gradient_accumulation_steps", std::to_string(passes)});
  // Negatives come from the ranks of one micro-batch: then it is another loss with another number of them. And what is
  // dropped is a micro-batch that is not whole: then it is another epoch.
  for (const auto& [is_on, key] : {std::pair{settings.training.gather_negatives, "training.gather_negatives"},
                                   {settings.data.dataloader_drop_last, "data.dataloader_drop_last"},
                                   {settings.training.batch_sampler == BatchSampler::kNoDuplicates,
                                    "training.batch_sampler = \"no_duplicates\""}}) {
    if (is_on)
      keys.push_back(
          {std::string("distributed.world_size with ") + key, std::to_string(settings.distributed.world_size)});
  }
  if (!settings.training.groups.empty()) keys.push_back({kGroupsTable, groups_text(settings)});
  return keys;
}

KeyValues other_keys(const Settings& settings) { return keys_where(false, settings); }

std::vector<SettingChange> setting_changes(const KeyValues& numbers, const KeyValues& others, const Settings& now) {
  const Settings defaults = default_settings(now.words);
  std::vector<SettingChange> changes;
  const auto compare = [&](const std::string& key, const std::string& from, const std::string& to, KeyEffect effect) {
    if (from != to) changes.push_back({key, from, to, effect});
  };
  for (const Key& key : all_keys()) {
    if (!is_of_run(key, now) && key.table != std::string_view(kSimulationTable)) continue;
    const std::string name = qualified_name(key);
    const std::string* then = find_value(numbers, name);
    if (then == nullptr) then = find_value(others, name);
    if (then == nullptr && !is_number(key.effect)) continue;
    const std::string before = key.before != nullptr ? key.before : value_text(key, defaults);
    const std::string from = then != nullptr ? *then : before;
    compare(name, idle_parts_at_default(key, from, now.words),
            idle_parts_at_default(key, value_text(key, now), now.words), effect_of(key, now));
  }
  const KeyValues today = number_keys(now);
  for (const auto& [name, value] : today) {
    if (is_key(name)) continue;
    const std::string* const then = find_value(numbers, name);
    compare(name, then != nullptr ? *then : kNotSet, value, KeyEffect::kNumbers);
  }
  for (const auto& [name, value] : numbers) {
    if (!is_key(name) && find_value(today, name) == nullptr) compare(name, value, kNotSet, KeyEffect::kNumbers);
  }
  return changes;
}

KeyEffect effect_of_key(const std::string& name, const Settings& settings) {
  const auto key =
      std::find_if(all_keys().begin(), all_keys().end(), [&](const Key& one) { return qualified_name(one) == name; });
  return key == all_keys().end() ? KeyEffect::kNumbers : effect_of(*key, settings);
}

}  // namespace bascule
