// SPDX-License-Identifier: Apache-2.0
#include "src/run_list/run_files.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/json/json.h"
#include "src/records/json_log.h"
#include "src/records/run_status.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"

namespace bascule {
namespace {

constexpr std::string_view kEvaluation = "eval_";

// A file of the run, or null where it is absent or cannot be read.
Json optional_json(const std::string& path) {
  try {
    return read_json_file(path);
  } catch (const Error&) {
    return {};
  }
}

double number_in(const Json& json, std::string_view key) {
  const Json* const found = json.find(key);
  return found != nullptr && found->is_number() ? found->number() : std::nan("");
}

std::int64_t count_in(const Json& json, std::string_view key) {
  const double number = number_in(json, key);
  return std::isfinite(number) ? static_cast<std::int64_t>(number) : 0;
}

std::string value_of(const std::vector<NamedText>& settings, std::string_view key) {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const NamedText& setting) { return setting.name == key; });
  return found == settings.end() ? "" : found->value;
}

// Figures of the evaluation and of training that a chart compares; not what is the same in every line, nor times.
bool is_curve(std::string_view key) {
  const auto ends_with = [&](std::string_view end) {
    return key.size() >= end.size() && key.substr(key.size() - end.size()) == end;
  };
  if (key.substr(0, kEvaluation.size()) == kEvaluation) return !ends_with("_runtime") && !ends_with("_samples");
  return key == "loss" || key == "grad_norm" || key == "learning_rate" || key == "samples_per_second";
}

RunCurve& curve_of(ListedRun* run, const std::string& figure) {
  for (RunCurve& curve : run->curves) {
    if (curve.figure == figure) return curve;
  }
  run->curves.push_back({figure, {}});
  return run->curves.back();
}

// log.jsonl. A line that cannot be read is being written.
void read_log(const std::string& folder, ListedRun* run) {
  std::ifstream file(folder + "/" + kLogFile);
  for (std::string text; std::getline(file, text);) {
    Json line;
    try {
      line = parse_json(text, "");
    } catch (const Error&) {
      continue;
    }
    if (!line.is_object()) continue;
    const double step = number_in(line, "step");
    if (!std::isfinite(step)) continue;
    run->step = std::max(run->step, static_cast<std::int64_t>(step));
    for (const auto& [key, value] : line.items()) {
      if (!is_curve(key) || !value.is_number()) continue;
      curve_of(run, key).points.push_back({step, value.number()});
      if (key == "loss") run->loss = value.number();
    }
  }
}

// As the run judges its evaluations; without a rule of its own, the lowest loss.
void find_best(ListedRun* run) {
  std::string figure = value_of(run->settings, "training.metric_for_best_model");
  figure.erase(std::remove(figure.begin(), figure.end(), '"'), figure.end());
  const bool is_given = !figure.empty();
  if (!is_given) figure = "loss";
  if (figure.rfind(kEvaluation, 0) != 0) figure = std::string(kEvaluation) + figure;
  const bool greater = is_given && value_of(run->settings, "training.greater_is_better") == "true";
  for (const RunCurve& curve : run->curves) {
    if (curve.figure != figure) continue;
    for (const ChartPoint& point : curve.points) {
      const bool is_better = run->best_figure.empty() || (greater ? point.y > run->best : point.y < run->best);
      if (!is_better) continue;
      run->best_figure = figure;
      run->best = point.y;
      run->best_step = static_cast<std::int64_t>(point.x);
    }
  }
}

// The lines of images.jsonl, one a picture.
std::int64_t count_pictures(const std::string& folder) {
  std::ifstream file(folder + "/images.jsonl");
  std::int64_t lines = 0;
  for (std::string text; std::getline(file, text);) ++lines;
  return lines;
}

}  // namespace

std::vector<NamedText> settings_of_text(const std::string& toml) {
  constexpr std::string_view kGroups = "training.groups";
  std::vector<NamedText> settings;
  std::string table;
  bool is_groups = false;
  for (std::size_t at = 0; at < toml.size();) {
    const std::size_t end = std::min(toml.find('\n', at), toml.size());
    const std::string line = toml.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = line.find(" = ");
    if (line.empty()) continue;
    if (line.front() == '[') {
      is_groups = line.rfind("[[", 0) == 0;
      table = is_groups ? std::string(kGroups) : line.substr(1, line.size() - 2);
      if (!is_groups) continue;
      if (settings.empty() || settings.back().name != kGroups) settings.push_back({table, ""});
      settings.back().value += settings.back().value.empty() ? "[{" : "}, {";
    } else if (equals != std::string::npos && is_groups) {
      std::string& groups = settings.back().value;
      groups += (groups.back() == '{' ? "" : ", ") + line;
    } else if (equals != std::string::npos) {
      settings.push_back({table + "." + line.substr(0, equals), line.substr(equals + 3)});
    }
  }
  if (is_groups) settings.back().value += "}]";  // they come last
  return settings;
}

ListedRun read_listed_run(const std::string& folder) {
  const RunMarker marker = read_run_marker(folder);
  ListedRun run;
  run.path = shown_path(folder);
  run.state = is_in_use(folder) ? "running" : marker.finished ? "finished" : "stopped";
  run.draws = marker.draws;
  run.settings = settings_of_text(marker.settings);
  const Json status = optional_json(folder + "/" + kStatusFile);
  const Json results = optional_json(folder + "/all_results.json");
  read_log(folder, &run);
  find_best(&run);
  if (run.draws) {
    run.step = count_pictures(folder);
    run.steps = count_in(status, "total");
  } else {
    run.steps = count_in(status, "updates");
    run.step = marker.finished ? marker.global_step : std::max(run.step, count_in(status, "update"));
  }
  run.seconds = number_in(results, "total_train_runtime");
  if (!marker.finished || !std::isfinite(run.seconds))
    run.seconds = number_in(status, "time") - number_in(status, "started");
  if (marker.not_finite_at > 0) run.note = "values were not finite at update " + std::to_string(marker.not_finite_at);
  return run;
}

}  // namespace bascule
