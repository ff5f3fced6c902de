// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_files.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string_view>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/json/json.h"
#include "src/judge/evaluation_figure.h"
#include "src/logs/json_log.h"
#include "src/logs/run_status.h"
#include "src/pictures/picture_log.h"
#include "src/run_folder/run_folder.h"
#include "src/run_folder/run_marker.h"
#include "src/settings/read_canonical.h"

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

// A count that a double holds exactly; -1 where there is none.
std::int64_t count_in(const Json& json, std::string_view key) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  const Json* const found = json.find(key);
  return found != nullptr && found->is_integer() && found->integer() <= kMost
             ? std::max<std::int64_t>(found->integer(), -1)
             : -1;
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
    const std::int64_t step = count_in(line, "step");
    if (step < 0) continue;
    run->step = std::max(run->step, step);
    for (const auto& [key, value] : line.items()) {
      if (!is_curve(key) || !value.is_number()) continue;
      curve_of(run, key).points.push_back({static_cast<double>(step), value.number()});
      if (key == "loss") run->loss = value.number();
    }
  }
}

// As the run judges its evaluations; without a rule of its own, the lowest loss.
void find_best(ListedRun* run) {
  std::string figure = setting_of(*run, "training.metric_for_best_model");
  figure.erase(std::remove(figure.begin(), figure.end(), '"'), figure.end());
  const bool is_given = !figure.empty();
  if (!is_given) figure = "loss";
  figure = std::string(kEvaluation) + std::string(figure_name(figure));
  const bool greater = is_given && setting_of(*run, "training.greater_is_better") == "true";
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
  std::ifstream file(folder + "/" + kPictureLogFile);
  std::int64_t lines = 0;
  for (std::string text; std::getline(file, text);) ++lines;
  return lines;
}

}  // namespace

std::vector<NamedText> settings_of_text(const std::string& toml) {
  using Kind = CanonicalLine::Kind;
  std::vector<NamedText> settings;
  std::string groups;
  bool trains = false;
  for (const CanonicalLine& line : canonical_lines(toml)) {
    trains = trains || line.table == "training";
    if (line.kind == Kind::kGroup) groups += groups.empty() ? "{" : "}, {";
    if (line.kind != Kind::kValue) continue;
    if (line.table == "training.groups") {
      groups += (groups.empty() || groups.back() == '{' ? "" : ", ") + std::string(line.text);
    } else {
      settings.push_back({std::string(line.table) + "." + std::string(line.name), std::string(line.value)});
    }
  }
  if (trains) settings.push_back({"training.groups", "[" + groups + (groups.empty() ? "]" : "}]")});
  return settings;
}

ListedRun read_listed_run(const std::string& folder) {
  const RunMarker marker = read_run_marker(folder);
  if (!marker.exists) throw Error(ErrorKind::kData, folder, "was removed while it was listed");
  ListedRun run;
  run.path = shown_path(folder);
  run.state = is_in_use(folder) ? "running" : marker.is_whole() ? "finished" : "stopped";
  run.draws = marker.draws;
  run.settings = settings_of_text(marker.settings);
  for (const NamedText& path : marker.absolute_paths) {
    for (NamedText& setting : run.settings) {
      if (setting.name == path.name) setting.value = path.value;
    }
  }
  if (!run.settings.empty()) run.settings.insert(run.settings.begin(), {"kind", run.draws ? "drawing" : "training"});
  const Json status = optional_json(folder + "/" + kStatusFile);
  const Json results = optional_json(folder + "/all_results.json");
  read_log(folder, &run);
  find_best(&run);
  if (run.draws) {
    run.step = count_pictures(folder);
    run.steps = std::max<std::int64_t>(count_in(status, "total"), 0);
  } else {
    run.steps = std::max<std::int64_t>(count_in(status, "updates"), 0);
    run.step = marker.finished ? marker.global_step : std::max(run.step, count_in(status, "update"));
  }
  run.seconds = number_in(results, "total_train_runtime");
  if (!marker.finished || !std::isfinite(run.seconds))
    run.seconds = number_in(status, "time") - number_in(status, "started");
  if (marker.not_finite_at > 0) run.note = "values were not finite at update " + std::to_string(marker.not_finite_at);
  return run;
}

}  // namespace bascule
