// SPDX-License-Identifier: Apache-2.0
#include "src/plan/layer_bytes.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/plan/gradient_space.h"
#include "src/plan/workspace.h"

namespace bascule {
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

}  // namespace bascule
