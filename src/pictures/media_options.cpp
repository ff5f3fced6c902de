// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/media_options.h"

#include <cstdio>

#include "src/base/error.h"

namespace bascule {
namespace {

constexpr const char kTable[] = "media_engine.simulation";

void add(std::string* options, const SettingsOrigin& origin, const media_engine_driver* engine, const std::string& key,
         const std::string& word) {
  const char* const problem = media_engine_option_problem(engine, word.c_str());
  if (problem != nullptr) {
    const std::string name = std::string(kTable) + "." + key;
    throw Error{ErrorKind::kSettings, where_written(origin, name),
                name + ": \"" + word.substr(word.find('=') + 1) + "\" is invalid", problem};
  }
  *options += (options->empty() ? "" : " ") + word;
}

std::string number_word(const char* name, double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%s=%.17g", name, value);
  return text;
}

}  // namespace

std::string media_options(const SimulationSettings& simulation, const SettingsOrigin& origin,
                          const media_engine_driver* engine) {
  if (!simulation.is_given) return "";
  const std::string name = media_engine_query(engine).name;
  if (name != "hpu_sim") {
    throw Error{ErrorKind::kSettings, where_written(origin, kTable),
                "[media_engine.simulation] is set, but this program was built with the media engine \"" + name + "\"",
                "remove the table, or build with -Dmedia_engine=hpu_sim"};
  }
  if (simulation.faults.size() > MEDIA_ENGINE_FAULT_RULES) {
    const std::string key = std::string(kTable) + ".faults";
    throw Error{ErrorKind::kSettings, where_written(origin, key),
                key + ": " + std::to_string(simulation.faults.size()) + " faults",
                "at most " + std::to_string(MEDIA_ENGINE_FAULT_RULES) + " are allowed"};
  }
  std::string options;
  add(&options, origin, engine, "pictures_per_second", number_word("rate", simulation.pictures_per_second));
  add(&options, origin, engine, "latency_ms", number_word("latency_ms", simulation.latency_ms));
  add(&options, origin, engine, "polling", simulation.polling ? "polling=1" : "polling=0");
  add(&options, origin, engine, "timeout_ms", "timeout_ms=" + std::to_string(simulation.timeout_ms));
  add(&options, origin, engine, "fault_seed", "seed=" + std::to_string(simulation.fault_seed));
  for (const std::string& fault : simulation.faults) add(&options, origin, engine, "faults", "fault=" + fault);
  return options;
}

}  // namespace bascule
