// SPDX-License-Identifier: Apache-2.0
#include "src/plan/choose_recompute.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "src/plan/workspace.h"

namespace bascule {
namespace {

// Searches for one limit: first with ever less memory until places fit too, by this part of the limit and twice as much
// each time, or by what places took too much; then with as much as still fits.
constexpr int kSearches = 12;
constexpr std::size_t kFirstStep = 2048;

struct SearchState {
  std::size_t kept = 0;
  double flops = 0.0;
  std::size_t before = 0;  // the state that it comes from
  Recompute choice = Recompute::kNothing;
};

// Those that no other state beats in both, in the order of their bytes.
std::vector<SearchState> without_worse(std::vector<SearchState> states) {
  std::stable_sort(states.begin(), states.end(), [](const SearchState& a, const SearchState& b) {
    return std::make_pair(a.kept, a.flops) < std::make_pair(b.kept, b.flops);
  });
  std::vector<SearchState> best;
  for (const SearchState& state : states) {
    if (best.empty() || state.flops < best.back().flops) best.push_back(state);
  }
  return best;
}

}  // namespace

std::optional<std::vector<Recompute>> RecomputePlanner::search(const BytesOfLayers& bytes,
                                                               std::size_t workspace_bytes) const {
  const std::size_t limit = workspace_bytes + gradient_bytes_;
  const std::size_t layers = measured_.flops.size();
  std::vector<std::vector<SearchState>> states = {{SearchState{}}};  // by number of layers decided
  for (std::size_t l = 0; l < layers; ++l) {
    std::vector<SearchState> next;
    for (std::size_t s = 0; s < states[l].size(); ++s) {
      const SearchState& from = states[l][s];
      for (std::size_t c = 0; c < kRecomputeChoices; ++c) {
        if (from.kept + bytes.layers[l].working[c] > limit) continue;
        next.push_back(
            {from.kept + bytes.layers[l].kept[c], from.flops + measured_.flops[l][c], s, static_cast<Recompute>(c)});
      }
    }
    states.push_back(without_worse(std::move(next)));
  }
  // More bytes, fewer operations: the last state that leaves room for the last layer repeats least.
  std::size_t s = states.back().size();
  while (s > 0 && states.back()[s - 1].kept + bytes.last_working > limit) --s;
  if (s == 0) return std::nullopt;
  --s;
  std::vector<Recompute> choice(layers);
  for (std::size_t l = layers; l-- > 0;) {
    choice[l] = states[l + 1][s].choice;
    s = states[l + 1][s].before;
  }
  return choice;
}

RecomputePlan RecomputePlanner::plan(std::vector<Recompute> choice) const {
  RecomputePlan result;
  Graph graph = graph_;
  recompute(graph, choice);
  const GradientSpace space = layout_ != nullptr ? find_gradient_space(graph, *layout_) : GradientSpace{};
  result.workspace_bytes = plan_workspace(graph, layout_ != nullptr ? &space : nullptr).bytes;
  for (std::size_t l = 0; l < choice.size(); ++l)
    result.flops += measured_.flops[l][static_cast<std::size_t>(choice[l])];
  result.choice = std::move(choice);
  return result;
}

RecomputePlan RecomputePlanner::everywhere(Recompute choice) const {
  return plan(std::vector<Recompute>(measured_.flops.size(), choice));
}

RecomputePlan RecomputePlanner::smallest() const {
  RecomputePlan best = everywhere(Recompute::kAll);
  std::size_t fails = 0, works = best.workspace_bytes;
  while (works - fails > best.workspace_bytes / 256) {
    const std::size_t middle = fails + (works - fails) / 2;
    (search(measured_.most, middle) ? works : fails) = middle;
  }
  if (const auto choice = search(measured_.most, works)) {
    RecomputePlan found = plan(*choice);
    if (found.workspace_bytes <= best.workspace_bytes) best = std::move(found);
  }
  return best;
}

std::optional<RecomputePlan> RecomputePlanner::fit(std::size_t bytes) const {
  std::optional<RecomputePlan> best;
  std::size_t limit = bytes, fails = bytes, works = 0, step = bytes / kFirstStep;  // of lifetimes
  for (int i = 0; i < kSearches; ++i) {
    const std::optional<std::vector<Recompute>> choice = search(measured_.most, limit);
    if (!choice) break;
    RecomputePlan found = plan(*choice);
    const bool is_placed = found.workspace_bytes <= bytes;
    (is_placed ? works : fails) = limit;
    if (is_placed && limit == bytes) return found;
    const std::size_t down = std::max(step, found.workspace_bytes - std::min(bytes, found.workspace_bytes));
    if (is_placed && (!best || found.flops < best->flops)) best = std::move(found);
    limit = best ? works + (fails - works) / 2 : limit - std::min(limit, down);
    step *= 2;
  }
  if (best) return best;
  RecomputePlan least = smallest();
  if (least.workspace_bytes <= bytes) best = std::move(least);
  return best;
}

double RecomputePlanner::least_flops(std::size_t bytes) const {
  const std::optional<std::vector<Recompute>> choice = search(measured_.least, bytes);
  double flops = 0.0;
  for (std::size_t l = 0; l < measured_.flops.size(); ++l) {
    // Where lifetimes alone take more than that, nothing fits, whatever it repeats.
    flops += measured_.flops[l][static_cast<std::size_t>(choice ? (*choice)[l] : Recompute::kAll)];
  }
  return flops;
}

std::vector<RecomputePlan> RecomputePlanner::frontier(std::size_t count) const {
  std::vector<RecomputePlan> plans = {smallest()};
  RecomputePlan last = everywhere(Recompute::kNothing);
  const std::size_t first_bytes = plans.front().workspace_bytes;
  const std::size_t span = last.workspace_bytes - std::min(first_bytes, last.workspace_bytes);
  for (std::size_t i = 1; i + 1 < count; ++i) {
    const auto choice = search(measured_.most, first_bytes + span / (count - 1) * i);
    if (choice) plans.push_back(plan(*choice));
  }
  plans.push_back(std::move(last));
  // Places may turn the order of neighbours round: one that takes no less and repeats no less than another goes.
  std::vector<RecomputePlan> best;
  for (RecomputePlan& plan : plans) {
    while (!best.empty() && best.back().workspace_bytes >= plan.workspace_bytes && best.back().flops >= plan.flops)
      best.pop_back();
    if (best.empty() || plan.flops < best.back().flops) best.push_back(std::move(plan));
  }
  return best;
}

namespace {

constexpr std::size_t kChoices = kRecomputeChoices;

// The number of the layer that a node belongs to, forward or backward; the last layer has the highest.
class LayerNumbers {
 public:
  explicit LayerNumbers(const Graph& graph) {
    const std::vector<GraphLayer> layers = layers_of(graph);
    for (std::size_t l = 0; l < layers.size(); ++l) number_of_[layers[l].name] = l;
    count_ = layers.size();
  }
  std::size_t count() const { return count_; }  // without the last
  std::size_t operator()(const Node& node) const {
    const auto found = number_of_.find(node.scope);
    return found == number_of_.end() ? count_ : found->second;
  }

 private:
  std::map<std::string, std::size_t> number_of_;
  std::size_t count_ = 0;
};

// The layer on whose choice a tensor's bytes depend: the one that alone writes and reads it in forward and in copies.
// By tensor; layer_of.count(): none.
std::vector<std::size_t> owners_of(const Graph& graph, const LayerNumbers& layer_of) {
  constexpr std::size_t kUnseen = static_cast<std::size_t>(-1);
  std::vector<std::size_t> owners(graph.tensors().size(), kUnseen);
  for (const Node& node : graph.nodes()) {
    if (node.backward && !node.again) continue;
    for (const Operand& operand : node.operands) {
      if (!operand) continue;
      std::size_t& owner = owners[static_cast<std::size_t>(operand.tensor.index)];
      if (owner == kUnseen) owner = layer_of(node);
      if (owner != layer_of(node) || graph[operand.tensor].kept) owner = layer_of.count();
    }
  }
  for (std::size_t& owner : owners) owner = std::min(owner, layer_of.count());
  return owners;
}

// Bytes alive at each recorded node, of each layer; behind the layers, those that depend on no layer's choice. A copy
// counts with the node before which it stands.
std::vector<std::vector<std::size_t>> bytes_alive(const Graph& recomputed, const LayerNumbers& layer_of,
                                                  std::size_t recorded_nodes, const ParameterLayout* layout) {
  const std::size_t nodes = recomputed.nodes().size();
  std::vector<std::vector<long long>> changes(layer_of.count() + 1, std::vector<long long>(nodes + 2, 0));
  const std::vector<std::size_t> owners = owners_of(recomputed, layer_of);
  const auto add = [&](std::size_t owner, const BufferRequest& request) {
    changes[owner][static_cast<std::size_t>(request.first)] += static_cast<long long>(request.bytes);
    changes[owner][static_cast<std::size_t>(request.last) + 1] -= static_cast<long long>(request.bytes);
  };
  for (const WorkspaceBuffer& buffer : workspace_buffers(recomputed))
    add(owners[static_cast<std::size_t>(buffer.tensors.back().index)], buffer.request);
  if (layout != nullptr) {
    for (const TakenPlace& place : find_gradient_space(recomputed, *layout).taken) add(layer_of.count(), place.request);
  }
  std::vector<std::vector<std::size_t>> alive(changes.size(), std::vector<std::size_t>(recorded_nodes, 0));
  for (std::size_t l = 0; l < changes.size(); ++l) {
    long long bytes = 0;
    std::size_t recorded = 0;
    for (std::size_t n = 0; n < nodes; ++n) {
      bytes += changes[l][n];
      alive[l][recorded] = std::max(alive[l][recorded], static_cast<std::size_t>(bytes));
      if (!recomputed.nodes()[n].again) ++recorded;
    }
  }
  return alive;
}

}  // namespace

MeasuredLayers measure_layers(const Graph& graph, const ParameterLayout* layout) {
  const LayerNumbers layer_of(graph);
  const std::size_t count = layer_of.count(), nodes = graph.nodes().size();
  MeasuredLayers measured;
  measured.flops.assign(count, std::vector<double>(kChoices, 0.0));
  measured.least.layers.resize(count);
  measured.most.layers.resize(count);
  std::vector<std::vector<std::size_t>> alive[kChoices];
  for (std::size_t c = 0; c < kChoices; ++c) {
    Graph recomputed = graph;
    recompute(recomputed, std::vector<Recompute>(count, static_cast<Recompute>(c)));
    alive[c] = bytes_alive(recomputed, layer_of, nodes, layout);
    for (const Node& node : recomputed.nodes()) {
      if (node.again)
        measured.flops[layer_of(node)][c] += node.kind->cost(NodeView(recomputed, node), graph.bounds()).flops;
    }
  }
  const auto least = [&](std::size_t l, std::size_t n) {
    return std::min({alive[0][l][n], alive[1][l][n], alive[2][l][n]});
  };
  const auto most = [&](std::size_t l, std::size_t n) {
    return std::max({alive[0][l][n], alive[1][l][n], alive[2][l][n]});
  };
  for (std::size_t l = 0; l < count; ++l) {
    for (std::size_t c = 0; c < kChoices; ++c) measured.least.layers[l].kept[c] = static_cast<std::size_t>(-1);
  }
  for (std::size_t n = 0; n < nodes; ++n) {
    const std::size_t running = layer_of(graph.nodes()[n]);
    std::size_t least_others = least(count, n), most_others = most(count, n);
    for (std::size_t l = running + 1; l < count; ++l) most_others += most(l, n);
    for (std::size_t l = 0; l < running; ++l) {
      for (std::size_t c = 0; c < kChoices; ++c) {
        std::size_t &fewest = measured.least.layers[l].kept[c], &many = measured.most.layers[l].kept[c];
        fewest = std::min(fewest, alive[c][l][n]);
        many = std::max(many, alive[c][l][n]);
      }
    }
    if (running == count) {
      measured.least.last_working = std::max(measured.least.last_working, least_others);
      measured.most.last_working = std::max(measured.most.last_working, most_others);
      continue;
    }
    for (std::size_t c = 0; c < kChoices; ++c) {
      const std::size_t own = alive[c][running][n];
      std::size_t &fewest = measured.least.layers[running].working[c], &many = measured.most.layers[running].working[c];
      fewest = std::max(fewest, least_others + own);
      many = std::max(many, most_others + own);
    }
  }
  return measured;
}

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
