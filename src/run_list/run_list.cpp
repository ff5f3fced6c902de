// SPDX-License-Identifier: Apache-2.0
#include "src/run_list/run_list.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/checkpoint/output_dir.h"
#include "src/json/json.h"
#include "src/run_list/run_files.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

// The folders of runs at and below `folder`.
void find_folders(const std::string& folder, std::set<std::string>* found, std::vector<std::string>* notes) {
  try {
    if (classify_output_dir(folder).kind == OutputDirKind::kOurs && fs::exists(folder + "/" + kRunMarkerFile)) {
      found->insert(folder);
      return;
    }
  } catch (const Error& error) {
    notes->push_back(error.what());  // a run that cannot be read
    return;
  }
  std::error_code failure;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, failure)) {
    std::error_code ignored;
    if (entry.is_directory(ignored) && !entry.is_symlink(ignored)) find_folders(entry.path().string(), found, notes);
  }
  if (failure) throw Error(ErrorKind::kData, folder, "cannot be read: " + failure.message());
}

// Leaves the settings that not all runs have with the same value. The folder is another in each run.
void keep_differing(std::vector<ListedRun>* runs) {
  const auto is_common = [&](const NamedText& setting) {
    return std::all_of(runs->begin(), runs->end(), [&](const ListedRun& run) {
      return std::any_of(run.settings.begin(), run.settings.end(), [&](const NamedText& other) {
        return other.name == setting.name && other.value == setting.value;
      });
    });
  };
  std::vector<std::vector<NamedText>> kept;
  for (const ListedRun& run : *runs) {
    kept.emplace_back();
    for (const NamedText& setting : run.settings) {
      const bool is_folder = setting.name == "training.output_dir" || setting.name == "draw.output_dir";
      if (!is_folder && !is_common(setting)) kept.back().push_back(setting);
    }
  }
  for (std::size_t i = 0; i < runs->size(); ++i) (*runs)[i].settings = kept[i];
}

Json number_or_null(double number) { return std::isfinite(number) ? Json(number) : Json(nullptr); }

}  // namespace

std::vector<ListedRun> list_runs(const std::vector<std::string>& folders, std::vector<std::string>* notes) {
  std::set<std::string> found;
  for (const std::string& folder : folders) {
    std::string whole = fs::absolute(folder).lexically_normal().string();
    while (whole.size() > 1 && whole.back() == '/') whole.pop_back();
    find_folders(whole, &found, notes);
  }
  std::vector<ListedRun> runs;
  for (const std::string& folder : found) {
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
