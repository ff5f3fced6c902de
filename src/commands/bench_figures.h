// SPDX-License-Identifier: Apache-2.0
// The figures of `bascule bench`, and their output: a table for people, a JSON document for programs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/bringup/machine_limits.h"
#include "src/commands/bench_operations.h"
#include "src/seal/measured_steps.h"

namespace bascule {

struct BenchColumn {
  std::string name;  // "32 samples"; of an engine and its workers "host, 2"
  std::int64_t workers = 0;
  std::int64_t batch = 0, image_size = 0, max_seq_length = 0;  // 0: no picture, no text
  std::string engine;
  std::vector<double> step_seconds;
  std::vector<double> losses;                    // of each update, before it; empty where none is trained
  double median = 0.0, least = 0.0, most = 0.0;  // samples/s of a step
  double tokens = 0.0;                           // generated a second, median; 0: none
  double ceiling = 0.0;                          // samples/s of a mean step if every operation ran at the limits
  double phases[kStepPhases] = {};               // share of the measured time
  double could_deliver = 0.0;                    // samples/s of the loader
  double ring_occupancy = 0.0;
  std::size_t planned_bytes = 0, resident_bytes = 0;
  std::int64_t trained_parameters = 0;
  // Empty where machine.step_seconds waits instead.
  std::vector<BenchOperation> operations;  // the most expensive first
  std::vector<BenchLayers> layers;         // in forward order
};

struct Bench : BenchSubject {
  bool trains = false;         // a step is an update, otherwise a batch of the evaluation
  bool generates = false;      // whose texts are generated
  bool names_engines = false;  // the columns' names
  std::vector<BenchColumn> columns;
};

BenchColumn figures_of(const MeasuredSteps& steps, const RecordedRun& run, const MachineLimits& limits);

std::string bench_text(const Bench& bench);
std::string bench_json(const Bench& bench);

}  // namespace bascule
