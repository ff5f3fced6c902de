// SPDX-License-Identifier: Apache-2.0
// Taking rows out of a tensor, putting them into a state, and putting columns side by side.

#include <algorithm>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/nearest.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace rows_operations {

// Copies a (rows, cols) block between tensors of other widths.
void copy_rows(Launch& l, const CopyRows& copy, Extent rows, Access access) {
  CopyRows* const a = l.whole_kernel(l.kernels.copy_rows, copy);
  l.rows(&a->rows, rows);
  l.adds(&a->accumulate, access);
}

// To the rows that the index names.
void scatter_rows(Launch& l, float* out, Tensor from, Tensor index, std::int64_t cols, Extent rows, bool accumulate) {
  ScatterRows* const a =
      l.kernel(l.kernels.scatter_rows, {out, l.at(from), nullptr, 0, cols, accumulate}, by_rows_evenly(l, rows, cols));
  l.operand(&a->index, index);
}

// The attribute of both: which rows are taken where no index names them.
struct Spaced {
  std::int64_t first, spacing;
};

namespace scatter {
enum : std::size_t { kDOut, kIndex, kDX };

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double values = node.elements(kDOut, counts);
  const bool clears = node.operand(kDX).access == Access::kWrite;
  return {values, 12.0 * values + (clears ? 4.0 * node.elements(kDX, counts) : 0.0)};
}

void launch(const NodeView& node, Launch& l) {
  float *const d_x = l.at(node[kDX]), *const d_out = l.at(node[kDOut]);
  const Extent rows = node.rows(kDOut);
  const std::int64_t cols = node.cols(kDOut);
  if (node.operand(kDX).access == Access::kWrite)
    l.kernel(l.kernels.fill, {d_x, 0, 0.0f}, by_elements_evenly(l, node.rows(kDX), cols));
  if (!node[kIndex]) {
    const Spaced spaced = node.as<Spaced>();
    copy_rows(l, {d_x + spaced.first * cols, d_out, 0, cols, spaced.spacing * cols, cols, true}, rows, Access::kAdd);
    return;
  }
  scatter_rows(l, d_x, node[kDOut], node[kIndex], cols, rows, true);
}

constexpr OperationKind kKind{"scatter_rows", cost, launch};
}  // namespace scatter

namespace gather {
enum : std::size_t { kX, kIndex, kOut };

void launch(const NodeView& node, Launch& l) {
  float *const out = l.at(node[kOut]), *const x = l.at(node[kX]);
  const Extent rows = node.rows(kOut);
  const std::int64_t cols = node.cols(kOut);
  if (!node[kIndex]) {
    const Spaced spaced = node.as<Spaced>();
    copy_rows(l, {out, x + spaced.first * cols, 0, cols, cols, spaced.spacing * cols, false}, rows, Access::kWrite);
    return;
  }
  GatherRows* const a = l.kernel(l.kernels.gather_rows, {out, x, nullptr, 0, cols}, by_rows_evenly(l, rows, cols));
  l.operand(&a->index, node[kIndex]);
}

constexpr OperationKind kKind{"gather_rows", cost_by_elements<kOut, 0, 8>, launch,
                              derive_one<scatter::kKind, kOut, kX, kIndex>};

Tensor add(Graph& graph, const std::string& name, Tensor x, Tensor index, Extent rows, Spaced spaced) {
  const Tensor out = graph.activation(name, rows, graph[x].cols, graph[x].dtype);
  graph.add(kKind, {reads(x), reads(index), writes(out)}, Attributes::of(spaced));
  return out;
}
}  // namespace gather

namespace store {
enum : std::size_t { kX, kIndex, kState };

void launch(const NodeView& node, Launch& l) {
  scatter_rows(l, l.at(node[kState]), node[kX], node[kIndex], node.cols(kX), node.rows(kX), false);
}

constexpr OperationKind kKind{"store_rows", cost_by_elements<kX, 0, 8>, launch};
}  // namespace store

namespace concatenate_gradient {
enum : std::size_t { kDOut, kDHalf };

// The attribute is where the second half begins.
void launch(const NodeView& node, Launch& l) {
  const std::int64_t all = node.cols(kDOut), middle = node.as<std::int64_t>();
  for (std::size_t i = 0; i < 2; ++i) {
    const Operand d_half = node.operand(kDHalf + i);
    if (!d_half) continue;
    const std::int64_t cols = node.cols(kDHalf + i);
    copy_rows(l, {l.at(d_half.tensor), l.at(node[kDOut]) + (i == 0 ? 0 : middle), 0, cols, cols, all, false},
              node.rows(kDOut), d_half.access);
  }
}

constexpr OperationKind kKind{"concatenate_backward", cost_by_elements<kDOut, 0, 8>, launch};
}  // namespace concatenate_gradient

enum : std::size_t { kHalf = 0, kOut = 2 };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand first = b.slot(node[kHalf]), second = b.slot(node[kHalf + 1]);
  b.emit(concatenate_gradient::kKind, {reads(d_out), first, second}, Attributes::of(node.cols(kHalf)));
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t all = node.cols(kOut);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t cols = node.cols(kHalf + i);
    copy_rows(l, {l.at(node[kOut]) + (i == 0 ? 0 : node.cols(kHalf)), l.at(node[kHalf + i]), 0, cols, all, cols, false},
              node.rows(kOut), Access::kWrite);
  }
}

constexpr OperationKind kKind{"concatenate", cost_by_elements<kOut, 0, 8>, launch, derive};

}  // namespace rows_operations
}  // namespace

Extent samples_of(const Graph& graph, const SampleRows& rows) {
  return rows_per_sample(rows.offsets ? graph[rows.offsets].rows.per_row : 1);
}

Tensor numbered_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows, std::int64_t number) {
  BASCULE_CHECK(!rows.offsets && number < rows.extent.per_row);
  return rows_operations::gather::add(graph, name, x, {}, samples_of(graph, rows), {number, rows.extent.per_row});
}

Tensor first_rows(Graph& graph, const std::string& name, Tensor x, const SampleRows& rows) {
  return rows_operations::gather::add(graph, name, x, rows.offsets, samples_of(graph, rows), {0, rows.extent.per_row});
}

Tensor gather_rows(Graph& graph, const std::string& name, Tensor x, Tensor index) {
  return rows_operations::gather::add(graph, name, x, index, graph[index].rows, {});
}

void store_rows(Graph& graph, Tensor state, Tensor x, Tensor index) {
  BASCULE_CHECK(graph[state].storage == Storage::kState && graph[state].cols == graph[x].cols);
  graph.add(rows_operations::store::kKind, {reads(x), reads(index), updates(state)});
}

Tensor concatenate(Graph& graph, const std::string& name, Tensor a, Tensor b) {
  const Tensor out = graph.activation_like(name, a, graph[a].cols + graph[b].cols);
  graph.add(rows_operations::kKind, {reads(a), reads(b), writes(out)});
  return out;
}

// A bias and a token type in one.

namespace {
namespace table_row_operation {

// The attribute of both is the row of the table, std::int64_t.
namespace gradient {
enum : std::size_t { kDOut, kDRow, kDTable };

// The first write of a table's gradient clears the other rows.
struct Block {
  void (*copy)(const CopyRows&);
  void (*fill)(const Fill&);
  float *d_row, *d_table;
  const float* d_out;
  std::int64_t cols, table_rows, index;
  bool adds_row, adds_table;
};

void run(const Block& b, Range, int) {
  if (b.d_row != nullptr) b.copy({b.d_row, b.d_out, 1, b.cols, b.cols, b.cols, b.adds_row});
  if (b.d_table == nullptr) return;
  if (!b.adds_table) b.fill({b.d_table, b.table_rows * b.cols, 0.0f});
  b.copy({b.d_table + b.index * b.cols, b.d_out, 1, b.cols, b.cols, b.cols, true});
}

Cost cost(const NodeView& node, const BatchCounts&) {
  const double cols = static_cast<double>(node.cols(kDOut));
  return {2.0 * cols, 20.0 * cols};
}

void launch(const NodeView& node, Launch& l) {
  const Operand d_row = node.operand(kDRow), d_table = node.operand(kDTable);
  Block* const b =
      l.step(Block{l.kernels.copy_rows, l.kernels.fill, l.at(d_row.tensor), l.at(d_table.tensor), l.at(node[kDOut]),
                   node.cols(kDOut), d_table ? node.rows(kDTable).fixed : 0, node.as<std::int64_t>(), false, false},
             whole(), run);
  l.adds(&b->adds_row, d_row.access);
  l.adds(&b->adds_table, d_table.access);
}

constexpr OperationKind kKind{"add_table_row_backward", cost, launch};
}  // namespace gradient

enum : std::size_t { kRow, kTable, kOut };

Cost cost(const NodeView& node, const BatchCounts&) {
  const double cols = static_cast<double>(node.cols(kRow));
  return {cols, 12.0 * cols};
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  const Operand d_row = b.slot(node[kRow]), d_table = b.slot(node[kTable]);
  b.emit(gradient::kKind, {reads(d_out), d_row, d_table}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kRow);
  l.kernel(l.kernels.add,
           {l.at(node[kOut]), l.at(node[kRow]), l.at(node[kTable]) + node.as<std::int64_t>() * cols, cols},
           {fixed_rows(cols), cols});
}

constexpr OperationKind kKind{"add_table_row", cost, launch, derive};

}  // namespace table_row_operation
}  // namespace

Tensor add_table_row(Graph& graph, const std::string& name, Tensor row, Tensor table, std::int64_t index) {
  const Tensor out = graph.activation_like(name, row, graph[row].cols);
  graph.add(table_row_operation::kKind, {reads(row), reads(table), writes(out)}, Attributes::of(index));
  return out;
}

// The predictions of a head over classes, from its logits and what their loss has computed of them already.

namespace {
namespace class_predictions_operation {

struct Block {
  std::int32_t* classes;
  float *class_probabilities, *probabilities;
  const float *logits, *tops, *others;
  const std::int32_t* labels;
  std::int64_t cols, best;
};

void run(const Block& b, Range range, int) {
  for (std::int64_t r = range.first; r < range.end(); ++r) {
    const std::int32_t label = b.labels[r];
    std::int32_t* const classes = b.classes + r * b.best;
    float* const probabilities = b.class_probabilities + r * b.best;
    std::fill_n(classes, b.best, 0);
    std::fill_n(probabilities, b.best, 0.0f);
    b.probabilities[r] = 0.0f;
    if (label < 0) continue;
    const float* const logits = b.logits + r * b.cols;
    const auto weight = [&](std::int32_t c) {
      return fixed_exp(static_cast<double>(logits[c]) - static_cast<double>(b.tops[r]));
    };
    const double sum = static_cast<double>(b.others[r]) + weight(label);
    b.probabilities[r] = static_cast<float>(weight(label) / sum);
    places_of_largest(logits, b.cols, classes, b.best);
    for (std::int64_t i = 0; i < b.best; ++i) probabilities[i] = static_cast<float>(weight(classes[i]) / sum);
  }
}

enum : std::size_t { kLogits, kTops, kOthers, kLabels, kClasses, kClassProbabilities, kProbabilities };

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at<std::int32_t>(node[kClasses]), l.at(node[kClassProbabilities]),
                                l.at(node[kProbabilities]), l.at(node[kLogits]), l.at(node[kTops]), l.at(node[kOthers]),
                                nullptr, node.cols(kLogits), node.cols(kClasses)},
                          by_rows(node.rows(kLogits), node.cols(kLogits)), run);
  l.operand(&b->labels, node[kLabels]);
}

constexpr OperationKind kKind{"class_predictions", cost_by_elements<kLogits, 1, 4>, launch};

}  // namespace class_predictions_operation
}  // namespace

ClassPredictions class_predictions(Graph& graph, Tensor logits, Tensor labels, const ClassLoss& loss) {
  const Extent rows = graph[logits].rows;
  const std::int64_t best = std::min(kPredictedClasses, graph[logits].cols);
  const ClassPredictions made{graph.activation("predicted_classes", rows, best, DType::kInt32),
                              graph.activation("predicted_probabilities", rows, best),
                              graph.activation("label_probabilities", rows, 1)};
  graph.keep(made.classes);
  graph.keep(made.class_probabilities);
  graph.keep(made.probabilities);
  graph.add(class_predictions_operation::kKind,
            {reads(logits), reads(loss.tops), reads(loss.others), reads(labels), writes(made.classes),
             writes(made.class_probabilities), writes(made.probabilities)});
  return made;
}

// All rows of a sample made one: their mean, or the largest number of each column.

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
