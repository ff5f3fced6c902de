// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_list.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "src/base/error.h"
#include "src/checkpoint/output_dir.h"
#include "src/json/json.h"
#include "src/run_folder/run_files.h"

namespace bascule {
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
  std::error_code ignored;
  const bool has_marker = fs::exists(marker, ignored);
  const OutputDirKind kind = classify_output_dir(folder).kind;
  if (kind == OutputDirKind::kOurs && has_marker) runs->insert(folder);
  if (kind == OutputDirKind::kOurs && !has_marker)
    throw Error(ErrorKind::kData, folder, std::string("has checkpoints but no ") + kRunMarkerFile);
  // Another program's file of that name is no reason to complain; a damaged one may be a run's.
  if (kind == OutputDirKind::kOther && fs::is_regular_file(marker, ignored)) (void)read_json_file(marker);
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
