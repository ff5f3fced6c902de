// SPDX-License-Identifier: Apache-2.0
#include "src/plan/alive_at_peak.h"

#include <algorithm>
#include <set>
#include <utility>

namespace bascule {

std::vector<TensorOrigin> origins_of(const Graph& graph) {
  std::vector<TensorOrigin> origins(graph.tensors().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (const Operand& operand : node.operands) {
      if (!operand) continue;
      TensorOrigin& origin = origins[static_cast<std::size_t>(operand.tensor.index)];
      if (origin.first >= 0) continue;
      origin = {node.scope,
                node.again      ? Held::kAgain
                : node.backward ? Held::kBackward
                                : Held::kForward,
                static_cast<int>(n)};
    }
  }
  return origins;
}

int peak_node(const WorkspacePlan& plan) {
  std::vector<std::pair<int, long long>> changes;
  const auto add = [&](const BufferRequest& request) {
    changes.emplace_back(request.first, static_cast<long long>(request.bytes));
    changes.emplace_back(request.last + 1, -static_cast<long long>(request.bytes));
  };
  for (const WorkspaceBuffer& buffer : plan.buffers) add(buffer.request);
  for (const TakenPlace& place : plan.gradients.taken) add(place.request);
  std::sort(changes.begin(), changes.end());
  long long alive = 0, most = -1;
  int peak = 0;
  for (const auto& [node, bytes] : changes) {
    alive += bytes;
    if (alive > most) {
      most = alive;
      peak = node;
    }
  }
  return peak;
}

std::vector<AliveLayers> alive_at_peak(const Graph& graph, const WorkspacePlan& plan) {
  const std::vector<TensorOrigin> origins = origins_of(graph);
  const int peak = peak_node(plan);
  std::vector<std::pair<int, AliveLayers>> found;  // with the first node of the first
  std::vector<std::set<std::string>> scopes;
  for (const WorkspaceBuffer& buffer : plan.buffers) {
    if (buffer.request.first > peak || buffer.request.last < peak) continue;
    const TensorOrigin* origin = nullptr;  // of the tensor that has the buffer then
    for (const Tensor tensor : buffer.tensors) {
      const TensorOrigin& next = origins[static_cast<std::size_t>(tensor.index)];
      if (origin == nullptr || next.first <= peak) origin = &next;
    }
    const std::string name = layer_kind(origin->scope);
    auto entry = std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.second.name == name; });
    if (entry == found.end()) {
      found.push_back({origin->first, {name, 0, 0, 0, 0}});
      scopes.emplace_back();
      entry = found.end() - 1;
    }
    entry->first = std::min(entry->first, origin->first);
    AliveLayers& layers = entry->second;
    (origin->held == Held::kForward ? layers.forward_bytes
     : origin->held == Held::kAgain ? layers.again_bytes
                                    : layers.backward_bytes) += buffer.request.bytes;
    std::set<std::string>& own = scopes[static_cast<std::size_t>(entry - found.begin())];
    own.insert(origin->scope);
    layers.layers = own.size();
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<AliveLayers> alive;
  alive.reserve(found.size());
  for (auto& [first, layers] : found) alive.push_back(std::move(layers));
  if (plan.gradients.bytes > 0) {
    AliveLayers gradients{"gradients that are written by then", 0, 0, 0, 0};
    for (const TakenPlace& place : plan.gradients.taken) {
      if (place.request.first <= peak) gradients.backward_bytes += place.request.bytes;
    }
    alive.push_back(std::move(gradients));
  }
  return alive;
}

}  // namespace bascule
