// SPDX-License-Identifier: Apache-2.0
// Where a training run is, and the numbers of it that a checkpoint keeps beside weights and moments.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "src/base/batch.h"
#include "src/checkpoint/checkpoint_writer.h"
#include "src/logs/step_record.h"
#include "src/record/training_control.h"

namespace bascule {

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

// Of so many updates that have one; NaN: none has.
inline double mean_loss(double sum, std::int64_t updates) noexcept {
  return updates > 0 ? sum / static_cast<double>(updates) : std::nan("");
}

inline constexpr std::size_t kPositionNumbers = 4 + 2 + kStepPhases + 8 + kMaxStreams + 9;

// out: room for kPositionNumbers. Allocates nothing. global_step is the checkpoint's own.
void write_numbers(const TrainingPosition& position, NamedNumber* out) noexcept;
// Throws Error{kData} where the checkpoint lacks a number that every version wrote; others are 0 then.
TrainingPosition read_position(const ResumePoint& point);

}  // namespace bascule
