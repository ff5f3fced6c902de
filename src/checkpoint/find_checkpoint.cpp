// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/find_checkpoint.h"

#include <algorithm>
#include <cerrno>

#include <unistd.h>

#include "src/base/count_of.h"
#include "src/base/error.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/state_file.h"
#include "src/files/durable_write.h"

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

}  // namespace bascule
