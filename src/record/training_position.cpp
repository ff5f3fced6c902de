// SPDX-License-Identifier: Apache-2.0
#include "src/record/training_position.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "src/base/check.h"

namespace bascule {
namespace {

constexpr const char* kPhaseNames[kStepPhases] = {"interval_data_seconds", "interval_forward_seconds",
                                                  "interval_backward_seconds", "interval_reduction_seconds",
                                                  "interval_update_seconds"};

// By stream. Names once written stay: checkpoints have them.
constexpr const char* kRowNames[kMaxStreams] = {
    "run_rank_samples",     "run_samples_of_all_ranks", "run_text_rows",        "run_selected_rows",
    "run_rows_of_stream_4", "run_rows_of_stream_5",     "run_rows_of_stream_6", "run_rows_of_stream_7"};

// visit(name, number, otherwise) for each number of a checkpoint. otherwise: what a checkpoint of before has; NaN:
// every version wrote it.
template <typename Position, typename Visit>
void visit_numbers(Position& position, const Visit& visit) {
  constexpr double kAlways = std::numeric_limits<double>::quiet_NaN();
  visit("loss_sum", position.loss_sum, kAlways);
  visit("interval_loss", position.interval_loss, kAlways);
  visit("interval_steps", position.interval_steps, kAlways);
  visit("interval_samples", position.interval_samples, kAlways);
  visit("interval_wall_seconds", position.interval_wall_seconds, 0.0);
  visit("interval_loader_wait_seconds", position.interval_loader_wait_seconds, 0.0);
  for (int phase = 0; phase < kStepPhases; ++phase) visit(kPhaseNames[phase], position.interval_seconds[phase], 0.0);
  visit("run_processes", position.earlier.processes, 0.0);
  visit("run_updates", position.earlier.updates, 0.0);
  visit("run_seconds", position.earlier.seconds, 0.0);
  visit("run_counted_samples", position.earlier.counted_samples, 0.0);
  visit("run_counted_updates", position.earlier.counted_updates, 0.0);
  visit("run_counted_seconds", position.earlier.counted_seconds, 0.0);
  visit("run_samples", position.earlier.samples, 0.0);
  visit("run_micro_batches", position.earlier.micro_batches, 0.0);
  for (int stream = 0; stream < kMaxStreams; ++stream) visit(kRowNames[stream], position.earlier.rows[stream], 0.0);
  visit("best_judged", position.best.judged, 0.0);
  visit("best_figure", position.best.figure, 0.0);
  visit("best_step", position.best.step, -1.0);
  visit("best_checkpoint", position.best.checkpoint, -1.0);
  visit("best_not_better", position.best.not_better, 0.0);
  visit("best_digest", position.best_digest, 0.0);
  visit("ended_at", position.ended_at, 0.0);
  visit("without_loss", position.without_loss, 0.0);
  visit("interval_without_loss", position.interval_without_loss, 0.0);
}

}  // namespace

void write_numbers(const TrainingPosition& position, NamedNumber* out) noexcept {
  [[maybe_unused]] const NamedNumber* const end = out + kPositionNumbers;
  visit_numbers(position, [&](const char* name, auto number, double) { *out++ = {name, static_cast<double>(number)}; });
  BASCULE_DCHECK(out == end);
}

TrainingPosition read_position(const ResumePoint& point) {
  TrainingPosition position;
  position.global_step = point.global_step;
  visit_numbers(position, [&](const char* name, auto& number, double otherwise) {
    const double read = std::isnan(otherwise) ? point.number(name) : point.number_or(name, otherwise);
    number = static_cast<std::remove_reference_t<decltype(number)>>(read);
  });
  return position;
}

TrainingControl::TrainingControl(const ControlSettings& settings, const BestSoFar& best)
    : settings_(settings), best_(best) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (best_.step < 0) best_.figure = settings.greater_is_better ? -kInfinity : kInfinity;
}

bool TrainingControl::falls_on(Interval interval, std::int64_t steps, std::int64_t step) const noexcept {
  switch (interval) {
    case Interval::kNo: return false;
    case Interval::kSteps: return step % steps == 0;
    case Interval::kEpoch: {
      const std::vector<std::int64_t>& ends = settings_.epoch_ends;
      return ends.empty() ? step % settings_.updates_per_epoch == 0
                          : std::binary_search(ends.begin(), ends.end(), step);
    }
  }
  return false;
}

// The evaluation at the end belongs to the result; it belongs to training too where it may be the best one.
bool TrainingControl::evaluates_after(std::int64_t step) const noexcept {
  if (settings_.evaluate == Interval::kNo || step <= 0) return false;
  if (step >= settings_.total_updates) return settings_.keeps_best;
  return falls_on(settings_.evaluate, settings_.eval_steps, step);
}

bool TrainingControl::saves_after(std::int64_t step) const noexcept {
  return ends_after(step) || falls_on(settings_.save, settings_.save_steps, step);
}

bool TrainingControl::ends_after(std::int64_t step) const noexcept {
  return step >= settings_.total_updates || stops_early();
}

bool TrainingControl::may_end_after(std::int64_t step) const noexcept {
  const bool is_last_chance = settings_.patience > 0 && best_.not_better + 1 >= settings_.patience;
  return ends_after(step) || (is_last_chance && evaluates_after(step));
}

// False where either is not a number.
bool TrainingControl::is_better(double figure) const noexcept {
  return settings_.greater_is_better ? figure > best_.figure : figure < best_.figure;
}

bool TrainingControl::judge(std::int64_t step, double figure) noexcept {
  const bool better = is_better(figure);
  const bool enough = better && std::abs(figure - best_.figure) > settings_.threshold;
  best_.not_better = best_.judged == 0 || enough ? 0 : best_.not_better + 1;
  ++best_.judged;
  if (!better) return false;
  best_.figure = figure;
  best_.step = step;
  return true;
}

void TrainingControl::end_with(std::int64_t step) noexcept {
  settings_.total_updates = std::min(settings_.total_updates, step);
}

void TrainingControl::saves(std::int64_t step) noexcept {
  if (best_.step == step) best_.checkpoint = step;
}

}  // namespace bascule
