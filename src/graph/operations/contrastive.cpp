// SPDX-License-Identifier: Apache-2.0
// The contrastive loss: three one-sided cross entropies over the local batch, or that of all ranks, and its gradient.
#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace contrastive_operation {

constexpr int kPairs = 3;
constexpr int kRowOperand[kPairs] = {0, 0, 1};     // text, text, image
constexpr int kColumnOperand[kPairs] = {1, 2, 2};  // image, cross, cross
constexpr std::int64_t kRowsPerTask = 8;

float scale_of(const float* logit_scale) { return static_cast<float>(fixed_exp(static_cast<double>(*logit_scale))); }

// Places of the loss and of its gradient, which are the same up to kWeights; then the loss writes kLosses and kLoss,
// the gradient kDOperand and kDScale. kGathered: the operands of all ranks; in a single process, the operands
// themselves.
enum : std::size_t {
  kOperand = 0,
  kGathered = 3,
  kScale = 6,
  kSlopes,
  kWeights,
  kLosses,
  kLoss,
  kDOperand = 9,
  kDScale = 12
};

// The samples that the loss is over. Their rows lie in (3, bound) and (3 bound, bound), of which a batch of B uses the
// first 3 B and 3 B B elements.
int stream_of(const NodeView& node) { return node.rows(kSlopes).stream; }

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double pairs = static_cast<double>(kPairs * counts.samples() * counts.samples());
  return {2.0 * pairs * static_cast<double>(node.cols(kOperand)), 4.0 * pairs};
}

// One block of rows of one embedding's gradient: the two pairs in which it takes part, in their order.
struct GradientBlock {
  void (*kernel)(const WeightedRowSum&);
  float* d_operand;
  int which;
  const float* operand[kPairs];
  const float *weights, *logit_scale;
  std::int64_t width, all;
  const Peers* peers;  // null: all samples are this rank's
  float loss_weight;
  bool adds;
};

double mean_weight(float loss_weight, std::int64_t samples) {
  return static_cast<double>(loss_weight) / static_cast<double>(kPairs * samples);
}

void run_gradient(const GradientBlock& b, Range range, int) {
  const double scale = static_cast<double>(scale_of(b.logit_scale)), mean = mean_weight(b.loss_weight, b.all);
  const std::int64_t row = (b.peers != nullptr ? b.peers->first : 0) + range.first;
  bool adds = b.adds;
  for (int pair = 0; pair < kPairs; ++pair) {
    const bool as_row = kRowOperand[pair] == b.which;
    if (!as_row && kColumnOperand[pair] != b.which) continue;
    const float* const weights = b.weights + pair * b.all * b.all + (as_row ? row * b.all : row);
    b.kernel({b.d_operand + range.first * b.width, weights,
              b.operand[as_row ? kColumnOperand[pair] : kRowOperand[pair]], range.count, b.all, b.width,
              as_row ? b.all : 1, as_row ? 1 : b.all, b.width, static_cast<float>(scale * mean), adds});
    adds = true;
  }
}

struct ScaleBlock {
  float* d_scale;
  const float *slopes, *logit_scale;
  std::int64_t own, all;
  const Peers* peers;
  float loss_weight;
  bool adds;
};

void run_scale(const ScaleBlock& b, Range, int) {
  const double factor = static_cast<double>(scale_of(b.logit_scale)) * mean_weight(b.loss_weight, b.all);
  double sum = 0.0;
  for (std::int64_t pair = 0; pair < kPairs; ++pair) {
    const float* const slopes = b.slopes + pair * b.all + (b.peers != nullptr ? b.peers->first : 0);
    for (std::int64_t i = 0; i < b.own; ++i) sum += static_cast<double>(slopes[i]);
  }
  *b.d_scale = (b.adds ? *b.d_scale : 0.0f) + static_cast<float>(sum * factor);
}

void launch_gradient(const NodeView& node, Launch& l) {
  const Extent all = rows_of_stream(stream_of(node));
  const bool over_ranks = all.stream == kSamplesOfAllRanks;
  l.begin_step();
  for (int which = 0; which < kPairs; ++which) {
    const Operand d_operand = node.operand(kDOperand + static_cast<std::size_t>(which));
    if (!d_operand) continue;
    GradientBlock block{};
    block.kernel = l.kernels.weighted_row_sum;
    block.d_operand = l.at(d_operand.tensor);
    block.which = which;
    for (std::size_t i = 0; i < kPairs; ++i) block.operand[i] = l.at(node[kGathered + i]);
    block.weights = l.at(node[kWeights]);
    block.logit_scale = l.at(node[kScale]);
    block.width = node.cols(kOperand);
    GradientBlock* const b = l.add(block, {rows_per_sample(1), kRowsPerTask}, run_gradient);
    l.rows(&b->all, all);
    l.loss_weight(&b->loss_weight, 0);
    l.adds(&b->adds, d_operand.access);
    if (over_ranks) l.peers(&b->peers);
  }
  const Operand d_scale = node.operand(kDScale);
  if (!d_scale) return;
  ScaleBlock* const b =
      l.add(ScaleBlock{l.at(d_scale.tensor), l.at(node[kSlopes]), l.at(node[kScale]), 0, 0, nullptr, 1.0f, false},
            whole(), run_scale);
  l.rows(&b->own, rows_per_sample(1));
  l.rows(&b->all, all);
  l.loss_weight(&b->loss_weight, 0);
  l.adds(&b->adds, d_scale.access);
  if (over_ranks) l.peers(&b->peers);
}

constexpr OperationKind kGradient{"contrastive_loss_backward", twice<cost>, launch_gradient};

void derive(const NodeView& node, Backward& b) {
  std::vector<Operand> operands;
  for (std::size_t i = kOperand; i <= kWeights; ++i) operands.push_back(reads(node[i]));
  for (std::size_t i = 0; i < kPairs; ++i) operands.push_back(b.slot(node[kOperand + i]));
  operands.push_back(b.slot(node[kScale]));
  b.emit(kGradient, std::move(operands));
}

struct GatherBlock {
  float* gathered[kPairs];
  const float* own[kPairs];
  std::int64_t count, width;
  const Peers* peers;
};

void run_gather(const GatherBlock& b, Range, int) {
  b.peers->gather(b.peers->context, b.gathered, b.own, kPairs, b.count, b.width);
}

// One pair of embeddings.
struct PairBlock {
  void (*kernel)(const ContrastiveForward&);
  float *losses, *slopes, *weights;
  const float *a, *b, *logit_scale;
  std::int64_t pair, width, all;
};

void run_pair(const PairBlock& b, Range range, int) {
  const std::int64_t from = b.pair * b.all + range.first;
  b.kernel({b.losses + from, b.slopes + from, b.weights + from * b.all, b.a + range.first * b.width, b.b, range.count,
            b.all, b.width, range.first, scale_of(b.logit_scale)});
}

void launch(const NodeView& node, Launch& l) {
  const Extent all = rows_of_stream(stream_of(node));
  if (all.stream == kSamplesOfAllRanks) {
    GatherBlock block{};
    for (std::size_t i = 0; i < kPairs; ++i) {
      block.gathered[i] = l.at(node[kGathered + i]);
      block.own[i] = l.at(node[kOperand + i]);
    }
    block.width = node.cols(kOperand);
    GatherBlock* const b = l.step(block, whole(), run_gather);
    l.rows(&b->count, rows_per_sample(1));
    l.peers(&b->peers);
  }
  l.begin_step();
  for (int pair = 0; pair < kPairs; ++pair) {
    const std::size_t row = kGathered + static_cast<std::size_t>(kRowOperand[pair]),
                      column = kGathered + static_cast<std::size_t>(kColumnOperand[pair]);
    PairBlock* const b =
        l.add(PairBlock{l.kernels.contrastive_forward, l.at(node[kLosses]), l.at(node[kSlopes]), l.at(node[kWeights]),
                        l.at(node[row]), l.at(node[column]), l.at(node[kScale]), pair, node.cols(kOperand), 0},
              {all, kRowsPerTask}, run_pair);
    l.rows(&b->all, all);
  }
  l.mean(l.at(node[kLoss]), l.at(node[kLosses]), all.times(kPairs));
}

constexpr OperationKind kKind{"contrastive_loss", cost, launch, derive};

}  // namespace contrastive_operation
}  // namespace

Tensor contrastive_loss(Graph& graph, Tensor text, Tensor image, Tensor cross, Tensor logit_scale) {
  const bool over_ranks = graph.bounds()[kSamplesOfAllRanks] > 0;
  const int stream = over_ranks ? kSamplesOfAllRanks : kSamples;
  const std::int64_t width = graph[text].cols, bound = graph.bounds()[stream] > 0 ? graph.bounds()[stream] : 1;
  std::vector<Operand> operands = {reads(text), reads(image), reads(cross)};
  for (const Tensor operand : {text, image, cross}) {
    BASCULE_CHECK(graph[operand].cols == width);
    operands.push_back(over_ranks
                           ? writes(graph.activation("gathered", rows_of_stream(stream), width, graph[operand].dtype))
                           : reads(operand));
  }
  const Extent rows = rows_of_stream(stream, contrastive_operation::kPairs);
  const Tensor losses = graph.activation("losses", rows, 1), slopes = graph.activation("slopes", rows, 1),
               weights = graph.activation("weights", rows, bound), loss = graph.activation("loss", fixed_rows(1), 1);
  operands.insert(operands.end(), {reads(logit_scale), writes(slopes), writes(weights), writes(losses), writes(loss)});
  graph.keep(loss);
  graph.add(contrastive_operation::kKind, std::move(operands));
  return loss;
}

}  // namespace bascule
