// SPDX-License-Identifier: Apache-2.0
// The cosines of pairs of embeddings, and the loss that compares their order with that of labels.
#include <algorithm>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
// A batch has one cosine a sample: in float64, in the order of the columns, without a kernel.

namespace {
namespace pair_cosines_operation {

constexpr std::int64_t kPairsPerTask = 8;

namespace gradient {
enum : std::size_t { kDOut, kUnits, kDUnits };

struct Block {
  float* d_units;
  const float *units, *d_out;
  std::int64_t width;
  bool adds;
};

void run(const Block& b, Range range, int) {
  for (std::int64_t row = 2 * range.first; row < 2 * range.end(); ++row) {
    const float* const other = b.units + (row ^ 1) * b.width;
    float* const d_unit = b.d_units + row * b.width;
    for (std::int64_t c = 0; c < b.width; ++c) d_unit[c] = (b.adds ? d_unit[c] : 0.0f) + b.d_out[row / 2] * other[c];
  }
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at(node[kDUnits]), l.at(node[kUnits]), l.at(node[kDOut]), node.cols(kUnits), false},
                          {node.rows(kDOut), kPairsPerTask}, run);
  l.adds(&b->adds, node.operand(kDUnits).access);
}

constexpr OperationKind kKind{"pair_cosines_backward", cost_by_elements<kUnits, 2, 8>, launch};
}  // namespace gradient

enum : std::size_t { kUnits, kOut };

struct Block {
  float* out;
  const float* units;
  std::int64_t width;
};

void run(const Block& b, Range range, int) {
  for (std::int64_t pair = range.first; pair < range.end(); ++pair) {
    const float *const first = b.units + 2 * pair * b.width, *const second = first + b.width;
    double sum = 0.0;
    for (std::int64_t c = 0; c < b.width; ++c) sum += static_cast<double>(first[c]) * static_cast<double>(second[c]);
    b.out[pair] = static_cast<float>(sum);
  }
}

void launch(const NodeView& node, Launch& l) {
  l.step(Block{l.at(node[kOut]), l.at(node[kUnits]), node.cols(kUnits)}, {node.rows(kOut), kPairsPerTask}, run);
}

constexpr OperationKind kKind{"pair_cosines", cost_by_elements<kUnits, 1, 4>, launch,
                              derive_one<gradient::kKind, kOut, kUnits, kUnits>};

}  // namespace pair_cosines_operation
}  // namespace

Tensor pair_cosines(Graph& graph, const std::string& name, Tensor embeddings) {
  BASCULE_CHECK(graph[embeddings].rows == rows_per_sample(2));
  const Tensor units = normalize(graph, name + ".units", embeddings);
  const Tensor out = graph.activation(name, rows_per_sample(1), 1);
  graph.add(pair_cosines_operation::kKind, {reads(units), writes(out)});
  return out;
}

// The order of cosines against that of labels. Each row's sum over the rows with a greater label is taken from the
// largest of its terms; then all of them from the largest of all and of the 1.

namespace {
namespace cosent_operation {

constexpr std::int64_t kRowsPerTask = 8;

struct Rows {
  const float *cosines, *labels;
  std::int64_t count;
  double scale;

  // How much greater than the scaled cosine of j that of i is.
  double difference(std::int64_t i, std::int64_t j) const {
    return scale * (static_cast<double>(cosines[i]) - static_cast<double>(cosines[j]));
  }
};

// kTotal: {top, sum}, of which the loss is top + log(sum); they are more exact than the exponential of the loss.
enum : std::size_t { kCosines, kLabels, kTotal, kTops, kSums, kLoss };

// The places of the gradient are those of the loss up to kTotal.
namespace gradient {
enum : std::size_t { kDCosines = 3 };

struct Block {
  float* d_cosines;
  const float* total;
  Rows rows;
  float loss_weight;
};

void run(const Block& b, Range range, int) {
  const Rows& rows = b.rows;
  const double top = static_cast<double>(b.total[0]), sum = static_cast<double>(b.total[1]);
  for (std::int64_t i = range.first; i < range.end(); ++i) {
    double slope = 0.0;
    for (std::int64_t j = 0; j < rows.count; ++j) {
      if (rows.labels[i] < rows.labels[j]) slope += fixed_exp(rows.difference(i, j) - top);
      if (rows.labels[j] < rows.labels[i]) slope -= fixed_exp(rows.difference(j, i) - top);
    }
    b.d_cosines[i] = static_cast<float>(slope / sum * rows.scale * static_cast<double>(b.loss_weight));
  }
}

void launch(const NodeView& node, Launch& l) {
  Block* const b = l.step(Block{l.at(node[kDCosines]),
                                l.at(node[kTotal]),
                                {l.at(node[kCosines]), nullptr, 0, static_cast<double>(node.as<float>())},
                                1.0f},
                          {node.rows(kCosines), kRowsPerTask}, run);
  l.operand(&b->rows.labels, node[kLabels]);
  l.rows(&b->rows.count, node.rows(kCosines));
  l.loss_weight(&b->loss_weight, 0);
}
}  // namespace gradient

// Of every pair of rows a difference and an exponential, about 20 operations.
Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double rows = static_cast<double>(node.rows(kCosines).at(counts));
  return {20.0 * rows * rows, 16.0 * rows};
}

constexpr OperationKind kGradient{"cosent_loss_backward", cost, gradient::launch};

void derive(const NodeView& node, Backward& b) {
  if (const Operand d_cosines = b.slot(node[kCosines]))
    b.emit(kGradient, {reads(node[kCosines]), reads(node[kLabels]), reads(node[kTotal]), d_cosines}, node.attributes());
}

struct Block {
  float *tops, *sums;
  Rows rows;
};

void run(const Block& b, Range range, int) {
  const Rows& rows = b.rows;
  for (std::int64_t i = range.first; i < range.end(); ++i) {
    const auto is_greater = [&](std::int64_t j) { return rows.labels[i] < rows.labels[j]; };
    double top = 0.0, sum = 0.0;
    bool has_any = false;
    for (std::int64_t j = 0; j < rows.count; ++j) {
      if (!is_greater(j)) continue;
      top = has_any ? std::max(top, rows.difference(i, j)) : rows.difference(i, j);
      has_any = true;
    }
    b.tops[i] = static_cast<float>(top);
    for (std::int64_t j = 0; j < rows.count; ++j) {
      if (is_greater(j)) sum += fixed_exp(rows.difference(i, j) - static_cast<double>(b.tops[i]));
    }
    b.sums[i] = static_cast<float>(sum);
  }
}

struct TotalBlock {
  float *loss, *total;
  const float *tops, *sums;
  std::int64_t rows;
};

void run_total(const TotalBlock& b, Range, int) {
  const float top = b.rows > 0 ? std::max(0.0f, *std::max_element(b.tops, b.tops + b.rows)) : 0.0f;
  const auto below_top = [&](float of_row) {
    return fixed_exp(static_cast<double>(of_row) - static_cast<double>(top));
  };
  double sum = below_top(0.0f);
  for (std::int64_t i = 0; i < b.rows; ++i) sum += static_cast<double>(b.sums[i]) * below_top(b.tops[i]);
  b.total[0] = top;
  b.total[1] = static_cast<float>(sum);
  *b.loss = static_cast<float>(static_cast<double>(top) + fixed_log(sum));
}

void launch(const NodeView& node, Launch& l) {
  float *const tops = l.at(node[kTops]), *const sums = l.at(node[kSums]);
  Block* const b = l.step(Block{tops, sums, {l.at(node[kCosines]), nullptr, 0, static_cast<double>(node.as<float>())}},
                          {node.rows(kCosines), kRowsPerTask}, run);
  l.operand(&b->rows.labels, node[kLabels]);
  l.rows(&b->rows.count, node.rows(kCosines));
  TotalBlock* const t = l.step(TotalBlock{l.at(node[kLoss]), l.at(node[kTotal]), tops, sums, 0}, whole(), run_total);
  l.rows(&t->rows, node.rows(kCosines));
}

constexpr OperationKind kKind{"cosent_loss", cost, launch, derive};

}  // namespace cosent_operation
}  // namespace

Tensor cosent_loss(Graph& graph, Tensor cosines, Tensor labels, float scale) {
  BASCULE_CHECK(graph[cosines].cols == 1);
  const Extent rows = graph[cosines].rows;
  const Tensor total = graph.activation("total", fixed_rows(2), 1), tops = graph.activation("tops", rows, 1),
               sums = graph.activation("sums", rows, 1), loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(loss);
  graph.add(cosent_operation::kKind,
            {reads(cosines), reads(labels), writes(total), writes(tops), writes(sums), writes(loss)},
            Attributes::of(scale));
  return loss;
}

}  // namespace bascule
