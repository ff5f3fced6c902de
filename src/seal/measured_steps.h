// SPDX-License-Identifier: Apache-2.0
// A recorded run is sealed without any file of its own, and measured. One that trains runs a number of updates as a
// training run would, with fresh weights; one that only evaluates runs batches of its evaluation, or, where that
// generates texts, their generation alone; one that draws replays the graphs of its stages, with its own weights.
// Allocates before and after, not between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/isa.h"
#include "src/loader/loader.h"
#include "src/logs/step_record.h"
#include "src/record/recorded_draw_run.h"
#include "src/record/recorded_run.h"
#include "src/runtime/tape.h"

namespace bascule {

// A replay of the decoder, which writes the next token of every text: means of all replays.
struct MeasuredDecoding {
  double seconds = 0.0, bytes = 0.0;  // bytes: read and written, most of them weights; 0: no texts are written
};

struct MeasuredSteps {
  std::vector<double> seconds;        // of each step: an update, or a batch of the evaluation
  std::vector<std::int64_t> samples;  // of each step
  std::vector<std::int64_t> tokens;   // that each step generated, where texts are
  std::vector<double> losses;         // of each update, before it; empty where none is trained
  double phases[kStepPhases] = {};    // seconds, summed; NaN where threads are simulated
  BatchCounts rows;                   // mean of a micro-batch
  std::int64_t micro_batches = 0;     // of nodes: with those before the measurement
  double pieces = 0.0;                // of a micro-batch, a mean; 0: they are whole
  std::vector<NodeTime> nodes;        // seconds summed over micro_batches; work of a mean one
  MeasuredDecoding decoding;
  StreamStatistics stream;
  double could_deliver = 0.0;    // samples a second, by the loader, during the measurement
  double loading_seconds = 0.0;  // of processor time, for a sample, by the loader's workers
  std::size_t resident_bytes = 0;
};

// A run that trains has at least warmup + count updates; an evaluation's batches begin anew when all have been run. The
// figures of an evaluation are not computed. simulates: the run's threads are simulated (runtime/threads.h), and
// seconds are theirs. Throws Error for what a step ended with.
MeasuredSteps measure_steps(RecordedRun& run, Isa isa, std::int64_t warmup, std::int64_t count, bool simulates);

struct MeasuredStage {
  std::vector<double> seconds;  // of each measured replay
  std::int64_t replays = 0;     // all of them: with those before the measurement
  std::vector<NodeTime> nodes;  // seconds summed over replays; work of one
};

struct MeasuredDrawing {
  MeasuredStage encode;  // one prompt
  MeasuredStage call;    // one call of the UNet, and the sampler's step, for all pictures of a batch
  MeasuredStage decode;  // one picture, up to its bytes
  std::size_t resident_bytes = 0;
};

// The run's calls follow one another as in a run, from new noise each time that all are done. simulates: as above.
// Throws Error kMemory, and kData for weights that are missing or not finite.
MeasuredDrawing measure_drawing(RecordedDrawRun& run, Isa isa, std::int64_t warmup, std::int64_t count, bool simulates);

}  // namespace bascule
