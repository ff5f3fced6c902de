// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_marker.h"

#include <filesystem>

#include "src/checkpoint/output_dir.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/settings/read_canonical.h"

namespace bascule {

RunMarker read_run_marker(const std::string& output_dir) {
  const std::string path = output_dir + "/" + kRunMarkerFile;
  RunMarker marker;
  marker.exists = std::filesystem::exists(path);
  if (!marker.exists) return marker;
  const Json json = read_json_file(path);
  marker.finished = get_bool(json, "finished", path, false);
  marker.trained = get_bool(json, "trained", path, false);
  marker.settings_digest = get_string(json, "settings_digest", path, "");
  marker.settings = get_string(json, "settings", path, "");
  // A line of its own: a value has no line breaks.
  marker.draws = marker.settings.find("\n[draw]\n") != std::string::npos;
  marker.global_step = get_int(json, "global_step", path, 0);
  marker.not_finite_at = get_int(json, "not_finite_at", path, 0);
  return marker;
}

Settings marker_settings(const RunMarker& marker, const ModelWords& words) {
  Settings settings = read_canonical_settings(marker.settings, kRunMarkerFile, words);
  // A program without the key computed with oneDNN's products (Key::before).
  if (marker.settings.find("\nproducts = ") == std::string::npos) settings.machine.products = Products::kOnednn;
  return settings;
}

void write_run_marker(const Settings& settings, const RunState& state, const std::vector<HistoryEntry>& history,
                      const std::vector<NamedText>& provenance, const Json& record) {
  Json json = {{"format", kRunMarkerFormat},
               {"finished", state.finished},
               {"trained", state.finished && settings.training.do_train},
               {"global_step", state.global_step},
               {"settings_digest", settings_digest(settings)}};
  if (state.not_finite_at > 0) json["not_finite_at"] = state.not_finite_at;
  json["history"] = history_json(history);
  json["preprocessing"] = settings.data.preprocessing == Preprocessing::kTraining ? "training" : "processor";
  json["interpolation"] = settings.data.interpolation == Interpolation::kBilinear ? "bilinear" : "bicubic";
  json["eval_crop_ratio"] = settings.data.eval_crop_ratio;
  json["max_seq_length"] = settings.data.max_seq_length;
  if (const HeadWords* const head = settings.head(); head != nullptr && head->reads_targets) {
    json["source_prefix"] = settings.data.source_prefix;
    json["max_source_length"] = settings.data.max_source_length;
  }
  Json facts = Json::object();
  for (const NamedText& fact : provenance) facts[fact.name] = fact.value;
  json["provenance"] = facts;
  json["settings"] = print_settings(settings);
  if (!record.is_null()) json["record"] = record;
  write_output_file(settings.run.output_dir.resolved + "/" + kRunMarkerFile, json_text(json, 2) + "\n");
}

}  // namespace bascule
