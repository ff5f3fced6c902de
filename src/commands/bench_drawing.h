// SPDX-License-Identifier: Apache-2.0
// `bascule bench FILE` for a run that draws: its three stages, each beside the limits of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/bringup/machine_limits.h"
#include "src/commands/bench_figures.h"
#include "src/json/json.h"
#include "src/record/recorded_draw_run.h"
#include "src/seal/measured_steps.h"

namespace bascule {

// One graph's replays.
struct BenchStage {
  std::vector<double> seconds;  // of each measured replay
  std::vector<OperationTime> operations;
  std::vector<BenchLayers> layers;
  std::vector<LostTime> lost;  // by threads that are simulated; empty: they are not

  double median() const { return median_of(seconds); }
  double limit_seconds() const { return limit_seconds_of(operations); }  // if every operation ran at the limits
  double flops() const;
};

struct BenchDrawingColumn {
  std::string name;  // "8 pictures", "768 pixels", "64 simulated"
  int threads = 1;
  std::int64_t batch = 0, height = 0, width = 0;  // pictures at a time, pixels
  std::int64_t calls = 0;                         // of the UNet for each picture
  BenchStage encode, call, decode;                // of a prompt; of a batch, once; of a picture
  std::size_t planned_bytes = 0, resident_bytes = 0;

  // For a whole batch: all calls, and the decoding of each picture. Prompts are encoded once a run.
  double pictures_per_second() const;
  double ceiling() const;  // pictures/s at the limits
};

struct BenchDrawing : BenchSubject {
  std::vector<BenchDrawingColumn> columns;
};

// memory: of the run's threads, where they were simulated: the stages become as slow as it is.
BenchDrawingColumn drawing_figures_of(const MeasuredDrawing& measured, const RecordedDrawRun& run,
                                      const MachineLimits& limits, const MemoryRate* memory = nullptr);
std::string bench_drawing_text(const BenchDrawing& bench);
std::string bench_drawing_json(const BenchDrawing& bench);
// As of bench_figures.h.
std::string simulated_text(const BenchDrawing& bench);
Json column_json(const BenchDrawingColumn& column);

}  // namespace bascule
