// SPDX-License-Identifier: Apache-2.0
// The answers of `bascule plan` beside the plan itself: how large a batch may be, what is alive at the peak, and what
// memory costs in operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/plan/memory_plan.h"
#include "src/record/check_fits.h"

namespace bascule {

struct FrontierPoint {
  std::size_t peak_bytes = 0;  // of the plan
  double flops = 0.0;          // repeated in a step at the largest batch
  double share = 0.0;          // of the operations of a step without recomputation
};

struct PlanAnswers {
  struct Batch {
    const char *precision, *checkpointing;
    LargestBatch largest;
  };
  std::vector<Batch> batches;  // by precision and gradient_checkpointing; none where nothing is trained
  std::vector<AliveLayers> alive;
  std::vector<FrontierPoint> frontier;
  // With training.mini_batch_size: of the largest batch, and the plan's peak without them. 0: batches are whole.
  std::int64_t pieces = 0;
  std::size_t whole_batch_bytes = 0;

  std::string text() const;
  void add_to(Json* document) const;
};

// with_frontier: ten points are looked for, where something is trained. Throws Error.
PlanAnswers answer_plan(RecordedRun& run, const ProcessLimits& now, const std::vector<MemoryLimit>& limits,
                        bool with_frontier);

}  // namespace bascule
