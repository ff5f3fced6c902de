// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_marker.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "src/settings/absolute_paths.h"
#include "src/settings/read_canonical.h"

namespace bascule {
namespace {

constexpr char kDrawnFrom[] = "drawn_from";
constexpr char kReplaced[] = "replaced", kResults[] = "results", kWeights[] = "weights";

RunMarker marker_of(const Json& json, const std::string& path) {
  RunMarker marker;
  marker.exists = true;
  marker.finished = get_bool(json, "finished", path, false);
  marker.trained = get_bool(json, "trained", path, false);
  marker.settings_digest = get_string(json, "settings_digest", path, "");
  marker.settings = get_string(json, "settings", path, "");
  if (json.contains("absolute_paths")) {
    for (const auto& [key, value] : get_object(json, "absolute_paths", path).items())
      marker.absolute_paths.push_back({key, value.is_string() ? value.string() : ""});
  }
  // A line of its own: a value has no line breaks.
  marker.draws = marker.settings.find("\n[draw]\n") != std::string::npos;
  marker.global_step = get_int(json, "global_step", path, 0);
  const std::string replaced = get_string(json, kReplaced, path, "");
  marker.replaced = replaced == kWeights   ? Replaced::kWeights
                    : replaced == kResults ? Replaced::kResults
                                           : Replaced::kNothing;
  marker.not_finite_at = get_int(json, "not_finite_at", path, 0);
  if (find_member(json, kDrawnFrom, path) == nullptr) return marker;
  const Json& drawn_from = get_object(json, kDrawnFrom, path);
  for (const auto& [name, digest] : drawn_from.items())
    marker.drawn_from.push_back({name, get_string(drawn_from, name, path)});
  return marker;
}

Json object_of(const std::vector<NamedText>& texts) {
  Json object = Json::object();
  for (const NamedText& one : texts) object[one.name] = one.value;
  return object;
}

}  // namespace

RunMarker read_run_marker(const std::string& output_dir) {
  const std::string path = output_dir + "/" + kRunMarkerFile;
  if (!std::filesystem::exists(path)) return {};
  try {
    return marker_of(read_json_file(path), path);
  } catch (const Error& error) {
    if (error.reason() != 0) throw;
    const std::string must = error.what_to_do().empty() ? "" : "; " + error.what_to_do();  // "it must be a string"
    throw Error(error.kind(), error.where(), error.problem() + must, "restore it, or choose another folder");
  }
}

Settings marker_settings(const RunMarker& marker, const ModelWords& words) {
  Settings settings = read_canonical_settings(marker.settings, kRunMarkerFile, words);
  // A program without the key computed with oneDNN's products (Key::before).
  if (marker.settings.find("\nproducts = ") == std::string::npos) settings.machine.products = Products::kOnednn;
  return settings;
}

void write_run_marker(const Settings& settings, const RunState& state, const std::vector<HistoryEntry>& history,
                      const std::vector<NamedText>& provenance, const Json& record,
                      const std::vector<NamedText>& drawn_from) {
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
  json["reads_pairs"] = !settings.data.text_pair_column.empty();
  if (const HeadWords* const head = settings.head(); head != nullptr && head->reads_targets) {
    json["source_prefix"] = settings.data.source_prefix;
    json["max_source_length"] = settings.data.max_source_length;
  }
  json["provenance"] = object_of(provenance);
  if (!drawn_from.empty()) json[kDrawnFrom] = object_of(drawn_from);
  json["settings"] = print_settings(settings);
  Json absolute = Json::object();
  for (const auto& [key, value] : absolute_path_values(settings)) absolute[key] = value;
  json["absolute_paths"] = absolute;
  if (!record.is_null()) json["record"] = record;
  write_output_file(settings.run.output_dir.resolved + "/" + kRunMarkerFile, json_text(json, 2) + "\n");
}

void mark_replaced(const std::string& output_dir, Replaced what) {
  const std::string path = output_dir + "/" + kRunMarkerFile;
  Json json = read_json_file(path);
  json[kReplaced] = what == Replaced::kWeights ? kWeights : kResults;
  write_output_file(path, json_text(json, 2) + "\n");
}

}  // namespace bascule
