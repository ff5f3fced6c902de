// SPDX-License-Identifier: Apache-2.0
// When a run evaluates, saves and stops, and which of its evaluations is the best: as Hugging Face's Trainer and its
// EarlyStoppingCallback decide (transformers/trainer.py, trainer_callback.py), except that a run always saves where its
// training ends. Pure: it is told of updates and figures and knows neither clock nor file. Allocates nothing.
//
//   after an update:   if (control.evaluates_after(step)) control.judge(step, figure);
//                      if (control.saves_after(step)) control.saves(step), and save control.best() with it;
//                      if (control.ends_after(step)) ...
#pragma once

#include <cstdint>

#include "src/settings/settings.h"

namespace bascule {

struct ControlSettings {
  Interval evaluate = Interval::kNo, save = Interval::kNo;
  std::int64_t eval_steps = 0, save_steps = 0;
  std::int64_t updates_per_epoch = 1, total_updates = 0;
  bool keeps_best = false;  // some figure of the evaluations says which is the best
  bool greater_is_better = false;
  std::int64_t patience = 0;  // 0: training never stops early
  double threshold = 0.0;
};

// Part of a run's position: saved with every checkpoint.
struct BestSoFar {
  std::int64_t judged = 0;       // evaluations
  double figure = 0.0;           // of the best; worse than any before the first
  std::int64_t step = -1;        // of the best; -1: none yet
  std::int64_t checkpoint = -1;  // the last best one that was saved at its own step; -1: none yet
  std::int64_t not_better = 0;   // evaluations since the best, by the threshold
};

class TrainingControl {
 public:
  TrainingControl() = default;
  TrainingControl(const ControlSettings& settings, const BestSoFar& best);

  bool evaluates_after(std::int64_t step) const noexcept;
  bool saves_after(std::int64_t step) const noexcept;
  bool ends_after(std::int64_t step) const noexcept;
  // Before the evaluation there is judged.
  bool may_end_after(std::int64_t step) const noexcept;
  // Evaluations did not get better for too long.
  bool stops_early() const noexcept { return settings_.patience > 0 && best_.not_better >= settings_.patience; }

  // An evaluation. True: it is the best so far.
  bool judge(std::int64_t step, double figure) noexcept;
  // Training ends with this update, whatever was planned.
  void end_with(std::int64_t step) noexcept;
  // A checkpoint that saves_after() asked for is about to be written.
  void saves(std::int64_t step) noexcept;

  const BestSoFar& best() const noexcept { return best_; }
  const ControlSettings& settings() const noexcept { return settings_; }

 private:
  bool falls_on(Interval interval, std::int64_t steps, std::int64_t step) const noexcept;
  bool is_better(double figure) const noexcept;

  ControlSettings settings_;
  BestSoFar best_;
};

}  // namespace bascule
