// SPDX-License-Identifier: Apache-2.0
// The loop's evaluations: making one, telling the control of it, and going back to the weights of the best.
#include <algorithm>
#include <cstdio>

#include "src/base/clock.h"
#include "src/replay/loop.h"

namespace bascule {

Status TrainingLoop::evaluate(Split split) noexcept {
  const RecordedSplit* recorded = run_.data.find(split);
  if (recorded == nullptr || p_.evaluation == nullptr) return ok_status();
  if (split == Split::kValidation && evaluated_ == weights_step_ && evaluated_ >= 0) return ok_status();
  const double began = monotonic_seconds();
  reading_ = split;
  const bool is_validation = split == Split::kValidation;
  if (is_validation) out_.mlperf.begin_evaluation(place_of(weights_step_));
  // Before the weights: what the judge keeps of each row is then theirs.
  if (p_.averaged_evaluation != nullptr) BASCULE_TRY(evaluate_average(*recorded));
  EvaluationRecord record;
  record.split = split;
  record.global_step = weights_step_;
  record.epoch = epoch_of(weights_step_);
  record.repeats = is_validation && repeats(weights_step_) ? 1 : 0;
  BASCULE_TRY(p_.evaluation->run(p_.loader.stream(recorded->stream), *recorded->manifest,
                                 split == Split::kTest && run_.graphs.predicts, p_.threads, p_.stop, &record,
                                 &out_.progress));
  if (is_validation)
    out_.mlperf.end_evaluation(place_of(weights_step_), mlperf_figure_.name(), mlperf_figure_.of(record));
  (is_validation ? last_validation_ : last_test_) = record;
  if (is_validation) evaluated_ = weights_step_;
  reading_ = Split::kTrain;
  // A repeated evaluation has its point on the curve already. The log keeps the order of steps, so weights of an
  // earlier update, with other rows, have theirs in the report alone.
  if (record.repeats == 0 && is_validation && !has_evaluated(weights_step_ + 1)) {
    out_.evaluations.append(record);
    if (p_.averaged_evaluation != nullptr) out_.averaged_evaluations.append(average_validation_);
  }
  report(record);
  const double seconds = monotonic_seconds() - began;
  times_.evaluation_seconds += seconds;
  interval_paused_ += seconds;
  return ok_status();
}

void TrainingLoop::report(const EvaluationRecord& record) noexcept {
  const Metrics metrics = run_.opened.judge_kind->metrics;
  if (record.repeats == 0) {
    const double time = unix_seconds();
    if (!out_.events.evaluation(record, metrics, time).ok())
      out_.progress.note("TensorBoard events could not be written");
    if (!out_.log.evaluation(record, metrics, time).ok()) out_.progress.note("log.jsonl could not be written");
    if (!out_.tracking.evaluation(record, metrics, time).ok())
      out_.progress.note("MLflow's metrics could not be written");
  }
  out_.progress.evaluation(record, metrics);
}

// The average of the last update, also where the weights are those of the best checkpoint.
Status TrainingLoop::evaluate_average(const RecordedSplit& recorded) noexcept {
  EvaluationRecord& last = recorded.split == Split::kValidation ? average_validation_ : average_test_;
  if (last.steps > 0 && last.global_step == at_.global_step) return ok_status();
  EvaluationRecord record;
  record.split = recorded.split;
  record.averaged = 1;
  record.global_step = at_.global_step;
  record.epoch = epoch_of(at_.global_step);
  record.repeats = recorded.split == Split::kValidation && repeats(at_.global_step) ? 1 : 0;
  BASCULE_TRY(p_.averaged_evaluation->run(p_.loader.stream(recorded.stream), *recorded.manifest, false, p_.threads,
                                          p_.stop, &record, &out_.progress));
  last = record;
  report(record);
  return ok_status();
}

// This update's weights, or those of a later one.
bool TrainingLoop::has_evaluated(std::int64_t step) const noexcept {
  const Span<const EvaluationRecord> made = out_.evaluations.records();
  return !made.empty() && made[made.size() - 1].global_step >= step;
}

bool TrainingLoop::repeats(std::int64_t step) const noexcept { return has_evaluated(step) && step > other_rows_until_; }

std::vector<EvaluationRecord> TrainingLoop::final_evaluations() const {
  std::vector<EvaluationRecord> all;
  for (const EvaluationRecord* last : {&last_validation_, &last_test_}) {
    if (last->steps > 0) all.push_back(*last);
  }
  return all;
}

std::vector<EvaluationRecord> TrainingLoop::averaged_evaluations() const {
  std::vector<EvaluationRecord> all;
  for (const EvaluationRecord* last : {&average_validation_, &average_test_}) {
    if (last->steps > 0) all.push_back(*last);
  }
  return all;
}

// While training: what comes of it decides which weights are the best and whether to go on.
Status TrainingLoop::evaluate_and_judge() noexcept {
  BASCULE_TRY(evaluate(Split::kValidation));
  if (!run_.pace.best_figure) return ok_status();
  double figure = p_.group.is_first() ? run_.pace.best_figure->of(last_validation_) : 0.0;
  BASCULE_TRY(agreement_.reach(ok_status(), {&figure, 1}));  // the figures are rank 0's
  const BestSoFar& best = control_.best();
  if (std::isnan(figure) && best.step < 0) return {StatusCode::kNoFigure, {at_.global_step, 0}};
  const bool is_best = control_.judge(at_.global_step, figure);
  const char* const name = run_.pace.best_figure->name();
  char text[160];
  if (is_best) {
    std::snprintf(text, sizeof text, "best %s so far", name);
  } else {
    std::snprintf(text, sizeof text, "best %s is still %.6g, at step %lld", name, best.figure,
                  static_cast<long long>(best.step));
  }
  out_.progress.note(text);
  if (!control_.stops_early()) return ok_status();
  std::snprintf(text, sizeof text, "stopping early: no new best in %lld evaluations",
                static_cast<long long>(best.not_better));
  out_.progress.note(text);
  return ok_status();
}

// Makes up for an evaluation or save that a signal prevented after an update: the curve has no gap, and the best is the
// one of the unbroken run.
Status TrainingLoop::catch_up() noexcept {
  if (run_.resume.searches_anew) return restart_search();
  const std::int64_t step = at_.global_step;
  if (!control_.evaluates_after(step) || has_evaluated(step)) return ok_status();
  BASCULE_TRY(evaluate_and_judge());
  return run_.pace.best_figure && control_.saves_after(step) ? save() : ok_status();
}

// The weights that the run goes on from are the first candidate.
Status TrainingLoop::restart_search() noexcept {
  BASCULE_TRY(evaluate_and_judge());
  other_rows_until_ = std::min(other_rows_until_, at_.global_step - 1);
  keep_if_best();
  if (!saves_first_) return ok_status();
  out_.progress.begin("train", at_.global_step, run_.pace.length.total_updates, monotonic_seconds());
  return save();
}

// The digest of the trained weights, as a number that a checkpoint keeps.
double TrainingLoop::digest_of_weights() noexcept {
  digest_.reset();
  const Session& session = p_.session;
  digest_.add(session.parameter_memory().trained,
              static_cast<std::size_t>(session.layout().trained_elements) * sizeof(float));
  return static_cast<double>(digest_.value() >> 11);
}

// By the first rank of every node, into what its ranks share.
Status TrainingLoop::load_best() noexcept {
  const std::int64_t step = control_.best().checkpoint;
  if (run_.resume.finished || !run_.settings.training.load_best_model_at_end) return ok_status();
  if (step < 0 || step == at_.global_step) return ok_status();
  p_.group.set_phase(RankPhase::kFinishing);
  PathBuffer folder(run_.settings.run.output_dir.resolved);
  folder.append("/checkpoint-").append(step);
  const auto beat = [](void* group, std::int64_t) noexcept { static_cast<Group*>(group)->heart().beat(); };
  const bool reads = saving_.best_weights != nullptr;
  double written = p_.group.is_first() ? at_.best_digest : 0.0;
  BASCULE_TRY(agreement_.reach(reads ? saving_.best_weights->read(folder.c_str(), {beat, &p_.group}) : ok_status(),
                               {&written, 1}));
  const bool same = !reads || digest_of_weights() == written;
  BASCULE_TRY(agreement_.reach(same ? ok_status() : Status{StatusCode::kReadFailed, {WeightsReader::kUnreadable, 0}}));
  weights_step_ = step;
  char text[96];
  std::snprintf(text, sizeof text, "loaded the best weights, from checkpoint-%lld", static_cast<long long>(step));
  out_.progress.note(text);
  return ok_status();
}

}  // namespace bascule
