// SPDX-License-Identifier: Apache-2.0
// The ranking loss of several embeddings a sample: one-sided cross entropies over the local batch, or that of all
// ranks, and its gradient.
#include <algorithm>

#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace ranking_operation {

constexpr std::int64_t kRowsPerTask = 8;

struct Rule {
  std::int64_t texts = 0;
  float scale = 0.0f;
  bool is_symmetric = false;

  std::int64_t halves() const { return is_symmetric ? 2 : 1; }
};

// kUnits: embeddings of length 1, those of a sample one after another. kGathered: those of all ranks; in a single
// process, the units themselves. kColumns: the same, all first texts before all second ones, and so on. kWeights: of
// each first text's cross entropy, (samples, candidates); kBackWeights: of each second text's, (samples, samples).
// A batch of B samples uses the first rows of each half of kLosses, and as many elements of the weights as it has.
enum : std::size_t { kUnits, kGathered, kColumns, kWeights, kBackWeights, kLosses, kLoss, kDUnits = 5 };

// The samples that the loss is over.
int stream_of(const NodeView& node) { return node.rows(kColumns).stream; }

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const Rule rule = node.as<Rule>();
  const double all = static_cast<double>(rows_of_stream(stream_of(node)).at(counts));
  const double pairs = all * all * static_cast<double>(rule.texts - 1 + (rule.is_symmetric ? 1 : 0));
  return {2.0 * pairs * static_cast<double>(node.cols(kUnits)), 4.0 * pairs};
}

// The gradient of one text of some samples.
struct GradientBlock {
  void (*kernel)(const WeightedRowSum&);
  float* d_units;
  const float *columns, *weights, *back_weights;
  std::int64_t width, column, all;
  const Peers* peers;  // null: all samples are this rank's
  Rule rule;
  float loss_weight;
  bool adds;
};

void run_gradient(const GradientBlock& b, Range range, int) {
  const std::int64_t row = (b.peers != nullptr ? b.peers->first : 0) + range.first,
                     candidates = (b.rule.texts - 1) * b.all;
  const double mean = static_cast<double>(b.loss_weight) / static_cast<double>(b.rule.halves() * b.all);
  const float *const firsts = b.columns, *const seconds = b.columns + b.all * b.width;
  WeightedRowSum sum{};
  sum.out = b.d_units + (range.first * b.rule.texts + b.column) * b.width;
  sum.rows = range.count;
  sum.width = b.width;
  sum.out_stride = b.rule.texts * b.width;
  sum.factor = static_cast<float>(static_cast<double>(b.rule.scale) * mean);
  sum.accumulate = b.adds;
  const bool is_first = b.column == 0;
  sum.x = is_first ? seconds : firsts;
  sum.terms = is_first ? candidates : b.all;
  sum.weights = b.weights + (is_first ? row * candidates : (b.column - 1) * b.all + row);
  sum.row_stride = is_first ? candidates : 1;
  sum.column_stride = is_first ? 1 : candidates;
  b.kernel(sum);
  if (!b.rule.is_symmetric || b.column > 1) return;
  sum.accumulate = true;
  sum.terms = b.all;
  sum.weights = b.back_weights + (is_first ? row : row * b.all);
  sum.row_stride = is_first ? 1 : b.all;
  sum.column_stride = is_first ? b.all : 1;
  b.kernel(sum);
}

void launch_gradient(const NodeView& node, Launch& l) {
  const Extent all = rows_of_stream(stream_of(node));
  const Rule rule = node.as<Rule>();
  l.begin_step();
  for (std::int64_t column = 0; column < rule.texts; ++column) {
    GradientBlock block{};
    block.kernel = l.kernels.weighted_row_sum;
    block.d_units = l.at(node[kDUnits]);
    block.columns = l.at(node[kColumns]);
    block.weights = l.at(node[kWeights]);
    block.back_weights = l.at(node[kBackWeights]);
    block.width = node.cols(kUnits);
    block.column = column;
    block.rule = rule;
    GradientBlock* const b = l.add(block, {rows_per_sample(1), kRowsPerTask}, run_gradient);
    l.rows(&b->all, all);
    l.loss_weight(&b->loss_weight, 0);
    l.adds(&b->adds, node.operand(kDUnits).access);
    if (all.stream == kSamplesOfAllRanks) l.peers(&b->peers);
  }
}

constexpr OperationKind kGradient{"ranking_loss_backward", twice<cost>, launch_gradient};

void derive(const NodeView& node, Backward& b) {
  const Operand d_units = b.slot(node[kUnits]);
  if (!d_units) return;
  std::vector<Operand> operands;
  for (std::size_t i = kUnits; i <= kBackWeights; ++i) operands.push_back(reads(node[i]));
  operands.push_back(d_units);
  b.emit(kGradient, std::move(operands), node.attributes());
}

struct GatherBlock {
  float* gathered;
  const float* own;
  std::int64_t count, width;
  const Peers* peers;
};

void run_gather(const GatherBlock& b, Range, int) {
  b.peers->gather(b.peers->context, &b.gathered, &b.own, 1, b.count, b.width);
}

struct ColumnBlock {
  void (*kernel)(const CopyRows&);
  float* columns;
  const float* units;
  std::int64_t width, texts, all;
};

void run_column(const ColumnBlock& b, Range range, int) {
  for (std::int64_t column = range.first; column < range.end(); ++column) {
    b.kernel({b.columns + column * b.all * b.width, b.units + column * b.width, b.all, b.width, b.width,
              b.texts * b.width, false});
  }
}

// Texts of one column, each of which is to find its sample's among `candidates` ones.
struct HalfBlock {
  void (*kernel)(const ContrastiveForward&);
  float *losses, *weights;
  const float* columns;
  std::int64_t width, all, texts;
  float scale;
  bool is_back;  // second texts among first ones, else first ones among all others
};

void run_half(const HalfBlock& b, Range range, int) {
  const std::int64_t candidates = (b.is_back ? 1 : b.texts - 1) * b.all;
  const float *const firsts = b.columns, *const seconds = b.columns + b.all * b.width;
  b.kernel({b.losses + (b.is_back ? b.all : 0) + range.first, nullptr, b.weights + range.first * candidates,
            (b.is_back ? seconds : firsts) + range.first * b.width, b.is_back ? firsts : seconds, range.count,
            candidates, b.width, range.first, b.scale});
}

void launch(const NodeView& node, Launch& l) {
  const Extent all = rows_of_stream(stream_of(node));
  const Rule rule = node.as<Rule>();
  const std::int64_t width = node.cols(kUnits);
  if (all.stream == kSamplesOfAllRanks) {
    GatherBlock* const b = l.step(
        GatherBlock{l.at(node[kGathered]), l.at(node[kUnits]), 0, rule.texts * width, nullptr}, whole(), run_gather);
    l.rows(&b->count, rows_per_sample(1));
    l.peers(&b->peers);
  }
  ColumnBlock* const columns =
      l.step(ColumnBlock{l.kernels.copy_rows, l.at(node[kColumns]), l.at(node[kGathered]), width, rule.texts, 0},
             {fixed_rows(rule.texts), 1}, run_column);
  l.rows(&columns->all, all);
  l.begin_step();
  for (const bool is_back : {false, true}) {
    if (is_back && !rule.is_symmetric) continue;
    HalfBlock* const b = l.add(
        HalfBlock{l.kernels.contrastive_forward, l.at(node[kLosses]), l.at(node[is_back ? kBackWeights : kWeights]),
                  l.at(node[kColumns]), width, 0, rule.texts, rule.scale, is_back},
        {all, kRowsPerTask}, run_half);
    l.rows(&b->all, all);
  }
  l.mean(l.at(node[kLoss]), l.at(node[kLosses]), all.times(rule.halves()));
}

constexpr OperationKind kKind{"ranking_loss", cost, launch, derive};

}  // namespace ranking_operation
}  // namespace

Tensor ranking_loss(Graph& graph, Tensor embeddings, std::int64_t texts, float scale, bool is_symmetric) {
  BASCULE_CHECK(texts >= 2 && graph[embeddings].rows == rows_per_sample(texts));
  const bool over_ranks = graph.bounds()[kSamplesOfAllRanks] > 0;
  const int stream = over_ranks ? kSamplesOfAllRanks : kSamples;
  const std::int64_t width = graph[embeddings].cols, bound = std::max<std::int64_t>(1, graph.bounds()[stream]);
  const Extent samples = rows_of_stream(stream), all = rows_of_stream(stream, texts);
  const ranking_operation::Rule rule{texts, scale, is_symmetric};
  const Tensor units = normalize(graph, "units", embeddings);
  const Tensor columns = graph.activation("columns", all, width), loss = graph.activation("loss", fixed_rows(1), 1);
  const Operand gathered = over_ranks ? writes(graph.activation("gathered", all, width)) : reads(units),
                back = is_symmetric ? writes(graph.activation("back_weights", samples, bound)) : Operand{};
  graph.keep(loss);
  graph.add(ranking_operation::kKind,
            {reads(units), gathered, writes(columns), writes(graph.activation("weights", samples, (texts - 1) * bound)),
             back, writes(graph.activation("losses", samples.times(rule.halves()), 1)), writes(loss)},
            Attributes::of(rule));
  return loss;
}

}  // namespace bascule
