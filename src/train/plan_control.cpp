// SPDX-License-Identifier: Apache-2.0
#include "src/train/plan_control.h"

#include <algorithm>
#include <string>

#include "src/base/error.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/train/training_position.h"

namespace bascule {
namespace {

constexpr char kBestFigureNumber[] = "best_figure_number";

// Settings name the figure that says what is best; the judge knows which there are.
void plan_best_figure(RecordedRun* run) {
  const TrainingSettings& training = run->settings.training;
  ControlSettings& control = run->control;
  if (training.metric_for_best_model.empty()) return;
  run->best_figure = EvaluationFigure::named(training.metric_for_best_model, run->judge_kind->metrics);
  if (!run->best_figure) {
    throw Error(
        ErrorKind::kSettings, where_written(run->settings, "training.metric_for_best_model"),
        "training.metric_for_best_model = \"" + training.metric_for_best_model + "\" is not a metric of this head",
        "choose one of: " + EvaluationFigure::names_of(run->judge_kind->metrics));
  }
  control.keeps_best = true;
  control.greater_is_better = training.greater_is_better;
  control.patience = training.early_stopping_patience;
  control.threshold = training.early_stopping_threshold;
}

int figure_number_then(const ResumePoint& point) { return static_cast<int>(point.number_or(kBestFigureNumber, 0.0)); }

// Nothing is left to train, so the best is the one that was found, by the figure of then.
void keep_search(RecordedRun* run, const BestSoFar& best) {
  const int then = figure_number_then(*run->resume);
  if (then == run->best_figure_number()) return;
  const bool asked = run->best_figure.has_value();
  run->best_figure.reset();
  if (then > 0) run->best_figure = EvaluationFigure::numbered((then - 1) / 2, run->judge_kind->metrics);
  run->control.keeps_best = then > 0;
  run->control.greater_is_better = then > 0 && (then - 1) % 2 == 1;
  if (best.step >= 0) {
    run->notes.push_back("resume: no updates left to train; the best stays update " + std::to_string(best.step) +
                         ", by " + run->best_figure->name());
  } else if (asked) {
    run->notes.push_back("resume: no updates left to train, and the run kept no best: the last weights stay");
  }
}

void search_anew(RecordedRun* run, const std::string& reason) {
  run->searches_anew = true;
  run->notes.push_back("resume: " + reason + ": restarting the search for the best, from the weights of update " +
                       std::to_string(run->resume->global_step));
}

}  // namespace

void plan_control(RecordedRun* run) {
  const TrainingSettings& training = run->settings.training;
  ControlSettings& control = run->control;
  control.evaluate = run->find(Split::kValidation) != nullptr ? training.eval_strategy : Interval::kNo;
  control.save = training.save_strategy;
  control.eval_steps = training.eval_steps;
  control.save_steps = training.save_steps;
  control.updates_per_epoch = run->length.updates_per_epoch;
  control.total_updates = run->length.total_updates;
  plan_best_figure(run);
  if (!run->resume) return;
  const std::int64_t step = run->resume->global_step;
  const BestSoFar best = read_position(*run->resume).best;
  run->is_over = TrainingControl(control, best).ends_after(step);
  if (run->is_over) {
    keep_search(run, best);
  } else if (run->best_figure && figure_number_then(*run->resume) != run->best_figure_number()) {
    search_anew(run, "the metric for the best has changed");
  } else if (run->best_figure && !has_same_validation(*run)) {
    search_anew(run, "validation rows or batches have changed");
  }
}

void check_best_checkpoint(RecordedRun* run) {
  const TrainingSettings& training = run->settings.training;
  if (!run->resume || run->finished || run->searches_anew || !training.load_best_model_at_end) return;
  const std::int64_t best = read_position(*run->resume).best.checkpoint;
  if (best < 0 || has_checkpoint(training.output_dir.resolved, best)) return;
  search_anew(run, "the best checkpoint so far, " + name_of_checkpoint(best) + ", is missing from " +
                       training.output_dir.shown());
}

bool saves_first(const RecordedRun& run) {
  if (!run.searches_anew) return false;
  const std::string own = run.settings.training.output_dir.resolved + "/" + name_of_checkpoint(run.resume->global_step);
  return run.is_over || run.resume->folder != own;
}

bool has_same_validation(const RecordedRun& run) {
  const std::vector<SettingValue>& kept = run.resume->data;
  const bool has_digest =
      std::any_of(kept.begin(), kept.end(), [](const SettingValue& one) { return one.key == "data.validation_file"; });
  return std::none_of(run.changes.begin(), run.changes.end(), [&](const SettingChange& change) {
    const bool other_rows =
        change.key == "data.validation_file (content)" || (change.key == "data.validation_file" && !has_digest);
    return other_rows || change.key == "training.per_device_eval_batch_size";
  });
}

}  // namespace bascule
