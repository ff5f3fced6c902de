// SPDX-License-Identifier: Apache-2.0
// What a run that draws leaves beside its pictures: all_results.json, and a summary for people.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/bringup/machine_limits.h"
#include "src/draw_run/sealed_draw_run.h"
#include "src/page/draw_page.h"

namespace bascule {

struct DrawResults {
  std::int64_t pictures = 0;  // drawn by this process
  std::int64_t found = 0;     // that were there already
  double seconds = 0.0;       // of drawing, with all stages
  double writing_seconds = 0.0;
  std::int64_t replays = 0;  // of the noise graph: one call for all pictures of a batch
  DrawingSeconds stages;
  std::int64_t encoded_texts = 0;  // prompts and negative prompts, in all processes
  // Without the first throughput_warmup_batches batches; 0 where no batch was drawn after them.
  std::int64_t timed_pictures = 0;
  double timed_seconds = 0.0;
  std::size_t planned_bytes = 0, resident_bytes = 0;
  bool guarded = false;                                // allocations were watched
  std::uint64_t foreign_calls = 0, foreign_bytes = 0;  // allocations by libraries since the seal
  MachineLimits limits;                                // zeros: not measured
};

// What report.html compares operations with. Before the seal. Zeros where it would show none, where drawing the missing
// pictures is less than 20 times the work of measuring, or where measuring needs more memory than the plan.
MachineLimits limits_for_report(const RecordedDrawRun& run, std::int64_t missing, Isa isa);

std::string draw_results_json(const RecordedDrawRun& run, const DrawResults& results);
std::string draw_summary(const RecordedDrawRun& run, const DrawResults& results);
// calls: the tape of the noise graph, after its replays. Reads the first pictures from the run's folder.
DrawPage draw_page_of(const RecordedDrawRun& run, const DrawResults& results, const Tape& calls);

}  // namespace bascule
