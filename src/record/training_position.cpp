// SPDX-License-Identifier: Apache-2.0
#include "src/record/training_position.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bascule {
namespace {

constexpr const char* kPhaseNames[kStepPhases] = {"interval_data_seconds", "interval_forward_seconds",
                                                  "interval_backward_seconds", "interval_reduction_seconds",
                                                  "interval_update_seconds"};

struct TotalName {
  const char* name;
  double RunTotals::*value;
};
constexpr TotalName kTotals[] = {{"run_processes", &RunTotals::processes},
                                 {"run_updates", &RunTotals::updates},
                                 {"run_seconds", &RunTotals::seconds},
                                 {"run_counted_samples", &RunTotals::counted_samples},
                                 {"run_counted_updates", &RunTotals::counted_updates},
                                 {"run_counted_seconds", &RunTotals::counted_seconds},
                                 {"run_samples", &RunTotals::samples},
                                 {"run_micro_batches", &RunTotals::micro_batches}};
// By stream. Names once written stay: checkpoints have them.
constexpr const char* kRowNames[kMaxStreams] = {
    "run_rank_samples",     "run_samples_of_all_ranks", "run_text_rows",        "run_selected_rows",
    "run_rows_of_stream_4", "run_rows_of_stream_5",     "run_rows_of_stream_6", "run_rows_of_stream_7"};
static_assert(kPositionNumbers == 6 + kStepPhases + sizeof kTotals / sizeof kTotals[0] + kMaxStreams + 9);

}  // namespace

void write_numbers(const TrainingPosition& position, NamedNumber* out) noexcept {
  *out++ = {"loss_sum", position.loss_sum};
  *out++ = {"interval_loss", position.interval_loss};
  *out++ = {"interval_steps", static_cast<double>(position.interval_steps)};
  *out++ = {"interval_samples", static_cast<double>(position.interval_samples)};
  *out++ = {"interval_wall_seconds", position.interval_wall_seconds};
  *out++ = {"interval_loader_wait_seconds", position.interval_loader_wait_seconds};
  for (int phase = 0; phase < kStepPhases; ++phase) *out++ = {kPhaseNames[phase], position.interval_seconds[phase]};
  for (const TotalName& total : kTotals) *out++ = {total.name, position.earlier.*total.value};
  for (int stream = 0; stream < kMaxStreams; ++stream) *out++ = {kRowNames[stream], position.earlier.rows[stream]};
  *out++ = {"best_judged", static_cast<double>(position.best.judged)};
  *out++ = {"best_figure", position.best.figure};
  *out++ = {"best_step", static_cast<double>(position.best.step)};
  *out++ = {"best_checkpoint", static_cast<double>(position.best.checkpoint)};
  *out++ = {"best_not_better", static_cast<double>(position.best.not_better)};
  *out++ = {"best_digest", position.best_digest};
  *out++ = {"ended_at", static_cast<double>(position.ended_at)};
  *out++ = {"without_loss", static_cast<double>(position.without_loss)};
  *out++ = {"interval_without_loss", static_cast<double>(position.interval_without_loss)};
}

TrainingPosition read_position(const ResumePoint& point) {
  TrainingPosition position;
  position.global_step = point.global_step;
  position.loss_sum = point.number("loss_sum");
  position.interval_loss = point.number("interval_loss");
  position.interval_steps = static_cast<std::int64_t>(point.number("interval_steps"));
  position.interval_samples = static_cast<std::int64_t>(point.number("interval_samples"));
  position.interval_wall_seconds = point.number_or("interval_wall_seconds", 0.0);
  position.interval_loader_wait_seconds = point.number_or("interval_loader_wait_seconds", 0.0);
  for (int phase = 0; phase < kStepPhases; ++phase)
    position.interval_seconds[phase] = point.number_or(kPhaseNames[phase], 0.0);
  for (const TotalName& total : kTotals) position.earlier.*total.value = point.number_or(total.name, 0.0);
  for (int stream = 0; stream < kMaxStreams; ++stream)
    position.earlier.rows[stream] = point.number_or(kRowNames[stream], 0.0);
  const auto integer = [&](const char* name, double otherwise) {
    return static_cast<std::int64_t>(point.number_or(name, otherwise));
  };
  position.best.judged = integer("best_judged", 0.0);
  position.best.figure = point.number_or("best_figure", 0.0);
  position.best.step = integer("best_step", -1.0);
  position.best.checkpoint = integer("best_checkpoint", -1.0);
  position.best.not_better = integer("best_not_better", 0.0);
  position.best_digest = point.number_or("best_digest", 0.0);
  position.ended_at = integer("ended_at", 0.0);
  position.without_loss = integer("without_loss", 0.0);
  position.interval_without_loss = integer("interval_without_loss", 0.0);
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
