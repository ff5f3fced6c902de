// SPDX-License-Identifier: Apache-2.0
#include "src/train/recomputation.h"

#include <algorithm>
#include <cstdio>

namespace bascule {

double flops_of(const Graph& graph) {
  double flops = 0.0;
  for (const Node& node : graph.nodes()) flops += node.kind->cost(NodeView(graph, node), graph.bounds()).flops;
  return flops;
}

std::string Recomputation::text() const {
  if (layers == 0) return "nothing is recomputed";
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

Recomputation apply_recomputation(Graph* graph, const RecomputePlan& plan) {
  Recomputation done;
  done.of_layers = plan.choice.size();
  done.layers = plan.choice.size() -
                static_cast<std::size_t>(std::count(plan.choice.begin(), plan.choice.end(), Recompute::kNothing));
  done.flops = plan.flops;
  done.step_flops = flops_of(*graph);
  recompute(*graph, plan.choice);
  return done;
}

Recomputation recompute_as_asked(Graph* graph, GradientCheckpointing asked, const ParameterLayout* layout,
                                 std::size_t workspace_bytes) {
  if (asked == GradientCheckpointing::kOff) return {};
  const RecomputePlanner planner(*graph, layout);
  if (asked == GradientCheckpointing::kFull) return apply_recomputation(graph, planner.everywhere(Recompute::kAll));
  const std::optional<RecomputePlan> fitting = planner.fit(workspace_bytes);
  const double least = planner.least_flops(workspace_bytes);
  Recomputation done = apply_recomputation(graph, fitting ? *fitting : planner.smallest());
  done.least_flops = fitting ? least : 0.0;
  return done;
}

}  // namespace bascule
