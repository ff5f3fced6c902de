// SPDX-License-Identifier: Apache-2.0
// Squared error of values against their labels: the mean over the rows. A batch has one of each a sample, so the
// arithmetic is in float64 and in the order of the rows, and needs no kernel.
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace squared_error_operation {

struct Rule {
  int term = 0;
};

double difference(const float* values, const float* labels, std::int64_t row) {
  return static_cast<double>(values[row]) - static_cast<double>(labels[row]);
}

namespace gradient {
enum : std::size_t { kValues, kLabels, kDValues };

struct Block {
  float* d_values;
  const float *values, *labels;
  std::int64_t rows;
  float loss_weight;
};

void run(const Block& b, Range, int) {
  if (b.rows == 0) return;
  const double scale = 2.0 * static_cast<double>(b.loss_weight) / static_cast<double>(b.rows);
  for (std::int64_t r = 0; r < b.rows; ++r)
    b.d_values[r] = static_cast<float>(scale * difference(b.values, b.labels, r));
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at(node[kDValues]), l.at(node[kValues]), nullptr, 0, 1.0f}, whole(), run);
  l.operand(&b->labels, node[kLabels]);
  l.rows(&b->rows, node.rows(kValues));
  l.loss_weight(&b->loss_weight, node.as<Rule>().term);
}

constexpr OperationKind kKind{"squared_error_backward", cost_by_elements<kValues, 3, 12>, launch};
}  // namespace gradient

enum : std::size_t { kValues, kLabels, kLoss };

void derive(const NodeView& node, Backward& b) {
  if (const Operand d_values = b.slot(node[kValues]))
    b.emit(gradient::kKind, {reads(node[kValues]), reads(node[kLabels]), d_values}, node.attributes());
}

struct Block {
  float* loss;
  const float *values, *labels;
  std::int64_t rows;
};

void run(const Block& b, Range, int) {
  double sum = 0.0;
  for (std::int64_t r = 0; r < b.rows; ++r) {
    const double error = difference(b.values, b.labels, r);
    sum += error * error;
  }
  *b.loss = b.rows > 0 ? static_cast<float>(sum / static_cast<double>(b.rows)) : 0.0f;
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at(node[kLoss]), l.at(node[kValues]), nullptr, 0}, whole(), run);
  l.operand(&b->labels, node[kLabels]);
  l.rows(&b->rows, node.rows(kValues));
}

constexpr OperationKind kKind{"squared_error", cost_by_elements<kValues, 3, 8>, launch, derive};

}  // namespace squared_error_operation
}  // namespace

Tensor squared_error_loss(Graph& graph, Tensor values, Tensor labels, int term) {
  BASCULE_CHECK(graph[values].cols == 1);
  const Tensor loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(loss);
  graph.add(squared_error_operation::kKind, {reads(values), reads(labels), writes(loss)},
            Attributes::of(squared_error_operation::Rule{term}));
  return loss;
}

}  // namespace bascule
