// SPDX-License-Identifier: Apache-2.0
// Cross entropy against the batch's labels, the mean over the rows that count; and the cotangent loss of verification.
#include "src/base/align.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const KernelTable* kernels;
  float *losses, *tops, *others;
  std::int32_t* hits;
  const float* logits;
  Extent rows;
  std::int64_t cols;
  float smoothing;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    a.kernels->cross_entropy_forward({a.losses + range.first, a.tops + range.first, a.others + range.first,
                                      a.hits + range.first, a.logits + range.first * a.cols,
                                      replay.batch.labels + range.first, range.count, a.cols, a.smoothing});
  }
};

std::int64_t counted_rows(const std::int32_t* labels, std::int64_t rows) {
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < rows; ++r) counted += labels[r] >= 0 ? 1 : 0;
  return counted;
}

struct MeanArguments {
  float* loss;
  const float* losses;
  Extent rows;
  static std::int64_t tasks(const MeanArguments&, const Replay&) { return 1; }
  static void run(const MeanArguments& a, const Replay& replay, std::int64_t, int) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    double sum = 0.0;
    for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(a.losses[r]);
    const std::int64_t counted = counted_rows(replay.batch.labels, rows);
    *a.loss = counted > 0 ? static_cast<float>(sum / static_cast<double>(counted)) : 0.0f;
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  float* d_logits;
  const float *logits, *tops, *others;
  Extent rows;
  std::int64_t cols;
  float smoothing;
  static std::int64_t tasks(const BackwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    const RowRange range = rows_of_task(task, rows, a.cols);
    const std::int64_t counted = counted_rows(replay.batch.labels, rows);
    const double scale = counted > 0 ? static_cast<double>(replay.loss_weight) / static_cast<double>(counted) : 0.0;
    const std::int64_t from = range.first * a.cols;
    a.kernels->cross_entropy_backward({a.d_logits + from, a.logits + from, a.tops + range.first, a.others + range.first,
                                       replay.batch.labels + range.first, range.count, a.cols,
                                       static_cast<float>(scale), a.smoothing});
  }
};

class CrossEntropyGradient final : public Operation {
 public:
  Tensor logits, tops, others;
  Backward::Slot d_logits;
  Extent rows;
  std::int64_t cols = 0;
  float smoothing = 0.0f;

  const char* kind() const override { return "cross_entropy_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{logits, Access::kRead}, {tops, Access::kRead}, {others, Access::kRead}};
    add_slots(&uses, {d_logits});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {12.0 * values, 8.0 * values};
  }
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, launch.at(d_logits.gradient), launch.at(logits), launch.at(tops),
                                  launch.at(others), rows, cols, smoothing});
  }
};

class CrossEntropy final : public Operation {
 public:
  Tensor logits, losses, tops, others, hits, loss;
  Extent rows;
  std::int64_t cols = 0;
  float smoothing = 0.0f;

  const char* kind() const override { return "cross_entropy"; }
  std::vector<TensorUse> uses() const override {
    return {{logits, Access::kRead},  {losses, Access::kWrite}, {tops, Access::kWrite},
            {others, Access::kWrite}, {hits, Access::kWrite},   {loss, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {15.0 * values, 4.0 * values};
  }
  void derive(Backward& b) const override {
    auto op = std::make_unique<CrossEntropyGradient>();
    op->logits = logits;
    op->tops = tops;
    op->others = others;
    op->d_logits = b.slot(logits);
    if (!op->d_logits) return;
    b.graph().may_share(op->d_logits.gradient, logits);
    op->rows = rows;
    op->cols = cols;
    op->smoothing = smoothing;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(losses), launch.at(tops), launch.at(others),
                                 launch.at<std::int32_t>(hits), launch.at(logits), rows, cols, smoothing});
    launch.step(MeanArguments{launch.at(loss), launch.at(losses), rows});
  }
};

struct CopyArguments {
  const KernelTable* kernels;
  float* out;
  const float* x;
  Extent rows;
  std::int64_t cols;
  static std::int64_t tasks(const CopyArguments&, const Replay&) { return 1; }
  static void run(const CopyArguments& a, const Replay& replay, std::int64_t, int) {
    a.kernels->copy_rows({a.out, a.x, a.rows.at(replay.batch.counts), a.cols, a.cols, a.cols, false});
  }
};

class CotangentGradient final : public Operation {
 public:
  Backward::Slot d_output;
  Tensor cotangent;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "cotangent_loss_backward"; }
  std::vector<TensorUse> uses() const override {
    return {{cotangent, Access::kRead}, {d_output.gradient, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    return {0.0, 8.0 * static_cast<double>(rows.at(counts) * cols)};
  }
  void launch(Launch& launch) const override {
    launch.step(CopyArguments{&launch.kernels, launch.at(d_output.gradient), launch.at(cotangent), rows, cols});
  }
};

struct DotArguments {
  float* loss;
  const float *output, *cotangent;
  Extent rows;
  std::int64_t cols;
  bool first;
  static std::int64_t tasks(const DotArguments&, const Replay&) { return 1; }
  static void run(const DotArguments& a, const Replay& replay, std::int64_t, int) {
    const std::int64_t count = a.rows.at(replay.batch.counts) * a.cols;
    double sum = a.first ? 0.0 : static_cast<double>(*a.loss);
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(a.output[i]) * static_cast<double>(a.cotangent[i]);
    *a.loss = static_cast<float>(sum);
  }
};

class CotangentLoss final : public Operation {
 public:
  std::vector<std::pair<Tensor, Tensor>> pairs;
  std::vector<Extent> rows;
  std::vector<std::int64_t> cols;
  Tensor loss;

  const char* kind() const override { return "cotangent_loss"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses;
    for (const auto& [output, cotangent] : pairs)
      uses.insert(uses.end(), {{output, Access::kRead}, {cotangent, Access::kRead}});
    uses.push_back({loss, Access::kWrite});
    return uses;
  }
  Cost cost(const BatchCounts&) const override { return {}; }
  void derive(Backward& b) const override {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      auto op = std::make_unique<CotangentGradient>();
      op->d_output = b.slot(pairs[i].first);
      if (!op->d_output) continue;
      op->cotangent = pairs[i].second;
      op->rows = rows[i];
      op->cols = cols[i];
      b.emit(std::move(op));
    }
  }
  void launch(Launch& launch) const override {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      launch.step(DotArguments{launch.at(loss), launch.at(pairs[i].first), launch.at(pairs[i].second), rows[i], cols[i],
                               i == 0});
    }
  }
};

}  // namespace

ClassLoss cross_entropy_loss(Graph& graph, Tensor logits, float smoothing) {
  auto op = std::make_unique<CrossEntropy>();
  op->logits = logits;
  op->rows = graph[logits].rows;
  op->cols = graph[logits].cols;
  op->smoothing = smoothing;
  op->losses = graph.activation("losses", op->rows, 1);
  op->tops = graph.activation("tops", op->rows, 1);
  op->others = graph.activation("others", op->rows, 1);
  op->hits = graph.activation("hits", op->rows, 1, DType::kInt32);
  op->loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(op->loss);
  graph.keep(op->hits);
  const ClassLoss result{op->loss, op->hits, op->tops, op->others};
  graph.add(std::move(op));
  return result;
}

Tensor cotangent_loss(Graph& graph, const std::vector<std::pair<Tensor, Tensor>>& outputs_and_cotangents) {
  auto op = std::make_unique<CotangentLoss>();
  op->pairs = outputs_and_cotangents;
  for (const auto& [output, cotangent] : outputs_and_cotangents) {
    op->rows.push_back(graph[output].rows);
    op->cols.push_back(graph[output].cols);
  }
  op->loss = graph.activation("loss", fixed_rows(1), 1);
  graph.keep(op->loss);
  const Tensor loss = op->loss;
  graph.add(std::move(op));
  return loss;
}

}  // namespace bascule
