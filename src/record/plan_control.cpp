// SPDX-License-Identifier: Apache-2.0
#include "src/record/plan_data.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "src/base/error.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/record/resume_check.h"
#include "src/record/training_position.h"

namespace bascule {
namespace {

constexpr char kBestFigureNumber[] = "best_figure_number";

std::string why_not_best(const std::string& name, Metrics metrics, std::size_t classes) {
  for (const Metric& metric : metrics) {
    if (figure_name(name) != metric.key) continue;
    if (!metric.has_best) return "has no best value";
    return "needs " + std::to_string(metric.classes) + " classes, but the model has " + std::to_string(classes);
  }
  return "is not a metric of this head";
}

// Settings name the figure that says what is best; the judge knows which there are.
void plan_best_figure(const TrainingSettings& training, const SettingsOrigin& origin, Metrics metrics,
                      std::size_t classes, Pace* pace) {
  ControlSettings& control = pace->control;
  if (training.metric_for_best_model.empty()) return;
  pace->best_figure = EvaluationFigure::named(training.metric_for_best_model, metrics, classes);
  if (!pace->best_figure) {
    throw Error(ErrorKind::kSettings, where_written(origin, "training.metric_for_best_model"),
                "training.metric_for_best_model = \"" + training.metric_for_best_model + "\" " +
                    why_not_best(training.metric_for_best_model, metrics, classes),
                "choose one of: " + EvaluationFigure::names_of(metrics, classes));
  }
  if (pace->best_figure->is_of_generated() && !training.predict_with_generate) {
    throw Error(ErrorKind::kSettings, where_written(origin, "training.metric_for_best_model"),
                "training.metric_for_best_model = \"" + training.metric_for_best_model +
                    "\" is a figure of generated texts, and none are generated",
                "set training.predict_with_generate = true");
  }
  control.keeps_best = true;
  control.greater_is_better = training.greater_is_better;
  control.patience = training.early_stopping_patience;
  control.threshold = training.early_stopping_threshold;
}

int figure_number_then(const ResumePoint& point) { return static_cast<int>(point.number_or(kBestFigureNumber, 0.0)); }

// Nothing is left to train, so the best is the one that was found, by the figure of then.
void keep_search(Metrics metrics, const BestSoFar& best, Pace* pace, ResumeState* resume) {
  const int then = figure_number_then(*resume->point);
  if (then == pace->best_figure_number()) return;
  const bool asked = pace->best_figure.has_value();
  pace->best_figure.reset();
  if (then > 0) pace->best_figure = EvaluationFigure::numbered((then - 1) / 2, metrics);
  pace->control.keeps_best = then > 0;
  pace->control.greater_is_better = (then - 1) % 2 == 1;
  if (best.step >= 0) {
    resume->notes.push_back("resume: nothing left to train; update " + std::to_string(best.step) +
                            " remains the best, by " + pace->best_figure->name());
  } else if (asked) {
    resume->notes.push_back("resume: nothing left to train, and no best checkpoint was kept; keeping the last weights");
  }
}

bool writes_same_texts(const ResumeState& resume) {
  return std::none_of(resume.changes.begin(), resume.changes.end(),
                      [](const SettingChange& change) { return change.key.rfind("generation.", 0) == 0; });
}

void restart_search(ResumeState* resume, const std::string& reason) {
  resume->searches_anew = true;
  resume->notes.push_back("resume: " + reason + ": restarting the search for the best, from the weights of update " +
                          std::to_string(resume->point->global_step));
}

}  // namespace

void plan_control(const TrainingSettings& training, const std::string& output_dir, const SettingsOrigin& origin,
                  const RunData& data, Metrics metrics, std::size_t classes, Pace* pace, ResumeState* resume) {
  ControlSettings& control = pace->control;
  control.evaluate = data.find(Split::kValidation) != nullptr ? training.eval_strategy : Interval::kNo;
  control.save = training.save_strategy;
  control.eval_steps = training.eval_steps;
  control.save_steps = training.save_steps;
  control.updates_per_epoch = pace->length.updates_per_epoch;
  control.epoch_ends = pace->length.updates_before;
  control.total_updates = pace->length.total_updates;
  plan_best_figure(training, origin, metrics, classes, pace);
  if (!resume->point) return;
  const std::int64_t step = resume->point->global_step;
  const TrainingPosition position = read_position(*resume->point);
  const BestSoFar& best = position.best;
  // A run that was asked to end stays ended, until it is made longer; another may begin from its checkpoint.
  const std::int64_t ended = ended_at(*resume->point, output_dir);
  if (ended > 0 && !resume->is_longer) control.total_updates = ended;
  resume->is_over = TrainingControl(control, best).ends_after(step);
  const int then = figure_number_then(*resume->point);
  // An evaluation that found no figure ended the run with an error, and its checkpoint was kept.
  const bool found_none = best.step < 0 && then > 0 && then == pace->best_figure_number();
  if (resume->is_over && found_none) {
    restart_search(resume, std::string("no evaluation has found ") + pace->best_figure->name());
  } else if (resume->is_over) {
    keep_search(metrics, best, pace, resume);
  } else if (pace->best_figure && then != pace->best_figure_number()) {
    restart_search(resume, "the metric for the best has changed");
  } else if (pace->best_figure && !has_same_validation(*resume)) {
    restart_search(resume, "validation rows or batches have changed");
  } else if (pace->best_figure && pace->best_figure->is_of_generated() && !writes_same_texts(*resume)) {
    restart_search(resume, "the rules for writing texts have changed");
  }
}

void check_best_checkpoint(const RunSettings& run, const TrainingSettings& training, ResumeState* resume) {
  if (!resume->point || resume->finished || resume->searches_anew || !training.load_best_model_at_end) return;
  const std::int64_t best = read_position(*resume->point).best.checkpoint;
  if (best < 0 || has_checkpoint(run.output_dir.resolved, best)) return;
  restart_search(resume, "the best checkpoint so far, " + name_of_checkpoint(best) + ", is missing from " +
                             run.output_dir.shown());
}

bool saves_first(const std::string& output_dir, const ResumeState& resume) {
  if (!resume.searches_anew) return false;
  const std::string own = output_dir + "/" + name_of_checkpoint(resume.point->global_step);
  return resume.is_over || resume.point->folder != own;
}

bool has_same_validation(const ResumeState& resume) {
  const bool has_digest = find_value(resume.point->data, "data.validation_file") != nullptr;
  return std::none_of(resume.changes.begin(), resume.changes.end(), [&](const SettingChange& change) {
    const bool other_rows =
        change.key == "data.validation_file (content)" || (change.key == "data.validation_file" && !has_digest);
    constexpr const char* kKeys[] = {"training.per_device_eval_batch_size", "data.max_eval_samples",
                                     "data.val_max_target_length"};
    return other_rows ||
           std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) { return change.key == key; });
  });
}

}  // namespace bascule
