// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/json/json.h"
#include "src/logs/json_log.h"
#include "src/logs/progress.h"
#include "src/logs/step_record.h"
#include "src/pictures/picture_log.h"
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

namespace {

namespace fs = std::filesystem;

// The folders of runs, and why others were left out.
struct FoundFolders {
  std::set<std::string> runs;
  std::vector<std::string>* notes;
};

// Whether the folder is a run's, or what a run has left. Throws Error where such a run cannot be read.
bool belongs_to_run(const std::string& folder, std::set<std::string>* runs) {
  const std::string marker = folder + "/" + kRunMarkerFile;
  const bool has_marker = is_there(marker);
  const OutputDirKind kind = classify_output_dir(folder).kind;
  if (kind == OutputDirKind::kOurs && has_marker) runs->insert(folder);
  if (kind == OutputDirKind::kOurs && !has_marker)
    throw Error(ErrorKind::kData, folder, std::string("has checkpoints but no ") + kRunMarkerFile);
  // Another program's file of that name is no reason to complain; a damaged one may be a run's.
  if (kind == OutputDirKind::kOther && is_file(marker)) (void)read_json_file(marker);
  return kind == OutputDirKind::kOurs;
}

// Why the folder cannot be searched; no error where it can.
std::error_code search_failure(const std::string& folder) {
  std::error_code failure;
  if (fs::symlink_status(folder + "/" + kRunMarkerFile, failure).type() != fs::file_type::not_found && failure)
    return failure;
  failure.clear();
  const fs::directory_iterator entry(folder, failure);
  return failure;
}

// The folders of runs at and below `folder`. One that vanishes meanwhile is no error.
void find_folders(const std::string& folder, FoundFolders* found) {
  std::error_code failure = search_failure(folder);
  try {
    if (!failure && belongs_to_run(folder, &found->runs)) return;
  } catch (const Error& error) {
    found->notes->push_back(error.what());
    return;
  }
  fs::directory_iterator entry;
  if (!failure) entry = fs::directory_iterator(folder, failure);
  for (const fs::directory_iterator end; !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored)) find_folders(entry->path().string(), found);
  }
  if (failure && failure != std::errc::no_such_file_or_directory)
    found->notes->push_back(Error(ErrorKind::kData, folder, "cannot be read: " + failure.message()).what());
}

// A folder of the command line, without links: two names of one folder are one.
std::string canonical_folder(const std::string& folder) {
  std::error_code failure;
  const fs::path canonical = fs::canonical(folder, failure);
  if (!failure) failure = search_failure(canonical.string());
  if (failure) throw Error(ErrorKind::kData, folder, "cannot be read: " + failure.message(), "name a folder of runs");
  return canonical.string();
}

// Leaves the settings in which two runs that have them disagree. The folder is another in each run.
void keep_differing(std::vector<ListedRun>* runs) {
  std::map<std::string, std::string> first;
  std::set<std::string> differing;
  for (const ListedRun& run : *runs) {
    for (const NamedText& setting : run.settings) {
      if (first.emplace(setting.name, setting.value).first->second != setting.value) differing.insert(setting.name);
    }
  }
  differing.erase("training.output_dir");
  differing.erase("draw.output_dir");
  for (ListedRun& run : *runs) {
    const auto is_common = [&](const NamedText& setting) { return differing.count(setting.name) == 0; };
    run.settings.erase(std::remove_if(run.settings.begin(), run.settings.end(), is_common), run.settings.end());
  }
}

Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

}  // namespace

std::vector<ListedRun> list_runs(const std::vector<std::string>& folders, std::vector<std::string>* notes) {
  FoundFolders found{{}, notes};
  for (const std::string& folder : folders) find_folders(canonical_folder(folder), &found);
  std::vector<ListedRun> runs;
  for (const std::string& folder : found.runs) {
    try {
      runs.push_back(read_listed_run(folder));
    } catch (const Error& error) {
      notes->push_back(error.what());
    }
  }
  keep_differing(&runs);
  return runs;
}

std::string runs_json(const std::vector<ListedRun>& runs) {
  Json list = Json::array();
  for (const ListedRun& run : runs) {
    Json settings = Json::object();
    for (const NamedText& setting : run.settings) settings[setting.name] = setting.value;
    Json best;
    if (!run.best_figure.empty())
      best = {{"figure", run.best_figure}, {"step", run.best_step}, {"value", number_or_null(run.best)}};
    list.push_back({{"run", run.path},
                    {"state", run.state},
                    {"note", run.note},
                    {"draws", run.draws},
                    {"step", run.step},
                    {"steps", run.steps > 0 ? Json(run.steps) : Json(nullptr)},
                    {"loss", number_or_null(run.loss)},
                    {"best", best},
                    {"seconds", number_or_null(run.seconds)},
                    {"settings", settings}});
  }
  return json_text({{"runs", list}}, 2) + "\n";
}

}  // namespace bascule
