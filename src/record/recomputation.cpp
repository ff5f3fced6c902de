// SPDX-License-Identifier: Apache-2.0
#include "src/record/recomputation.h"

#include <algorithm>
#include <cstdio>

namespace bascule {

double flops_of(const Graph& graph) {
  double flops = 0.0;
  for (const Node& node : graph.nodes()) flops += node.kind->cost(NodeView(graph, node), graph.bounds()).flops;
  return flops;
}

std::string Recomputation::text() const {
  if (layers == 0 || !(flops > 0.0)) return "nothing is recomputed";
  const auto share = [&](double part) { return step_flops > 0.0 ? 100.0 * part / step_flops : 0.0; };
  char text[200];
  std::snprintf(text, sizeof text, "recomputed in %zu of %zu layers: %.3g GFLOP a step, %.2f %% of its operations",
                layers, of_layers, flops * 1e-9, share(flops));
  std::string all = text;
  if (least_flops > 0.0) {
    std::snprintf(text, sizeof text, " (any choice that fits: at least %.2f %%)", share(least_flops));
    all += text;
  }
  return all;
}

Recomputation apply_recomputation(Graph* graph, const std::vector<Recompute>& choice) {
  Recomputation done;
  done.of_layers = choice.size();
  done.layers = choice.size() - static_cast<std::size_t>(std::count(choice.begin(), choice.end(), Recompute::kNothing));
  done.step_flops = flops_of(*graph);
  recompute(*graph, choice);
  done.flops = flops_of(*graph) - done.step_flops;
  return done;
}

Recomputation recompute_everywhere(Graph* graph, Recompute choice) {
  return apply_recomputation(graph, std::vector<Recompute>(layers_of(*graph).size(), choice));
}

Recomputation recompute_to_fit(Graph* graph, const ParameterLayout* layout, std::size_t workspace_bytes) {
  const RecomputePlanner planner(*graph, layout);
  const std::optional<RecomputePlan> fitting = planner.fit(workspace_bytes);
  const double least = planner.least_flops(workspace_bytes);
  Recomputation done = apply_recomputation(graph, (fitting ? *fitting : planner.smallest()).choice);
  done.least_flops = fitting ? least : 0.0;
  return done;
}

}  // namespace bascule
