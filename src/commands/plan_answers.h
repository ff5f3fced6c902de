// SPDX-License-Identifier: Apache-2.0
// The answers of `bascule plan` beside the plan itself: how large a batch may be, what is alive at the peak, what
// memory costs in operations, and how many ranks suit this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/json/json.h"
#include "src/machine/machine.h"
#include "src/plan/memory_plan.h"
#include "src/record/check_fits.h"
#include "src/settings/settings.h"

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

// For each of the run's machines, which are taken to be like this one, as many as propose_ranks() says: where the head
// allows it. nodes, cores: of this machine, as propose_ranks() takes them.
ProposedRanks propose_ranks_for(const Settings& settings, int machines, const std::vector<NodeFacts>& nodes,
                                const std::vector<std::int64_t>& cores);

// One line, and members of the document; nothing of none. stated: distributed.world_size.
std::string ranks_line(const std::optional<ProposedRanks>& proposed, std::int64_t stated);
void add_ranks(const std::optional<ProposedRanks>& proposed, Json* document);

}  // namespace bascule
