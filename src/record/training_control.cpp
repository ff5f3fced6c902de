// SPDX-License-Identifier: Apache-2.0
#include "src/record/training_control.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace bascule {

TrainingControl::TrainingControl(const ControlSettings& settings, const BestSoFar& best)
    : settings_(settings), best_(best) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (best_.step < 0) best_.figure = settings.greater_is_better ? -kInfinity : kInfinity;
}

bool TrainingControl::falls_on(Interval interval, std::int64_t steps, std::int64_t step) const noexcept {
  switch (interval) {
    case Interval::kNo: return false;
    case Interval::kSteps: return step % steps == 0;
    case Interval::kEpoch: return step % settings_.updates_per_epoch == 0;
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
