// SPDX-License-Identifier: Apache-2.0
// The graphs of a run, one for each use that it makes of the model, and the judge of its evaluations. Before the seal.
#pragma once

#include <vector>

#include "src/base/batch.h"
#include "src/judge/judge.h"
#include "src/models/model.h"
#include "src/record/recorded_run.h"
#include "src/runtime/tape.h"

namespace bascule {

// Fills run->graphs. The data and the pace are planned.
void record_graphs(RecordedRun* run);

// The outputs of a recording, the terms of its loss first. tape: for the addresses; null: none yet.
std::vector<JudgedOutput> judged_outputs(const Recording& recording, const Graph& graph, const Tape* tape);

// The work of a training batch: of one graph, or, where it goes through the model in pieces, of three. Before the seal,
// and after replay.

struct ReplayedGraph {
  std::size_t number = 0;  // in the session
  BatchCounts counts;      // of a replay
  double replays = 1.0;    // for each batch
  bool again = false;      // all that it computes is computed by another one too
};

// Of batches of so many rows, each in so many pieces (a mean; any number where batches are whole).
std::vector<ReplayedGraph> replayed_graphs(const RecordedRun& run, const BatchCounts& batch, double pieces);

// Operations of the largest batch.
double flops_of_batch(const RecordedRun& run);

// Makes of the operations of a piece those of a batch. Both have run's graphs as they are trained.
void count_pieces(const RecordedRun& run, Recomputation* recomputation);

// The nodes of these graphs: the seconds of all replays so far, and the work of one batch.
std::vector<NodeTime> training_nodes(const RecordedRun& run, const BatchCounts& batch, double pieces);

// Pieces of a batch with so many samples; 1 where batches are whole.
std::int64_t pieces_of(const RecordedRun& run, std::int64_t samples);

}  // namespace bascule
