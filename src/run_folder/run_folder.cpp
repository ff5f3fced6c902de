// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "src/base/error.h"
#include "src/base/paths.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/distributed/agreement.h"
#include "src/files/durable_write.h"
#include "src/record/resume_check.h"
#include "src/record/run_inputs.h"
#include "src/run_folder/run_marker.h"

namespace bascule {
namespace {

void say(const std::string& line) { std::fprintf(stderr, "bascule: %s\n", line.c_str()); }

bool has_launcher_folder(const std::string& folder) {
  std::error_code failure;
  return std::filesystem::symlink_status(folder + "/" + kLauncherFolder, failure).type() ==
         std::filesystem::file_type::directory;
}

ResumeChoice resume_choice(const RunSettings& run) {
  return {run.resume == Resume::kOlder, run.resume_checkpoint.resolved};
}

std::vector<SettingChange> changes_since(const RunMarker& marker, const Settings& settings) {
  if (marker.settings.empty()) return {};  // an older program did not keep them
  try {
    const Settings before = marker_settings(marker, settings.words);
    return setting_changes(number_keys(before), other_keys(before), settings);
  } catch (const Error&) {
    return {};  // an older program knew a value that is refused now
  }
}

// Whether nothing was changed that changes results. Programs that let more settings count wrote other digests: what
// those are of decides.
bool has_same_numbers(const RunMarker& marker, const Settings& settings) {
  const std::string digest = settings_digest(settings);
  if (marker.settings_digest == digest || marker.settings.empty()) return marker.settings_digest == digest;
  try {
    Settings before = marker_settings(marker, settings.words);
    before.distributed.machines = settings.distributed.machines;
    return settings_digest(before) == digest;
  } catch (const Error&) {
    return false;  // an older program knew a value that is refused now
  }
}

// The key that asks for an evaluation or a prediction that the finished run was not asked for.
std::optional<SettingChange> added_evaluation(const RunMarker& marker, const Settings& settings) {
  for (const SettingChange& change : changes_since(marker, settings)) {
    if ((change.key == "training.do_eval" || change.key == "training.do_predict") && change.to == "true") return change;
  }
  return std::nullopt;
}

// The first setting that changes results and is not what the finished run in the folder was made with.
std::optional<SettingChange> change_of_results(const RunMarker& marker, const std::optional<ResumePoint>& point,
                                               const Settings& settings) {
  if (!point && has_same_numbers(marker, settings)) return std::nullopt;
  std::vector<SettingChange> changes = changes_since(marker, settings);
  if (point) {
    const std::vector<SettingChange> others = changes_since(*point, settings);
    changes.insert(changes.begin(), others.begin(), others.end());
  }
  for (const SettingChange& change : changes) {
    const bool leaves_results = change.effect == KeyEffect::kFree || change.effect == KeyEffect::kWhileTraining ||
                                change.effect == KeyEffect::kSameProduct;
    if (!leaves_results) return change;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_change(const Settings& settings, const SettingChange& change) {
  throw Error(ErrorKind::kSettings, where_written(settings, change.key),
              change.key + " is " + change.to + ", but the finished run in " + settings.run.output_dir.shown() +
                  " had " + change.from,
              "set it back, or choose another folder");
}

// By what the folder holds, whoever made it and however far it is.
void check_kind(const Settings& settings, const RunMarker& marker, bool has_checkpoints) {
  const TrainingSettings& training = settings.training;
  const std::string where = where_written(settings, "training.output_dir");
  if (marker.draws)
    throw Error(ErrorKind::kSettings, where, settings.run.output_dir.shown() + " holds a run that draws pictures",
                "choose another folder");
  if (settings.run.resume == Resume::kNever && (marker.finished || has_checkpoints)) {
    throw Error(ErrorKind::kSettings, where,
                settings.run.output_dir.shown() + " already holds a run, and training.resume = \"never\"",
                "choose another folder, or remove that one");
  }
  if (!training.do_train && (has_checkpoints || (marker.finished && marker.trained))) {
    throw Error(ErrorKind::kSettings, where,
                settings.run.output_dir.shown() + " holds a training run, but this one does not train",
                "choose another folder, and set model.model_name_or_path to that one");
  }
  if (training.do_train && marker.finished && !marker.trained) {
    throw Error(ErrorKind::kSettings, where,
                settings.run.output_dir.shown() + " holds the results of an evaluation, but this run trains",
                "choose another folder, or remove that one");
  }
}

// Nothing else may be where the average goes: a link would lead the writing elsewhere.
void check_averaged_folder(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  if (!training.do_train || training.ema_decay == 0.0) return;
  const std::string folder = settings.run.output_dir.resolved + "/" + kAveragedFolder;
  std::error_code failed;
  const std::filesystem::file_type type = std::filesystem::symlink_status(folder, failed).type();
  if (type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::directory) return;
  throw Error(ErrorKind::kSettings, where_written(settings, "training.output_dir"),
              settings.run.output_dir.shown() + "/" + kAveragedFolder +
                  " is not a folder, but the average of the weights will be written there",
              "move it away");
}

// Those that every such run writes; "": all are there.
std::string missing_results(const std::string& folder, const RunMarker& marker) {
  std::vector<std::string> missing;
  for (const char* const file :
       {"all_results.json", "report.html", "README.md", "train_results.json", "trainer_state.json"}) {
    const bool is_of_training = std::string_view(file).front() == 't';
    if ((is_of_training && !marker.trained) || std::filesystem::exists(folder + "/" + file)) continue;
    missing.emplace_back(file);
  }
  return joined(missing);
}

bool is_locked(int folder, int how) { return flock(folder, how | LOCK_NB) == 0; }

// is_in_use() of another process may hold the lock for an instant.
bool is_locked_soon(int folder, int how, int looks = 200) {
  constexpr timespec kPause{0, 1'000'000};
  for (int look = 1; look < looks; ++look) {
    if (is_locked(folder, how)) return true;
    nanosleep(&kPause, nullptr);
  }
  return is_locked(folder, how);
}

bool is_finished(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  const std::string& folder = settings.run.output_dir.resolved;
  const std::string shown = settings.run.output_dir.shown();
  const OutputDir found = classify_output_dir(folder);
  if (found.kind == OutputDirKind::kOther) {
    throw Error(ErrorKind::kSettings, where_written(settings, "training.output_dir"), shown + " " + found.problem,
                "choose an empty folder, or that of an earlier run");
  }
  const RunMarker marker = read_run_marker(folder);
  check_kind(settings, marker, !checkpoint_steps(folder).empty());
  check_averaged_folder(settings);
  const bool begins = begins_again(folder, resume_choice(settings.run));
  if (marker.finished && begins) {
    throw Error(ErrorKind::kSettings, where_written(settings, "training.resume"),
                shown + " holds a finished run, which did not begin from training.resume = \"" +
                    settings.run.resume_checkpoint.written + "\"",
                "choose another output_dir");
  }
  const std::optional<SettingChange> added = marker.finished ? added_evaluation(marker, settings) : std::nullopt;
  std::optional<ResumePoint> point;
  if (training.do_train && !(marker.is_whole() && !added && has_same_numbers(marker, settings))) {
    std::vector<std::string> notes;  // are said when the run goes on
    point = last_state_of(settings);
    if (!point) point = find_checkpoint(folder, resume_choice(settings.run), CheckpointCheck::kHeaders, &notes);
  }
  if (point) check_settings(*point, settings, marker.not_finite_at);
  if (!marker.finished) return false;
  const std::optional<SettingChange> change = change_of_results(marker, point, settings);
  if (!marker.is_whole() && training.do_train && !point) {
    throw Error(ErrorKind::kData, shown,
                "its results were being replaced when the program was killed, and no checkpoint is left",
                "choose another output_dir to train again");
  }
  if (!change && !added && marker.is_whole()) {
    if (marker.trained) check_finished_model(settings, marker.global_step);
    say("run: already finished after " + count_of(marker.global_step, "update") + "; see " + shown);
    if (const std::string missing = missing_results(folder, marker); !missing.empty())
      say("run: " + shown + " lacks " + missing + ": " + to_write_results_again(settings.run, training.do_train));
    return true;
  }
  if (change && !point) refuse_change(settings, *change);
  if (training.do_train && !point) refuse_change(settings, *added);
  return false;
}

}  // namespace

FolderLock::FolderLock(const RunSettings& run, const SettingsOrigin& origin, FolderUser user) {
  const std::string& folder = run.output_dir.resolved;
  if (user != FolderUser::kRank) make_folders(folder);
  file_ = Descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file_.is_open())
    throw Error(ErrorKind::kDisk, folder, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno));
  bool is_held = user == FolderUser::kRank ? is_locked_soon(file_.number(), LOCK_SH) : lock_alone();
  if (is_held && user != FolderUser::kRank) {
    const std::string left = folder + "/" + kLauncherFolder;
    if (has_launcher_folder(folder)) throw_if_failed(remove_tree(left.c_str()), left, "cannot be removed");
    remove_leftovers(folder);
  }
  if (is_held && user == FolderUser::kLauncher) is_held = is_locked_soon(file_.number(), LOCK_SH);
  if (is_held) return;
  const char* const key = origin.where.count("draw.output_dir") > 0 ? "draw.output_dir" : "training.output_dir";
  throw Error(ErrorKind::kSettings, where_written(origin, key), "another run is using this folder",
              "wait for it to end, or choose another folder");
}

// mpirun and ranks whose launcher was killed need a moment to end.
bool FolderLock::lock_alone() {
  constexpr int kLooks = 250;
  constexpr timespec kPause{0, 20'000'000};
  if (is_locked_soon(file_.number(), LOCK_EX)) return true;
  say("run: another run is using this folder; waiting a few seconds for it to end");
  for (int look = 0; look < kLooks; ++look) {
    nanosleep(&kPause, nullptr);
    if (is_locked(file_.number(), LOCK_EX)) return true;
  }
  return false;
}

bool is_in_use(const std::string& output_dir) {
  const Descriptor folder(open(output_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open() && errno != ENOENT && errno != ENOTDIR)
    throw Error(ErrorKind::kData, output_dir, std::string("cannot be opened: ") + std::strerror(errno),
                advice_for_open(errno));
  constexpr int kLooks = 10;  // each other process that looks holds the lock for an instant
  return folder.is_open() && !is_locked_soon(folder.number(), LOCK_EX, kLooks) && errno == EWOULDBLOCK;
}

std::string to_write_results_again(const RunSettings& run, bool trains) {
  const std::string& folder = run.output_dir.resolved;
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (trains && steps.empty()) return "no checkpoint is left to make them from";
  return "to write them again, remove " + run.output_dir.shown() + "/" + kRunMarkerFile + " and run the same command" +
         (trains ? ", which goes on from the newest checkpoint and trains nothing" : "");
}

bool is_finished_and_clear(const Settings& settings) {
  if (!is_finished(settings)) return false;
  clear_finished(settings.run, settings.origin);
  return true;
}

void clear_finished(const RunSettings& run, const SettingsOrigin& origin) {
  const std::string& folder = run.output_dir.resolved;
  if (has_launcher_folder(folder) || has_leftovers(folder)) const FolderLock clears(run, origin, FolderUser::kProcess);
}

void mark_folder(const Settings& settings) {
  if (!read_run_marker(settings.run.output_dir.resolved).exists) write_run_marker(settings, {}, {}, {});
}

std::optional<ResumePoint> checkpoint_to_go_on_from(const Settings& settings) {
  const TrainingSettings& training = settings.training;
  if (!training.do_train) return std::nullopt;
  if (std::optional<ResumePoint> end = last_state_of(settings)) return end;
  std::vector<std::string> notes;
  std::optional<ResumePoint> point = find_checkpoint(settings.run.output_dir.resolved, resume_choice(settings.run),
                                                     CheckpointCheck::kContents, &notes);
  for (const std::string& note : notes) say("resume: " + note);
  return point;
}

void prepare_folder(const RecordedRun& run, Isa isa) {
  for (const std::string& note : run.notes) say(note);
  for (const std::string& note : run.resume.notes) say(note);
  say("plan: " + std::string(readable_bytes(run.plan.peak_bytes()).c_str()) + " in total, " +
      parameters_text(run.session.parameters()) + ", " + count_of(run.pace.length.total_updates, "update"));
  const std::string& folder = run.settings.run.output_dir.resolved;
  const RunMarker before = read_run_marker(folder);
  if (before.finished && run.resume.point) {
    const std::int64_t from = run.resume.point->global_step + 1, end = before.global_step;
    const std::string again =
        from > end    ? ""
        : from == end ? ": update " + std::to_string(from) + " will be trained again"
                      : ": updates " + std::to_string(from) + " to " + std::to_string(end) + " will be trained again";
    say("resume: the run was finished after " + count_of(end, "update") + "; " +
        (run.resume.finished ? "evaluating it again" : "resuming it with the changes" + again));
  }
  for (const SettingChange& change : run.resume.changes)
    say("resume: " + change.key + " changed from " + change.from + " to " + change.to);
  if (before.finished) return;
  // Before anything else: it makes the folder known as ours.
  write_run_marker(run.settings, {false, 0, before.not_finite_at}, run.resume.history, provenance_of(run, isa));
  if (run.graphs.trains() && !run.resume.is_over && StopRequest(folder).is_made())
    say("run: a request of `bascule stop` is pending: training ends with the next update; to train on, remove " +
        shown_path(folder) + "/" + kStopRequestFile + " before the start");
}

void mark_begun(const RecordedRun& run, Isa isa) {
  if (run.resume.finished) return;  // the marker still says with which evaluations the run was finished
  const std::string& folder = run.settings.run.output_dir.resolved;
  if (const RunMarker before = read_run_marker(folder); before.finished) {
    remove_stop_request(folder);  // it came too late
    write_run_marker(run.settings, {false, 0, before.not_finite_at}, run.resume.history, provenance_of(run, isa));
  }
  remove_last_state(folder);
}

}  // namespace bascule
