// SPDX-License-Identifier: Apache-2.0
// Losses. First cross entropy of logits against labels: the mean over the rows that count.
#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace cross_entropy_operation {

std::int64_t counted_rows(const std::int32_t* labels, std::int64_t rows) {
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) counted += labels[r] >= 0 ? 1 : 0;
  return counted;
}

// The attributes of both operations.
struct Rule {
  float smoothing = 0.0f;
  int term = 0;
};

namespace gradient {
enum : std::size_t { kLogits, kLabels, kMixedLabels, kShares, kTops, kOthers, kDLogits };

struct Block {
  void (*kernel)(const CrossEntropyBackward&);
  CrossEntropyBackward whole;
  float loss_weight;
};

void run(const Block& b, Range range, int) {
  const std::int64_t counted = counted_rows(b.whole.label, b.whole.rows);
  const double scale = counted > 0 ? static_cast<double>(b.loss_weight) / static_cast<double>(counted) : 0.0;
  CrossEntropyBackward a = part_of(b.whole, range.first, range.count);
  a.scale = static_cast<float>(scale);
  b.kernel(a);
}

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kLogits);
  const std::int64_t cols = node.cols(kLogits);
  Block* const b = l.step(Block{l.kernels.cross_entropy_backward,
                                {l.at(node[kDLogits]), l.at(node[kLogits]), l.at(node[kTops]), l.at(node[kOthers]),
                                 nullptr, 0, cols, 0.0f, node.as<Rule>().smoothing},
                                1.0f},
                          by_rows(rows, cols), run);
  l.operand(&b->whole.label, node[kLabels]);
  if (node[kMixedLabels]) {
    l.operand(&b->whole.mixed_label, node[kMixedLabels]);
    l.operand(&b->whole.share, node[kShares]);
  }
  l.rows(&b->whole.rows, rows);
  l.loss_weight(&b->loss_weight, node.as<Rule>().term);
}

constexpr OperationKind kKind{"cross_entropy_backward", cost_by_elements<kLogits, 12, 8>, launch};
}  // namespace gradient

enum : std::size_t { kLogits, kLabels, kMixedLabels, kShares, kLosses, kTops, kOthers, kHits, kLoss };

void derive(const NodeView& node, Backward& b) {
  const Operand d_logits = b.slot(node[kLogits]);
  if (!d_logits) return;
  b.graph().may_share(d_logits.tensor, node[kLogits]);
  b.emit(gradient::kKind,
         {reads(node[kLogits]), reads(node[kLabels]), reads(node[kMixedLabels]), reads(node[kShares]),
          reads(node[kTops]), reads(node[kOthers]), d_logits},
         node.attributes());
}

struct MeanBlock {
  float* loss;
  const float* losses;
  const std::int32_t* labels;
  std::int64_t rows;
};

void run_mean(const MeanBlock& b, Range, int) {
  double sum = 0.0;
  for (std::int64_t r = 0; r < b.rows; ++r) sum += static_cast<double>(b.losses[r]);
  const std::int64_t counted = counted_rows(b.labels, b.rows);
  *b.loss = counted > 0 ? static_cast<float>(sum / static_cast<double>(counted)) : 0.0f;
}

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kLogits);
  const std::int64_t cols = node.cols(kLogits);
  CrossEntropyForward* const a =
      l.kernel(l.kernels.cross_entropy_forward,
               {l.at(node[kLosses]), l.at(node[kTops]), l.at(node[kOthers]), l.at<std::int32_t>(node[kHits]),
                l.at(node[kLogits]), nullptr, 0, cols, node.as<Rule>().smoothing},
               by_rows(rows, cols));
  l.operand(&a->label, node[kLabels]);
  if (node[kMixedLabels]) {
    l.operand(&a->mixed_label, node[kMixedLabels]);
    l.operand(&a->share, node[kShares]);
  }
  MeanBlock* const b = l.step(MeanBlock{l.at(node[kLoss]), l.at(node[kLosses]), nullptr, 0}, whole(), run_mean);
  l.operand(&b->labels, node[kLabels]);
  l.rows(&b->rows, rows);
}

constexpr OperationKind kKind{"cross_entropy", cost_by_elements<kLogits, 15, 4>, launch, derive};

}  // namespace cross_entropy_operation
}  // namespace

ClassLoss cross_entropy_loss(Graph& graph, Tensor logits, Tensor labels, float smoothing, MixedLabels mixed, int term) {
  const Extent rows = graph[logits].rows;
  const Tensor losses = graph.activation("losses", rows, 1), tops = graph.activation("tops", rows, 1),
               others = graph.activation("others", rows, 1), hits = graph.activation("hits", rows, 1, DType::kInt32),
               loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(loss);
  graph.keep(hits);
  graph.add(cross_entropy_operation::kKind,
            {reads(logits), reads(labels), reads(mixed.labels), reads(mixed.shares), writes(losses), writes(tops),
             writes(others), writes(hits), writes(loss)},
            Attributes::of(cross_entropy_operation::Rule{smoothing, term}));
  return {loss, hits, tops, others};
}

// Squared error of values against their labels: the mean over the rows. A batch has one of each a sample, so the
// arithmetic is in float64 and in the order of the rows, and needs no kernel.

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

// A loss whose gradients are inputs of the graph.

namespace {
namespace cotangent_loss_operation {

namespace gradient {
enum : std::size_t { kCotangent, kDOutput };

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kCotangent);
  CopyRows* const a =
      l.whole_kernel(l.kernels.copy_rows, {l.at(node[kDOutput]), l.at(node[kCotangent]), 0, cols, cols, cols, false});
  l.rows(&a->rows, node.rows(kCotangent));
}

constexpr OperationKind kKind{"cotangent_loss_backward", cost_by_elements<kCotangent, 0, 8>, launch};
}  // namespace gradient

// Operands: the loss, then output and cotangent in turn.
constexpr std::size_t kLoss = 0, kFirstOutput = 1;

Cost cost(const NodeView&, const BatchCounts&) { return {}; }

void derive(const NodeView& node, Backward& b) {
  for (std::size_t i = kFirstOutput; i < node.operands(); i += 2) {
    if (const Operand d_output = b.slot(node[i])) b.emit(gradient::kKind, {reads(node[i + 1]), d_output});
  }
}

struct Block {
  float* loss;
  const float *output, *cotangent;
  std::int64_t rows, cols;
  bool first;
};

void run(const Block& b, Range, int) {
  double sum = b.first ? 0.0 : static_cast<double>(*b.loss);
  for (std::int64_t i = 0; i < b.rows * b.cols; ++i)
    sum += static_cast<double>(b.output[i]) * static_cast<double>(b.cotangent[i]);
  *b.loss = static_cast<float>(sum);
}

void launch(const NodeView& node, Launch& l) {
  for (std::size_t i = kFirstOutput; i < node.operands(); i += 2) {
    Block* const b = l.step(
        Block{l.at(node[kLoss]), l.at(node[i]), l.at(node[i + 1]), 0, node.cols(i), i == kFirstOutput}, whole(), run);
    l.rows(&b->rows, node.rows(i));
  }
}

constexpr OperationKind kKind{"cotangent_loss", cost, launch, derive};

}  // namespace cotangent_loss_operation
}  // namespace

Tensor cotangent_loss(Graph& graph, const std::vector<std::pair<Tensor, Tensor>>& outputs_and_cotangents) {
  const Tensor loss = graph.activation("loss", fixed_rows(1), 1);
  std::vector<Operand> operands = {writes(loss)};
  for (const auto& [output, cotangent] : outputs_and_cotangents)
    operands.insert(operands.end(), {reads(output), reads(cotangent)});
  graph.keep(loss);
  graph.add(cotangent_loss_operation::kKind, std::move(operands));
  return loss;
}

// Turns logits into logarithms of probabilities, row by row.

namespace {
namespace log_sums_operation {

// Rows that one task takes; it needs as many of what the kernel of the loss writes beside.
constexpr std::int64_t kRowsPerTask = 4;

struct Block {
  void (*kernel)(const CrossEntropyForward&);
  float *tops, *log_sums;
  const float* logits;
  std::int64_t cols;
};

// The kernel's sums leave out the label's exponential, which is that of the first class here.
void run(const Block& b, Range range, int) {
  constexpr std::int32_t kFirstClass[kRowsPerTask] = {};
  float losses[kRowsPerTask], others[kRowsPerTask];
  std::int32_t hits[kRowsPerTask];
  const float* const logits = b.logits + range.first * b.cols;
  float* const tops = b.tops + range.first;
  b.kernel({losses, tops, others, hits, logits, kFirstClass, range.count, b.cols, 0.0f});
  for (std::int64_t r = 0; r < range.count; ++r) {
    const double first = fixed_exp(static_cast<double>(logits[r * b.cols]) - static_cast<double>(tops[r]));
    b.log_sums[range.first + r] = static_cast<float>(fixed_log(static_cast<double>(others[r]) + first));
  }
}

enum : std::size_t { kLogits, kTops, kLogSums };

void launch(const NodeView& node, Launch& l) {
  l.step(Block{l.kernels.cross_entropy_forward, l.at(node[kTops]), l.at(node[kLogSums]), l.at(node[kLogits]),
               node.cols(kLogits)},
         {node.rows(kLogits), kRowsPerTask}, run);
}

constexpr OperationKind kKind{"log_sums", cost_by_elements<kLogits, 15, 4>, launch};

}  // namespace log_sums_operation
}  // namespace

LogSums log_sums(Graph& graph, Tensor logits) {
  const Extent rows = graph[logits].rows;
  const LogSums sums = {graph.activation("top", rows, 1), graph.activation("log_sum", rows, 1)};
  graph.add(log_sums_operation::kKind, {reads(logits), writes(sums.top), writes(sums.log_sum)});
  return sums;
}

}  // namespace bascule
