// SPDX-License-Identifier: Apache-2.0
// Training steps for measuring: a recorded run is sealed with fresh weights and without any file of its own, and runs a
// number of updates as a training run would. Allocates before and after, not between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/isa.h"
#include "src/loader/loader.h"
#include "src/records/step_record.h"
#include "src/run/recorded_run.h"
#include "src/runtime/tape.h"

namespace bascule {

struct MeasuredSteps {
  std::vector<double> seconds;        // of each update
  std::vector<std::int64_t> samples;  // of each update
  double phases[kStepPhases] = {};    // seconds, summed
  BatchCounts rows;                   // mean of a micro-batch
  std::int64_t micro_batches = 0;     // of nodes: with those before the measurement
  std::vector<NodeTime> nodes;        // summed over micro_batches
  StreamStatistics stream;
  double could_deliver = 0.0;  // samples a second, by the loader, during the measurement
  std::size_t resident_bytes = 0;
};

// `run` trains at least warmup + count updates. Throws Error for what a step ended with.
MeasuredSteps measure_steps(RecordedRun& run, Isa isa, std::int64_t warmup, std::int64_t count);

}  // namespace bascule
