// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const KernelTable* kernels;
  float* y;
  const float* x;
  Extent rows;
  std::int64_t cols;
  Activation kind;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    a.kernels->activation_forward(
        {a.y + range.first * a.cols, a.x + range.first * a.cols, range.count * a.cols, a.kind});
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  float* d_x;
  const float *d_y, *x;
  Extent rows;
  std::int64_t cols;
  Activation kind;
  Accumulate rule;
  static std::int64_t tasks(const BackwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    const std::int64_t from = range.first * a.cols;
    a.kernels->activation_backward(
        {a.d_x + from, nullptr, a.d_y + from, a.x + from, range.count, a.cols, a.kind, adds(a.rule, replay)});
  }
};

class ActivationGradient final : public Operation {
 public:
  Tensor d_y, x;
  Backward::Slot d_x;
  Extent rows;
  std::int64_t cols = 0;
  Activation function = Activation::kGelu;

  const char* kind() const override { return "activation_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_y, Access::kRead}, {x, Access::kRead}};
    add_slots(&uses, {d_x});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double elements = static_cast<double>(rows.at(counts) * cols);
    return {30.0 * elements, 12.0 * elements};
  }
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, launch.at(d_x.gradient), launch.at(d_y), launch.at(x), rows, cols,
                                  function, d_x.accumulate});
  }
};

class ActivationOperation final : public Operation {
 public:
  Tensor y, x;
  Extent rows;
  std::int64_t cols = 0;
  Activation function = Activation::kGelu;

  const char* kind() const override { return "activation"; }
  std::vector<TensorUse> uses() const override { return {{x, Access::kRead}, {y, Access::kWrite}}; }
  Cost cost(const BatchCounts& counts) const override {
    const double elements = static_cast<double>(rows.at(counts) * cols);
    return {25.0 * elements, 8.0 * elements};
  }
  void derive(Backward& b) const override {
    const Tensor d_y = b.gradient(y);
    if (!d_y) return;
    auto op = std::make_unique<ActivationGradient>();
    op->d_y = d_y;
    op->x = x;
    op->d_x = b.slot(x);
    if (!op->d_x) return;
    if (op->d_x.accumulate == Accumulate::kNo) b.graph().may_share(op->d_x.gradient, d_y);
    op->rows = rows;
    op->cols = cols;
    op->function = function;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(y), launch.at(x), rows, cols, function});
  }
};

}  // namespace

Tensor activation(Graph& graph, const std::string& name, Tensor x, Activation kind) {
  auto op = std::make_unique<ActivationOperation>();
  op->x = x;
  op->rows = graph[x].rows;
  op->cols = graph[x].cols;
  op->function = kind;
  op->y = graph.activation(name, op->rows, op->cols);
  graph.may_share(op->y, x);
  const Tensor y = op->y;
  graph.add(std::move(op));
  return y;
}

}  // namespace bascule
