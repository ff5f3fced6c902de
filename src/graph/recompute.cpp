// SPDX-License-Identifier: Apache-2.0
#include "src/graph/recompute.h"

#include <numeric>

#include "src/base/check.h"
#include "src/graph/operation.h"

namespace bascule {
namespace {

// Operations that do less for each byte that they move wait for memory, not for arithmetic.
constexpr double kCheapFlopsPerByte = 4.0;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

bool is_activation(const Graph& graph, Tensor tensor) { return graph[tensor].storage == Storage::kActivation; }

std::size_t forward_nodes(const Graph& graph) {
  std::size_t count = 0;
  while (count < graph.nodes().size() && !graph.nodes()[count].backward) ++count;
  return count;
}

double bytes_of(const Graph& graph, Tensor tensor) {
  return static_cast<double>(graph.max_rows(tensor) * graph[tensor].cols) *
         static_cast<double>(element_bytes(graph[tensor].dtype));
}

// Facts about the forward part, from which the nodes that are computed again are chosen.
class ForwardUses {
 public:
  ForwardUses(const Graph& graph, const std::vector<GraphLayer>& layers);

  // Whether node n may be computed again: all that it writes is read by its own layer and by backward alone.
  bool is_inner(std::size_t n) const { return inner_[n]; }
  bool is_read_backward(Tensor tensor) const { return read_backward_[index_of(tensor)]; }
  std::size_t writer(Tensor tensor) const { return writer_[index_of(tensor)]; }  // kNone: no forward node

 private:
  std::vector<bool> inner_;          // by forward node
  std::vector<bool> read_backward_;  // by tensor
  std::vector<std::size_t> writer_;  // by tensor
};

ForwardUses::ForwardUses(const Graph& graph, const std::vector<GraphLayer>& layers)
    : inner_(forward_nodes(graph), false),
      read_backward_(graph.tensors().size(), false),
      writer_(graph.tensors().size(), kNone) {
  std::vector<std::size_t> layer_of(inner_.size(), kNone);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (std::size_t n = layers[l].first; n < layers[l].end; ++n) {
      layer_of[n] = l;
      inner_[n] = true;
    }
  }
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const bool is_forward = n < inner_.size();
    for (const Operand& operand : graph.nodes()[n].operands) {
      // A state may hold other values by the time of backward.
      if (is_forward && operand && graph[operand.tensor].storage == Storage::kState) inner_[n] = false;
      if (!operand || !is_activation(graph, operand.tensor)) continue;
      std::size_t& writer = writer_[index_of(operand.tensor)];
      if (!is_forward) {
        read_backward_[index_of(operand.tensor)] = true;
      } else if (operand.access == Access::kRead) {
        if (writer != kNone && layer_of[writer] != layer_of[n]) inner_[writer] = false;
      } else {
        // A result that is written in several goes, or changed in place, is left alone.
        if (operand.access != Access::kWrite || writer != kNone) inner_[n] = false;
        if (writer != kNone) inner_[writer] = false;
        writer = n;
        if (graph[operand.tensor].kept) inner_[n] = false;
      }
    }
  }
}

bool is_cheap(const Graph& graph, const Node& node) {
  const Cost cost = node.kind->cost(NodeView(graph, node), graph.bounds());
  return cost.flops <= kCheapFlopsPerByte * cost.bytes;
}

// Bytes that need not be kept for backward if `node` is computed again, less those that must be kept for that.
double freed_bytes(const Graph& graph, const ForwardUses& uses, const std::vector<bool>& again, const Node& node) {
  double bytes = 0.0;
  for (const Operand& operand : node.operands) {
    if (!operand || !is_activation(graph, operand.tensor)) continue;
    const bool is_read = uses.is_read_backward(operand.tensor);
    if (operand.access != Access::kRead) {
      if (is_read) bytes += bytes_of(graph, operand.tensor);
    } else if (!is_read && (uses.writer(operand.tensor) == kNone || !again[uses.writer(operand.tensor)])) {
      bytes -= bytes_of(graph, operand.tensor);
    }
  }
  return bytes;
}

// By forward node.
std::vector<bool> nodes_to_repeat(const Graph& graph, const ForwardUses& uses, const std::vector<GraphLayer>& layers,
                                  const std::vector<Recompute>& choice) {
  std::vector<bool> again(forward_nodes(graph), false);
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (choice[l] == Recompute::kNothing) continue;
    for (std::size_t n = layers[l].first; n < layers[l].end; ++n) {
      if (!uses.is_inner(n)) continue;
      const Node& node = graph.nodes()[n];
      again[n] = choice[l] == Recompute::kAll || (is_cheap(graph, node) && freed_bytes(graph, uses, again, node) > 0.0);
    }
  }
  return again;
}

// Emits copies of nodes when they are needed, with all that they need themselves.
class Copies {
 public:
  Copies(Graph& graph, const ForwardUses& uses, std::vector<bool> again)
      : graph_(graph), uses_(uses), again_(std::move(again)) {}

  // The tensor that backward reads for this one; new copies are appended to `order`.
  Tensor read(Tensor tensor, std::vector<std::size_t>* order) {
    const std::size_t n = index_of(tensor) < recorded_ ? uses_.writer(tensor) : kNone;
    if (n == kNone || !again_[n]) return tensor;
    if (index_of(tensor) >= copy_of_.size() || !copy_of_[index_of(tensor)]) {
      const std::vector<Operand> operands = graph_.nodes()[n].operands;  // a copy: the list grows
      for (const Operand& operand : operands) {
        if (operand && operand.access == Access::kRead) (void)read(operand.tensor, order);
      }
      order->push_back(graph_.nodes().size());
      graph_.emit_again(n, n + 1, &copy_of_);
    }
    return copy_of_[index_of(tensor)];
  }

 private:
  Graph& graph_;
  const ForwardUses& uses_;
  const std::vector<bool> again_;
  const std::size_t recorded_ = graph_.tensors().size();
  std::vector<Tensor> copy_of_;  // by tensor
};

}  // namespace

std::vector<GraphLayer> layers_of(const Graph& graph) {
  std::vector<GraphLayer> layers;
  const std::size_t forward = forward_nodes(graph);
  for (std::size_t n = 0; n < forward; ++n) {
    const std::string& scope = graph.nodes()[n].scope;
    if (layers.empty() || layers.back().name != scope) layers.push_back({scope, n, n});
    layers.back().end = n + 1;
  }
  if (!layers.empty()) layers.pop_back();
  return layers;
}

void recompute(Graph& graph, const std::vector<Recompute>& choice) {
  const std::vector<GraphLayer> layers = layers_of(graph);
  BASCULE_CHECK(choice.size() == layers.size());
  const ForwardUses uses(graph, layers);
  Copies copies(graph, uses, nodes_to_repeat(graph, uses, layers, choice));
  const std::size_t forward = forward_nodes(graph), recorded = graph.nodes().size();
  std::vector<std::size_t> order(forward);
  std::iota(order.begin(), order.end(), std::size_t{0});
  graph.set_backward(true);
  for (std::size_t n = forward; n < recorded; ++n) {
    const std::size_t places = graph.nodes()[n].operands.size();
    for (std::size_t place = 0; place < places; ++place) {
      const Operand operand = graph.nodes()[n].operands[place];
      if (operand) graph.aim(n, place, copies.read(operand.tensor, &order));
    }
    order.push_back(n);
  }
  graph.set_backward(false);
  graph.reorder(order);
}

}  // namespace bascule
