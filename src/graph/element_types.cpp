// SPDX-License-Identifier: Apache-2.0
#include "src/graph/element_types.h"

#include <algorithm>
#include <utility>

#include "src/graph/operation.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

// How a tensor is used. Numbers of nodes; -1: none.
struct Uses {
  bool all_take_bf16 = true;
  bool forward_rounds = true;       // all forward readers round it
  bool backward_takes_bf16 = true;  // all backward nodes
  int writer = -1;                  // the last one
  int first_reader = -1;
  int last_backward = -1;
};

// Whether the node's products are to be bf16.
bool gets_bf16_products(const Graph& graph, const Node& node) {
  for (std::size_t place = 0; place < node.operands.size(); ++place) {
    const Tensor x = node.operands[place].tensor;
    if (!x || !has_place(node.kind->rounding_places, place)) continue;
    return !(graph[x].rows == rows_per_sample(1)) && !(graph[x].rows == fixed_rows(1));
  }
  return false;
}

bool rounds(const Node& node, std::size_t place) {
  return node.bf16_products && has_place(node.kind->rounding_places, place);
}
bool takes_bf16(const Node& node, std::size_t place) {
  const bool is_float32_product = node.kind->rounding_places != 0 && !node.bf16_products;
  return !is_float32_product && has_place(node.kind->bf16_places, place);
}

std::vector<Uses> find_uses(const Graph& graph) {
  std::vector<Uses> uses(graph.tensors().size());
  for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    for (std::size_t place = 0; place < node.operands.size(); ++place) {
      const Operand operand = node.operands[place];
      if (!operand) continue;
      Uses& use = uses[index_of(operand.tensor)];
      const bool takes = takes_bf16(node, place) && operand.access != Access::kAdd;
      use.all_take_bf16 = use.all_take_bf16 && takes;
      if (operand.access == Access::kWrite) {
        use.writer = static_cast<int>(n);
        continue;
      }
      if (use.first_reader < 0) use.first_reader = static_cast<int>(n);
      if (node.backward) {
        use.backward_takes_bf16 = use.backward_takes_bf16 && takes;
        use.last_backward = static_cast<int>(n);
      } else {
        use.forward_rounds = use.forward_rounds && rounds(node, place);
      }
    }
  }
  return uses;
}

}  // namespace

void choose_element_types(Graph& graph, Rounding rounding) {
  for (Node& node : graph.nodes_) node.bf16_products = gets_bf16_products(graph, node);
  const std::vector<Uses> uses = find_uses(graph);

  struct Copy {
    std::size_t before;  // node
    Tensor from, to;
  };
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Uses& use = uses[i];
    TensorInfo& info = graph.tensors_[i];
    if (info.storage != Storage::kActivation || info.dtype != DType::kFloat32 || info.kept || use.writer < 0) continue;
    const bool is_gradient = graph.nodes_[static_cast<std::size_t>(use.writer)].backward;
    const bool suffices = is_gradient || use.forward_rounds || rounding == Rounding::kOfReaders;
    if (use.all_take_bf16 && suffices) {
      info.dtype = DType::kBFloat16;
      continue;
    }
    const bool is_read_forward =
        use.first_reader >= 0 && !graph.nodes_[static_cast<std::size_t>(use.first_reader)].backward;
    if (is_gradient || !is_read_forward || use.last_backward < 0 || !use.backward_takes_bf16) continue;
    TensorInfo copy = info;
    copy.name += ".bf16";
    copy.dtype = DType::kBFloat16;
    copy.may_share = Tensor{};
    const Tensor from{static_cast<std::int32_t>(i)}, to = graph.add_tensor(std::move(copy));
    for (Node& node : graph.nodes_) {
      for (std::size_t place = 0; place < node.operands.size(); ++place) {
        Operand& operand = node.operands[place];
        if (operand.tensor == from && operand.access != Access::kWrite && (node.backward || rounds(node, place)))
          operand.tensor = to;
      }
    }
    copies.push_back({static_cast<std::size_t>(use.first_reader), from, to});
  }

  // Beside the first reader, in its scope: recomputation makes the copy of a layer's input again.
  std::stable_sort(copies.begin(), copies.end(), [](const Copy& a, const Copy& b) { return a.before < b.before; });
  std::vector<Node> nodes;
  nodes.reserve(graph.nodes_.size() + copies.size());
  std::size_t next = 0;
  for (std::size_t n = 0; n < graph.nodes_.size(); ++n) {
    for (; next < copies.size() && copies[next].before == n; ++next)
      nodes.push_back({&kRoundToBf16, {reads(copies[next].from), writes(copies[next].to)}, {}, graph.nodes_[n].scope});
    nodes.push_back(graph.nodes_[n]);
  }
  graph.nodes_ = std::move(nodes);
}

namespace {

// How the graphs read a parameter.
struct Reads {
  bool whole = false;        // as float32
  bool by_products = false;  // by those of bf16
  bool by_few_rows = false;  // by one of them whose time is that of reading the parameter
};

std::vector<Reads> find_reads(Span<Graph* const> graphs, std::size_t parameters) {
  constexpr std::int64_t kFewRows = 64;
  std::vector<Reads> reads(parameters);
  for (const Graph* graph : graphs) {
    for (const Node& node : graph->nodes()) {
      for (std::size_t place = 0; place < node.operands.size(); ++place) {
        if (!node.operands[place]) continue;
        const TensorInfo& info = (*graph)[node.operands[place].tensor];
        if (info.storage != Storage::kParameter) continue;
        Reads& of = reads[static_cast<std::size_t>(info.parameter)];
        const bool by_product = rounds(node, place);
        (by_product ? of.by_products : of.whole) = true;
        const Tensor x = node.operands.front().tensor;  // of products that round
        if (by_product && graph->max_rows(x) <= kFewRows) of.by_few_rows = true;
      }
    }
  }
  return reads;
}

}  // namespace

void store_rounded_parameters(Span<Graph* const> graphs, ParameterSet* parameters) {
  const std::size_t count = static_cast<std::size_t>(parameters->size());
  const std::vector<Reads> reads = find_reads(graphs, count);
  std::vector<int> copy_of(count, -1);
  for (std::size_t p = 0; p < count; ++p) {
    const bool is_copied = reads[p].by_few_rows && reads[p].whole;
    parameters->set_rounded(static_cast<int>(p), reads[p].by_products && !reads[p].whole);
    if (!is_copied) continue;
    Parameter copy = (*parameters)[static_cast<int>(p)];
    copy.name += ".bf16";
    copy_of[p] = parameters->add(std::move(copy));
    parameters->set_rounded(copy_of[p], true);
  }
  for (Graph* graph : graphs) {
    const std::size_t tensors = graph->tensors_.size();
    for (std::size_t i = 0; i < tensors; ++i) {
      TensorInfo info = graph->tensors_[i];
      if (info.storage != Storage::kParameter) continue;
      if ((*parameters)[info.parameter].rounded) graph->tensors_[i].dtype = DType::kBFloat16;
      info.parameter = copy_of[static_cast<std::size_t>(info.parameter)];
      if (info.parameter < 0) continue;
      info.name += ".bf16";
      info.dtype = DType::kBFloat16;
      const Tensor whole{static_cast<std::int32_t>(i)}, copy = graph->add_tensor(std::move(info));
      for (Node& node : graph->nodes_) {
        for (std::size_t place = 0; place < node.operands.size(); ++place) {
          if (node.operands[place].tensor == whole && rounds(node, place)) node.operands[place].tensor = copy;
        }
      }
    }
  }
}

bool has_bf16_products(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return node.bf16_products; });
}

}  // namespace bascule
