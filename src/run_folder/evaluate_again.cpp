// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <filesystem>

#include "src/base/error.h"
#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/checkpoint/hf_folder.h"
#include "src/record/resume_check.h"
#include "src/record/training_position.h"
#include "src/run_folder/run_marker.h"

namespace bascule {
namespace {

constexpr char kPatience[] = "training.early_stopping_patience";
constexpr char kLoadBest[] = "training.load_best_model_at_end";

constexpr std::int64_t kNoWeights = -1;

// As far as settings tell; what epochs amount to is known later.
bool asks_for_training(const ResumePoint& end, const Settings& now) {
  for (const SettingChange& change : changes_since(end, now)) {
    if (change.key == "training.max_steps" && now.training.max_steps > end.global_step) return true;
    if (change.key == "training.num_train_epochs" && now.training.max_steps == 0) return true;
    if (change.key != kPatience) continue;
    const std::int64_t not_better = read_position(end).best.not_better, then = std::stoll(change.from);
    const bool stopped_early = then > 0 && not_better >= then;
    const std::int64_t patience = now.training.early_stopping_patience;
    if (stopped_early && (patience == 0 || patience > not_better)) return true;
  }
  return false;
}

// The update whose weights a run ends with.
std::int64_t step_of_weights(bool loads_best, const ResumePoint& end) {
  const std::int64_t best = read_position(end).best.checkpoint;
  return loads_best && best >= 0 ? best : end.global_step;
}

// Whether the finished run holds its best weights. By the marker: `end` may be of an evaluation that was killed before
// it wrote any. A marker that cannot be read as settings is of another version of the program, and of no such
// evaluation.
bool held_best(const RunMarker& marker, const ResumePoint& end, const Settings& settings) {
  try {
    if (!marker.settings.empty()) return marker_settings(marker, settings.words).training.load_best_model_at_end;
  } catch (const Error&) {
  }
  return value_then(end, kLoadBest) == "true";
}

[[noreturn]] void refuse(const Settings& settings, const std::string& key, const std::string& problem) {
  throw Error(ErrorKind::kSettings, where_written(settings, key),
              settings.run.output_dir.shown() + " holds a finished run, and " + problem,
              "to evaluate it, set model.model_name_or_path to it, training.do_train = false and another output_dir");
}

// The checkpoint that was kept with the weights that the run ended with; "" for none.
std::string checkpoint_of_weights(const Settings& settings, std::int64_t global_step) {
  const std::string& folder = settings.run.output_dir.resolved;
  try {
    const bool has_last_state = std::filesystem::exists(folder + "/" + kLastStateFolder);
    const std::string state = has_last_state ? kLastStateFolder : name_of_checkpoint(global_step);
    const ResumePoint end = read_checkpoint(folder + "/" + state, global_step);
    const std::int64_t step = step_of_weights(held_best(read_run_marker(folder), end, settings), end);
    return has_checkpoint(folder, step) ? name_of_checkpoint(step) : "";
  } catch (const Error&) {
    return "";  // what cannot be read tells nothing
  }
}

}  // namespace

bool is_last_state(const ResumePoint& point) {
  return std::filesystem::path(point.folder).filename() == kLastStateFolder;
}

ResumePoint read_last_state(const RunSettings& run, std::int64_t step) {
  try {
    ResumePoint point = read_checkpoint(run.output_dir.resolved + "/" + kLastStateFolder, step);
    check_contents(point);
    return point;
  } catch (const Error& error) {
    throw Error(error.kind(), error.where(), error.problem(),
                std::string("restore it, or move ") + kLastStateFolder + " away to use the newest checkpoint instead");
  }
}

std::optional<ResumePoint> last_state_of(const Settings& settings) {
  const std::string& folder = settings.run.output_dir.resolved;
  const RunMarker marker = read_run_marker(folder);
  if (!marker.finished || !marker.trained || !settings.training.do_train) return std::nullopt;
  if (!std::filesystem::exists(folder + "/" + kLastStateFolder)) return std::nullopt;
  ResumePoint end = read_last_state(settings.run, marker.global_step);
  if (asks_for_training(end, settings)) return std::nullopt;
  return end;
}

void plan_evaluation_again(const Settings& settings, ResumeState* resume) {
  if (!resume->point) return;
  const std::string& folder = settings.run.output_dir.resolved;
  const RunMarker marker = read_run_marker(folder);
  if (!marker.finished || !marker.trained) return;
  const ResumePoint& end = *resume->point;
  if (!resume->is_over) {
    const bool is_asked_for = resume->is_longer || value_then(end, kPatience) != value_now(settings, kPatience);
    if (!is_last_state(end) && (is_asked_for || end.global_step >= marker.global_step)) return;
    refuse(settings, "training.output_dir",
           "its final state, after update " + std::to_string(marker.global_step) + ", was not kept: resuming from " +
               name_of_checkpoint(end.global_step) + " would repeat training");
  }
  const std::int64_t held =
      marker.replaced == Replaced::kWeights ? kNoWeights : step_of_weights(held_best(marker, end, settings), end);
  const std::int64_t wanted = step_of_weights(settings.training.load_best_model_at_end, end);
  if (held != wanted && !has_checkpoint(folder, wanted)) {
    refuse(settings, kLoadBest,
           "the weights of update " + std::to_string(wanted) + ", which these settings select, were not kept");
  }
  resume->finished = FinishedWeights{held == wanted ? folder : folder + "/" + name_of_checkpoint(wanted), wanted};
}

void check_finished_model(const Settings& settings, std::int64_t global_step) {
  const PathSetting& output = settings.run.output_dir;
  const auto check = [&](const std::string& within, const std::string& remedy) {
    try {
      (void)open_hf_weights(output.resolved + within);
    } catch (const Error& error) {
      throw Error(ErrorKind::kData, error.where(), "the weights of the finished run are gone: " + error.problem(),
                  remedy);
    }
  };
  const std::string held = checkpoint_of_weights(settings, global_step), shown = output.shown();
  const std::string restore = "restore them, or choose another output_dir to train again";
  check("", held.empty() ? restore : "copy them back from " + shown + "/" + held + ", which has the same weights");
  if (settings.training.ema_decay > 0.0) check(std::string("/") + kAveragedFolder, restore);
}

void remove_last_state(const std::string& output_dir) {
  const std::string path = output_dir + "/" + kLastStateFolder;
  throw_if_failed(remove_tree(path.c_str()), path, "cannot be removed");
}

}  // namespace bascule
