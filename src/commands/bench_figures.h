// SPDX-License-Identifier: Apache-2.0
// The figures of `bascule bench`, and their output: a table for people, a JSON document for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/runtime/machine_limits.h"
#include "src/train/measured_steps.h"

namespace bascule {

// One operation kind of a micro-batch, all its places together.
struct BenchOperation {
  std::string name;  // "linear_backward"
  double seconds = 0.0;
  double flops = 0.0, bytes = 0.0;
  double limit_seconds = 0.0;  // what its arithmetic, or its memory traffic where that is longer, takes at the limits
};

struct BenchColumn {
  std::int64_t workers = 0;
  std::string engine;
  std::vector<double> step_seconds;
  double median = 0.0, least = 0.0, most = 0.0;  // samples/s of a step
  double ceiling = 0.0;                          // samples/s if every operation ran at the limits
  double phases[kStepPhases] = {};               // share of the measured time
  double could_deliver = 0.0;                    // samples/s of the loader
  double ring_occupancy = 0.0;
  std::size_t planned_bytes = 0, resident_bytes = 0;
  std::int64_t trained_parameters = 0;
  std::vector<BenchOperation> operations;  // the most expensive first; empty where machine.step_seconds waits instead
};

struct Bench {
  std::string settings_file, isa;
  int threads = 1;
  MachineLimits limits;
  std::vector<BenchColumn> columns;
};

BenchColumn figures_of(const MeasuredSteps& steps, const RecordedRun& run, const MachineLimits& limits);

std::string bench_text(const Bench& bench);
// The last column's figures at the top level, all of them under "columns".
std::string bench_json(const Bench& bench);

}  // namespace bascule
