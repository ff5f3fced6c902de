// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/tensor_source.h"
#include "src/json/json.h"

namespace bascule {
namespace {

ResumePoint read_and_check(const std::string& folder, std::optional<std::int64_t> step, CheckpointCheck check) {
  ResumePoint point = read_checkpoint(folder, step);
  if (check == CheckpointCheck::kContents) check_contents(point);
  return point;
}

// The newest of `steps` that can be used; `failure` is the error of the newest of all, if it cannot.
std::optional<ResumePoint> newest_usable(const std::string& output_dir, const std::vector<std::int64_t>& steps,
                                         CheckpointCheck check, std::optional<Error>* failure) {
  for (const std::int64_t step : steps) {
    try {
      return read_and_check(output_dir + "/" + name_of_checkpoint(step), step, check);
    } catch (const Error& error) {
      if (!*failure) *failure = error;
    }
  }
  return std::nullopt;
}

// True also if the folder cannot be accessed: reading it will then say why.
bool may_hold_state(const std::string& folder) {
  return holds_state(PathBuffer(folder)) || (errno != ENOENT && errno != ENOTDIR);
}

[[noreturn]] void throw_unusable(const Error& failure, const std::vector<std::int64_t>& steps,
                                 const std::optional<ResumePoint>& older) {
  std::string what_to_do = failure.what_to_do().empty() ? "" : failure.what_to_do() + "; ";
  if (older) {
    what_to_do += "training.resume = \"older\" resumes from " + name_of_checkpoint(older->global_step) + " and loses " +
                  count_of(steps.front() - older->global_step, "update");
  } else {
    what_to_do += "no older checkpoint is usable; to start again, choose another output_dir";
  }
  throw Error(ErrorKind::kData, failure.where(), failure.problem(), what_to_do);
}

}  // namespace

std::vector<std::int64_t> checkpoint_steps(const std::string& output_dir) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : folder_entries(output_dir)) {
    const std::optional<std::int64_t> step = checkpoint_step(name);
    if (!step) continue;
    const std::string path = output_dir + "/" + name;
    if (may_hold_state(path)) {
      steps.push_back(*step);
      continue;
    }
    if (::access((path + "/" + kTrainingStateFile).c_str(), F_OK) == 0)
      throw Error(ErrorKind::kData, path, std::string("lacks its ") + kStateFile,
                  "restore it, or move " + name + " away");
    throw Error(ErrorKind::kSettings, path, "is not a Bascule checkpoint", "move it out of this folder");
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

bool has_checkpoint(const std::string& output_dir, std::int64_t step) {
  return holds_state(PathBuffer(output_dir + "/" + name_of_checkpoint(step)));
}

bool begins_again(const std::string& output_dir, const ResumeChoice& choice) {
  if (choice.begin_from.empty()) return false;
  const std::vector<std::int64_t> steps = checkpoint_steps(output_dir);
  if (steps.empty()) return true;
  const std::string name = name_of_checkpoint(steps.front());
  try {
    return read_checkpoint(output_dir + "/" + name, steps.front()).resumed_from != choice.begin_from;
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, error.where(), error.problem(),
                "move " + name + " away to start from " + choice.begin_from + " again");
  }
}

std::optional<ResumePoint> find_checkpoint(const std::string& output_dir, const ResumeChoice& choice,
                                           CheckpointCheck check, std::vector<std::string>* notes) {
  const std::vector<std::int64_t> steps = checkpoint_steps(output_dir);
  if (begins_again(output_dir, choice)) {
    if (!may_hold_state(choice.begin_from))
      throw Error(ErrorKind::kData, choice.begin_from, std::string("is not a checkpoint: it has no ") + kStateFile,
                  "set training.resume to a folder such as runs/a/checkpoint-500");
    ResumePoint point = read_and_check(choice.begin_from, std::nullopt, check);
    point.resumed_from = choice.begin_from;
    if (!steps.empty() && steps.front() > point.global_step) {
      notes->push_back("restarting from update " + std::to_string(point.global_step) + ": the next save removes " +
                       name_of_checkpoint(steps.front()) + " and all later ones");
    }
    return point;
  }
  std::optional<Error> failure;
  std::optional<ResumePoint> point = newest_usable(output_dir, steps, check, &failure);
  if (failure && (!point || !choice.may_be_older)) throw_unusable(*failure, steps, point);
  if (failure) {
    const std::string skipped = name_of_checkpoint(steps.front());
    notes->push_back("skipping " + skipped + " (" + failure->where() + " " + failure->problem() + "): resuming from " +
                     name_of_checkpoint(point->global_step) + ", " +
                     count_of(steps.front() - point->global_step, "update") + " lost; " + skipped +
                     " stays until a later save replaces it");
  }
  return point;
}

namespace {

// The checkpoints in a folder: of `newest` and `best` those that are there, and the steps of all others.
struct FoundSteps {
  const char* folder = nullptr;
  std::int64_t newest = 0, best = 0;
  bool keeps_later = false;
  std::int64_t protected_count = 0;
  std::int64_t first = 0, last = 0, count = 0;  // of the others
};

Status find_steps(const char* folder, FoundSteps* steps) noexcept {
  const auto visit = [](void* context, const char* name) noexcept {
    auto* found = static_cast<FoundSteps*>(context);
    const std::optional<std::int64_t> step = checkpoint_step(name);
    if (!step || !holds_state(PathBuffer(found->folder).append("/").append(name))) return ok_status();  // not ours
    if (found->keeps_later && *step > found->newest) return ok_status();
    if (*step == found->newest || *step == found->best) {
      ++found->protected_count;
      return ok_status();
    }
    found->first = found->count == 0 ? *step : std::min(found->first, *step);
    found->last = found->count == 0 ? *step : std::max(found->last, *step);
    ++found->count;
    return ok_status();
  };
  return visit_entries(folder, visit, steps);
}

}  // namespace

Status CheckpointRotation::remove(std::int64_t newest, std::int64_t best, std::int64_t limit,
                                  bool keeps_later) noexcept {
  for (;;) {
    FoundSteps steps;
    steps.folder = output_dir_.c_str();
    steps.newest = newest;
    steps.best = best;
    steps.keeps_later = keeps_later;
    BASCULE_TRY(find_steps(output_dir_.c_str(), &steps));
    const bool abandoned = steps.count > 0 && steps.last > newest;
    const bool too_many = limit > 0 && steps.count > 0 && steps.protected_count + steps.count > limit;
    if (!abandoned && !too_many) return ok_status();
    const PathBuffer name = checkpoint_name(abandoned ? steps.last : steps.first);
    failed_path_ = PathBuffer(output_dir_).append("/").append(name.text());
    BASCULE_TRY(remove_folder(output_dir_.c_str(), name.text()));
  }
}

namespace {

enum class Marker { kAbsent, kOurs, kOther };

// Every version of Bascule has written these.
bool has_our_keys(const Json& json) {
  return json.is_object() && json.contains("finished") && json["finished"].is_boolean() &&
         json.contains("settings_digest") && json["settings_digest"].is_string();
}

Marker read_marker(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::symlink_status(path, failure).type() == std::filesystem::file_type::not_found)
    return Marker::kAbsent;
  if (!std::filesystem::is_regular_file(path, failure)) return Marker::kOther;
  const InputFile file(path);
  if (file.size() > std::int64_t{1} << 30) return Marker::kOther;
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), 0, text.size());
  Json json;
  try {
    json = parse_json(text, path);
  } catch (const Error&) {
    return Marker::kOther;
  }
  if (!has_our_keys(json)) return Marker::kOther;
  const std::int64_t format = get_int(json, "format", path, 1);
  if (format < 1 || format > kRunMarkerFormat) {
    throw Error(
        ErrorKind::kData, path,
        "has format " + std::to_string(format) + ", this program reads 1 to " + std::to_string(kRunMarkerFormat),
        "use the version of Bascule that wrote it");
  }
  return Marker::kOurs;
}

bool dangles(const std::filesystem::path& link) {
  std::error_code failure;
  return std::filesystem::is_symlink(link, failure) && !std::filesystem::exists(link, failure);
}

// Why no folder can be made at a path where nothing is: the nearest thing above it is none. "" where one can.
std::string problem_above(const std::filesystem::path& path) {
  std::error_code failure;
  for (std::filesystem::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    const std::filesystem::file_type type = std::filesystem::symlink_status(at, failure).type();
    if (type == std::filesystem::file_type::not_found) continue;
    if (type == std::filesystem::file_type::none || std::filesystem::is_directory(at, failure)) return "";
    return "lies below " + shown_path(at.string()) + ", which is " +
           (dangles(at) ? "a dangling symbolic link" : "not a folder");
  }
  return "";
}

bool is_ignored(const std::string& name) { return name == "lost+found" || name.front() == '.'; }

}  // namespace

OutputDir classify_output_dir(const std::string& output_dir) {
  std::error_code failure;
  const std::filesystem::file_type type = std::filesystem::symlink_status(output_dir, failure).type();
  if (type == std::filesystem::file_type::not_found) {
    const std::string problem = problem_above(output_dir);
    return {problem.empty() ? OutputDirKind::kFree : OutputDirKind::kOther, problem};
  }
  if (!std::filesystem::is_directory(output_dir, failure)) {
    if (type == std::filesystem::file_type::none)
      return {OutputDirKind::kOther, "cannot be accessed: " + failure.message()};
    return {OutputDirKind::kOther, dangles(output_dir) ? "is a dangling symbolic link" : "is not a folder"};
  }
  const Marker marker = read_marker(output_dir + "/" + kRunMarkerFile);
  if (marker == Marker::kOurs) return {OutputDirKind::kOurs, ""};
  std::string other;
  for (const std::string& name : folder_entries(output_dir)) {
    if (checkpoint_step(name) && holds_state(PathBuffer(output_dir).append("/").append(name))) {
      if (marker == Marker::kAbsent) return {OutputDirKind::kOurs, ""};
      throw Error(ErrorKind::kData, output_dir + "/" + kRunMarkerFile, "is damaged, or was not written by Bascule",
                  "move it away to resume from the checkpoints beside it");
    }
    if (other.empty() && !is_ignored(name)) other = name;
  }
  if (other.empty()) return {};
  return {OutputDirKind::kOther, "contains other files (" + other + ")"};
}

}  // namespace bascule
