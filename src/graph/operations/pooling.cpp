// SPDX-License-Identifier: Apache-2.0
// All rows of a sample made one: their mean, or the largest number of each column.
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace pooling_operations {

// A sample is a task.
template <typename Kernel>
Kernel* add_step(Launch& l, void (*kernel)(const Kernel&), const Kernel& whole, Extent samples, Tensor offsets) {
  Kernel* const a = l.kernel(
      kernel, whole, {samples, 1}, +[](Kernel* part, Range range) {
        part->first_sample = range.first;
        part->last_sample = range.end();
      });
  l.operand(&a->offsets, offsets);
  return a;
}

// The operands of both kinds, and of both gradients. Only a maximum has its row.
enum : std::size_t { kX, kOffsets, kOut, kRow };
enum : std::size_t { kDOut = 0, kDRow = 2, kDX = 3 };

void launch_mean_backward(const NodeView& node, Launch& l) {
  MeanRowsBackward* const a = add_step<MeanRowsBackward>(
      l, l.kernels.mean_rows_backward,
      {l.at(node[kDX]), l.at(node[kDOut]), nullptr, 0, 0, node.rows(kDX).per_row, node.cols(kDX), false},
      node.rows(kDOut), node[kOffsets]);
  l.adds(&a->accumulate, node.operand(kDX).access);
}

void launch_mean(const NodeView& node, Launch& l) {
  add_step<MeanRowsForward>(l, l.kernels.mean_rows_forward,
                            {l.at(node[kOut]), l.at(node[kX]), nullptr, 0, 0, node.rows(kX).per_row, node.cols(kX)},
                            node.rows(kOut), node[kOffsets]);
}

constexpr OperationKind kMeanGradient{"mean_rows_backward", cost_by_elements<kDX, 1, 4>, launch_mean_backward};
constexpr OperationKind kMean{"mean_rows", cost_by_elements<kX, 1, 4>, launch_mean,
                              derive_one<kMeanGradient, kOut, kX, kOffsets, kRow>};

void launch_max_backward(const NodeView& node, Launch& l) {
  MaxRowsBackward* const a =
      add_step<MaxRowsBackward>(l, l.kernels.max_rows_backward,
                                {l.at(node[kDX]), l.at(node[kDOut]), l.at<std::int32_t>(node[kDRow]), nullptr, 0, 0,
                                 node.rows(kDX).per_row, node.cols(kDX), false},
                                node.rows(kDOut), node[kOffsets]);
  l.adds(&a->accumulate, node.operand(kDX).access);
}

void launch_max(const NodeView& node, Launch& l) {
  add_step<MaxRowsForward>(l, l.kernels.max_rows_forward,
                           {l.at(node[kOut]), l.at<std::int32_t>(node[kRow]), l.at(node[kX]), nullptr, 0, 0,
                            node.rows(kX).per_row, node.cols(kX)},
                           node.rows(kOut), node[kOffsets]);
}

constexpr OperationKind kMaxGradient{"max_rows_backward", cost_by_elements<kDX, 1, 4>, launch_max_backward};
constexpr OperationKind kMax{"max_rows", cost_by_elements<kX, 1, 4>, launch_max,
                             derive_one<kMaxGradient, kOut, kX, kOffsets, kRow>};

Tensor add(Graph& graph, const OperationKind& kind, const std::string& name, Tensor x, const SampleRows& rows) {
  BASCULE_CHECK(graph[x].rows == rows.extent);
  const Extent samples = samples_of(graph, rows);
  const std::int64_t cols = graph[x].cols;
  const Tensor out = graph.activation(name, samples, cols, graph[x].dtype);
  const Tensor row = &kind == &kMax ? graph.activation(name + ".row", samples, cols, DType::kInt32) : Tensor{};
  graph.add(kind, {reads(x), reads(rows.offsets), writes(out), writes(row)});
  return out;
}

}  // namespace pooling_operations
}  // namespace

Tensor mean_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows) {
  return pooling_operations::add(graph, pooling_operations::kMean, name, x, rows);
}

Tensor max_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows) {
  return pooling_operations::add(graph, pooling_operations::kMax, name, x, rows);
}

}  // namespace bascule
