// SPDX-License-Identifier: Apache-2.0
#include "src/settings/keys.h"

#include <algorithm>
#include <string_view>

#include "src/settings/key_tables.h"

namespace bascule {
namespace {

// The keys of groups come last.
const std::vector<Key>& joined_keys() {
  static const std::vector<Key> joined = [] {
    std::vector<Key> keys;
    for (const Span<const Key> some : {keys_of_data(), keys_of_training(), keys_of_drawing(), keys_of_serving(),
                                       keys_of_machine(), keys_of_groups()})
      keys.insert(keys.end(), some.begin(), some.end());
    return keys;
  }();
  return joined;
}

}  // namespace

Span<const Key> keys_of_file() { return {joined_keys().data(), joined_keys().size()}; }
Span<const Key> all_keys() { return keys_of_file().first(keys_of_file().size() - keys_of_groups().size()); }
Span<const Key> group_keys() { return keys_of_groups(); }

bool trains_and_serves(const Settings& settings) {
  return settings.serve.is_given && !settings.draw.is_given && settings.origin.where.count("training.output_dir") > 0;
}

bool only_serves(const Settings& settings) { return settings.serve.is_given && !trains_and_serves(settings); }

bool is_present(const Key& key, const Settings& settings) {
  const std::string_view table = key.table;
  if (table == kSimulationTable) return settings.media_engine.simulation.is_given;
  // The noise of a file has no seed.
  const bool is_idle_seed = settings.draw.latents_file.is_given() && key.name == std::string_view("seed");
  if (table == kDrawTable) return settings.draw.is_given && !is_idle_seed;
  if (table == kServeTable) return settings.serve.is_given;
  if (!settings.draw.is_given && !only_serves(settings)) return true;
  const char* const kOfTraining[] = {"data", "media_engine", "training", "generation"};
  return std::none_of(std::begin(kOfTraining), std::end(kOfTraining),
                      [&](const char* name) { return table == name; }) &&
         !is_idle(key, settings);
}

bool is_idle(const Key& key, const Settings& settings) {
  constexpr std::string_view kInDrawing[] = {"model.head",         "model.freeze",         "model.dropout",
                                             "model.image_size",   "machine.step_seconds", "machine.products",
                                             "report.tensorboard", "report.profile",       "report.hash_steps",
                                             "report.tracking",    "report.tracking_dir",  "report.mlperf_log"};
  constexpr std::string_view kInServing[] = {"model.head",      "model.from_scratch",   "model.freeze",
                                             "model.dropout",   "model.image_size",     "model.pooling",
                                             "model.normalize", "machine.step_seconds", "machine.products"};
  const std::string_view name = key.name, table = key.table;
  const std::string qualified = qualified_name(key);
  if (only_serves(settings))
    return table == "distributed" || table == "report" ||
           std::find(std::begin(kInServing), std::end(kInServing), qualified) != std::end(kInServing);
  if (!settings.draw.is_given) return false;
  // Ranks draw pictures of their own, on one machine: nothing is summed.
  const bool is_of_sums = table == "distributed" && name != "world_size" && name != "timeout_seconds";
  return is_of_sums || std::find(std::begin(kInDrawing), std::end(kInDrawing), qualified) != std::end(kInDrawing);
}

bool is_required(const Key& key) {
  return key.default_note != nullptr && std::string_view(key.default_note) == "required";
}

std::string qualified_name(const Key& key) { return std::string(key.table) + "." + key.name; }

}  // namespace bascule
