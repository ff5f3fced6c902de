// SPDX-License-Identifier: Apache-2.0
#include "src/record/replayed_graphs.h"

#include <cmath>

#include "src/base/span.h"

namespace bascule {

std::vector<ReplayedGraph> replayed_graphs(const RecordedRun& run, const BatchCounts& batch, double pieces) {
  const RecordedGraphs& graphs = run.graphs;
  if (!graphs.has_pieces()) return {{graphs[Use::kTrain].number, batch, 1.0, false}};
  BatchCounts piece = batch;
  for (std::int64_t& rows : piece.rows)
    rows = static_cast<std::int64_t>(std::llround(static_cast<double>(rows) / pieces));
  return {{graphs[Use::kEmbedText].number, piece, pieces, true},
          {graphs[Use::kTrainLoss].number, batch, 1.0, false},
          {graphs[Use::kTrain].number, piece, pieces, false}};
}

std::int64_t pieces_of(const RecordedRun& run, std::int64_t samples) {
  if (!run.graphs.has_pieces()) return 1;
  return divide_up(samples, run.session.graph(run.graphs[Use::kTrain].number).bounds().samples());
}

double flops_of_batch(const RecordedRun& run) {
  const BatchCounts& bounds = run.session.graph(run.graphs.of_loss().number).bounds();
  double flops = 0.0;
  for (const ReplayedGraph& graph : replayed_graphs(run, bounds, static_cast<double>(pieces_of(run, bounds.samples()))))
    flops += graph.replays * flops_of(run.session.graph(graph.number));
  return flops;
}

void count_pieces(const RecordedRun& run, Recomputation* recomputation) {
  const BatchCounts& bounds = run.session.graph(run.graphs.of_loss().number).bounds();
  const double pieces = static_cast<double>(pieces_of(run, bounds.samples()));
  recomputation->flops *= pieces;
  recomputation->least_flops *= pieces;
  recomputation->step_flops = flops_of_batch(run) - recomputation->flops;
}

// Operations grow with rows, so those of a batch are those of its pieces, whatever sizes these have. What is read once
// a replay, such as weights, does not.
std::vector<NodeTime> training_nodes(const RecordedRun& run, const BatchCounts& batch, double pieces) {
  std::vector<NodeTime> all;
  for (const ReplayedGraph& graph : replayed_graphs(run, batch, pieces)) {
    const Tape& tape = run.session.tape(graph.number);
    const std::vector<NodeTime> of_replay = tape.node_times(graph.counts);
    std::vector<NodeTime> nodes = tape.node_times(batch);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      nodes[n].again = nodes[n].again || graph.again;
      nodes[n].bytes = of_replay[n].bytes * graph.replays;
      nodes[n].replays = graph.replays;
    }
    all.insert(all.end(), nodes.begin(), nodes.end());
  }
  return all;
}

}  // namespace bascule
