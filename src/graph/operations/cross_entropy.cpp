// SPDX-License-Identifier: Apache-2.0
// Cross entropy of logits against labels: the mean over the rows that count.
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

}  // namespace bascule
