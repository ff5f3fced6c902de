// SPDX-License-Identifier: Apache-2.0
// Drawing, measured: a recorded run is sealed, with its own weights, and the graphs of its stages are replayed a number
// of times each. No file is written. Allocates before and after, not between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/isa.h"
#include "src/record/recorded_draw_run.h"
#include "src/runtime/tape.h"

namespace bascule {

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

// The run's calls follow one another as in a run, from new noise each time that all are done. Throws Error kMemory, and
// kData for weights that are missing or not finite.
MeasuredDrawing measure_drawing(RecordedDrawRun& run, Isa isa, std::int64_t warmup, std::int64_t count);

}  // namespace bascule
