// SPDX-License-Identifier: Apache-2.0
#include "src/base/align.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"
#include "src/graph/operations/dropout_stream.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const KernelTable* kernels;
  float *y, *sum, *mean, *rstd;
  const float *x, *h, *weight, *bias;
  Extent rows;
  std::int64_t cols;
  float epsilon;
  DropoutPlace dropout;
  RowKeys keys;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    const std::int64_t from = range.first * a.cols;
    a.kernels->layer_norm_forward({a.y + from, a.h == nullptr ? nullptr : a.sum + from, a.mean + range.first,
                                   a.rstd + range.first, a.x + from, a.h == nullptr ? nullptr : a.h + from, a.weight,
                                   a.bias, row_keys(a.keys, replay, range.first), range.count, a.cols, a.epsilon,
                                   dropout_stream(a.dropout, replay)});
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  float *d_x, *d_h, *parts;
  const float *d_sum, *d_y, *sum, *mean, *rstd, *weight;
  Extent rows;
  std::int64_t cols;
  DropoutPlace dropout;
  RowKeys keys;
  Accumulate rule;
  static std::int64_t tasks(const BackwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    const std::int64_t from = range.first * a.cols;
    float* part = a.parts == nullptr ? nullptr : a.parts + task * 2 * a.cols;
    a.kernels->layer_norm_backward(
        {a.d_x == nullptr ? nullptr : a.d_x + from, a.d_h == nullptr ? nullptr : a.d_h + from, part,
         part == nullptr ? nullptr : part + a.cols, a.d_sum == nullptr ? nullptr : a.d_sum + from, a.d_y + from,
         a.sum + from, a.mean + range.first, a.rstd + range.first, a.weight, row_keys(a.keys, replay, range.first),
         range.count, a.cols, dropout_stream(a.dropout, replay), adds(a.rule, replay)});
  }
};

struct PartsArguments {
  const KernelTable* kernels;
  float *d_weight, *d_bias;
  const float* parts;
  Extent rows;
  std::int64_t cols;
  Accumulate weight_rule, bias_rule;
  static std::int64_t tasks(const PartsArguments& a, const Replay&) {
    return divide_up<std::int64_t>(a.cols, kColumnsPerTask);
  }
  static void run(const PartsArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t first = task * kColumnsPerTask;
    const std::int64_t count = a.cols - first < kColumnsPerTask ? a.cols - first : kColumnsPerTask;
    const std::int64_t parts = row_tasks(a.rows.at(replay.batch.counts), a.cols);
    if (a.d_weight != nullptr)
      a.kernels->add_parts(
          {a.d_weight + first, a.parts + first, parts, count, 2 * a.cols, adds(a.weight_rule, replay)});
    if (a.d_bias != nullptr)
      a.kernels->add_parts(
          {a.d_bias + first, a.parts + a.cols + first, parts, count, 2 * a.cols, adds(a.bias_rule, replay)});
  }
};

class LayerNormGradient final : public Operation {
 public:
  Tensor d_y, d_sum, sum, mean, rstd, weight, parts;
  Backward::Slot d_x, d_weight, d_bias;
  Tensor d_h;  // none: not wanted, or shared with d_x
  Extent rows;
  std::int64_t cols = 0;
  DropoutPlace dropout;
  RowKeys keys = RowKeys::kText;

  const char* kind() const override { return "layer_norm_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_y, Access::kRead},
                                   {sum, Access::kRead},
                                   {mean, Access::kRead},
                                   {rstd, Access::kRead},
                                   {weight, Access::kRead}};
    if (d_sum) uses.push_back({d_sum, Access::kRead});
    add_slots(&uses, {d_x, d_weight, d_bias});
    if (d_h) uses.push_back({d_h, Access::kWrite});
    if (parts) uses.push_back({parts, Access::kWrite});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double elements = static_cast<double>(rows.at(counts) * cols);
    return {14.0 * elements, 4.0 * elements * (d_sum ? 4.0 : 3.0) + (d_h ? 4.0 * elements : 0.0)};
  }
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, launch.at(d_x.gradient), launch.at(d_h), launch.at(parts),
                                  launch.at(d_sum), launch.at(d_y), launch.at(sum), launch.at(mean), launch.at(rstd),
                                  launch.at(weight), rows, cols, dropout, keys, d_x.accumulate});
    if (!parts) return;
    launch.step(PartsArguments{&launch.kernels, launch.at(d_weight.gradient), launch.at(d_bias.gradient),
                               launch.at(parts), rows, cols, d_weight.accumulate, d_bias.accumulate});
  }
};

class LayerNorm final : public Operation {
 public:
  Tensor y, sum, mean, rstd, x, h, weight, bias;
  Extent rows;
  std::int64_t cols = 0;
  float epsilon = 0.0f;
  DropoutPlace dropout;
  RowKeys keys = RowKeys::kText;

  const char* kind() const override { return "layer_norm"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{x, Access::kRead}, {weight, Access::kRead}, {bias, Access::kRead}};
    if (h) uses.insert(uses.end(), {{h, Access::kRead}, {sum, Access::kWrite}});
    uses.insert(uses.end(), {{y, Access::kWrite}, {mean, Access::kWrite}, {rstd, Access::kWrite}});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double elements = static_cast<double>(rows.at(counts) * cols);
    return {8.0 * elements, 4.0 * elements * (h ? 4.0 : 2.0)};
  }
  void derive(Backward& b) const override;
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(y), launch.at(sum), launch.at(mean), launch.at(rstd),
                                 launch.at(x), launch.at(h), launch.at(weight), launch.at(bias), rows, cols, epsilon,
                                 dropout, keys});
  }
};

void LayerNorm::derive(Backward& b) const {
  auto op = std::make_unique<LayerNormGradient>();
  op->d_y = b.gradient(y);
  if (!op->d_y) return;
  op->d_sum = h ? b.gradient(sum) : Tensor{};
  op->sum = sum;
  op->mean = mean;
  op->rstd = rstd;
  op->weight = weight;
  op->rows = rows;
  op->cols = cols;
  op->dropout = dropout;
  op->keys = keys;
  op->d_weight = b.slot(weight);
  op->d_bias = b.slot(bias);
  const bool both = h && b.wants(x) && b.wants(h);
  const bool shareable = both && dropout.probability == 0.0f && b.untouched(x) && b.untouched(h);
  op->d_x = b.slot(x);
  if (shareable) {
    b.share(h, op->d_x.gradient);
  } else if (h && b.wants(h)) {
    const Backward::Slot slot = b.slot(h);
    BASCULE_CHECK(slot.accumulate == Accumulate::kNo);  // what is added to a stream is read by nobody else
    op->d_h = slot.gradient;
  }
  if (op->d_x && op->d_x.accumulate == Accumulate::kNo)
    b.graph().may_share(op->d_x.gradient, op->d_sum ? op->d_sum : op->d_y);
  if (op->d_weight || op->d_bias) {
    op->parts = b.graph().activation("norm_parts", fixed_rows(row_tasks(b.graph().max_rows(y), cols)), 2 * cols);
  }
  if (!op->d_x && !op->d_h && !op->parts) return;
  // The kernel writes d_x always: where x is not trained, to a gradient that nobody reads.
  if (!op->d_x) op->d_x.gradient = b.graph().activation("d_unused", rows, cols);
  b.emit(std::move(op));
}

std::unique_ptr<LayerNorm> make(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias,
                                float epsilon) {
  auto op = std::make_unique<LayerNorm>();
  op->x = x;
  op->weight = weight;
  op->bias = bias;
  op->rows = graph[x].rows;
  op->cols = graph[x].cols;
  op->epsilon = epsilon;
  op->mean = graph.activation(name + ".mean", op->rows, 1);
  op->rstd = graph.activation(name + ".rstd", op->rows, 1);
  op->y = graph.activation(name, op->rows, op->cols);
  return op;
}

}  // namespace

Tensor layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, float epsilon) {
  auto op = make(graph, name, x, weight, bias, epsilon);
  op->sum = x;
  const Tensor y = op->y;
  graph.add(std::move(op));
  return y;
}

Normalized add_layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, Tensor bias,
                          float epsilon, DropoutPlace dropout) {
  auto op = make(graph, name, x, weight, bias, epsilon);
  op->h = h;
  op->sum = graph.activation(name + ".sum", op->rows, op->cols);
  graph.may_share(op->sum, h);
  op->dropout = dropout;
  op->keys = op->rows == text_rows()          ? RowKeys::kText
             : op->rows == rows_per_sample(1) ? RowKeys::kFirstRow
                                              : RowKeys::kImage;
  const Normalized result{op->sum, op->y};
  graph.add(std::move(op));
  return result;
}

}  // namespace bascule
