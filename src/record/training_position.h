// SPDX-License-Identifier: Apache-2.0
// Where a training run is, and when it evaluates, saves and stops.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/batch.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/logs/step_record.h"
#include "src/settings/settings.h"

namespace bascule {

// When a run evaluates, saves and stops, and which of its evaluations is the best: as Hugging Face's Trainer and its
// EarlyStoppingCallback decide (transformers/trainer.py, trainer_callback.py), except that a run always saves where its
// training ends. Pure: it is told of updates and figures and knows neither clock nor file. Allocates nothing.
//
//   after an update:   if (control.evaluates_after(step)) control.judge(step, figure);
//                      if (control.saves_after(step)) control.saves(step), and save control.best() with it;
//                      if (control.ends_after(step)) ...

struct ControlSettings {
  Interval evaluate = Interval::kNo, save = Interval::kNo;
  std::int64_t eval_steps = 0, save_steps = 0;
  std::int64_t updates_per_epoch = 1, total_updates = 0;
  std::vector<std::int64_t> epoch_ends = {};  // updates, ascending, where epochs differ; empty: they do not
  bool keeps_best = false;                    // some figure of the evaluations says which is the best
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

// Where a training run is, and the numbers of it that a checkpoint keeps beside weights and moments.

// Totals up to a moment of the run, over its processes. Work of a process after its last checkpoint is not counted: the
// next one repeated it.
struct RunTotals {
  double processes = 0.0;
  double updates = 0.0;
  double seconds = 0.0;  // of the loop, evaluation and saving included
  // After each process's warm-up updates, without evaluation and saving.
  double counted_samples = 0.0, counted_updates = 0.0, counted_seconds = 0.0;
  double samples = 0.0;  // of all ranks
  // Counts of rank 0.
  double micro_batches = 0.0;
  double rows[kMaxStreams] = {};  // by stream
};

struct TrainingPosition {
  std::int64_t global_step = 0;   // updates done
  double loss_sum = 0.0;          // over all updates of the run
  std::int64_t without_loss = 0;  // updates without a row that the loss is a mean over, as where no token was masked
  // State of the logging interval under way.
  double interval_loss = 0.0;
  std::int64_t interval_steps = 0, interval_samples = 0, interval_without_loss = 0;
  // Its part before this process, as in StepRecord.
  double interval_wall_seconds = 0.0, interval_loader_wait_seconds = 0.0;
  double interval_seconds[kStepPhases] = {};
  RunTotals earlier;  // before this process
  BestSoFar best;
  double best_digest = 0.0;   // of the weights of its checkpoint
  std::int64_t ended_at = 0;  // the update with which `bascule stop` ended training; 0: it did not
};

// The mean over the updates that have a loss; NaN: none has.
inline double mean_loss(double sum, std::int64_t updates) noexcept {
  return updates > 0 ? sum / static_cast<double>(updates) : std::nan("");
}

inline constexpr std::size_t kPositionNumbers = 4 + 2 + kStepPhases + 8 + kMaxStreams + 9;

// out: room for kPositionNumbers. Allocates nothing. global_step is the checkpoint's own.
void write_numbers(const TrainingPosition& position, NamedNumber* out) noexcept;
// Throws Error{kData} where the checkpoint lacks a number that every version wrote; others are 0 then.
TrainingPosition read_position(const ResumePoint& point);

}  // namespace bascule
