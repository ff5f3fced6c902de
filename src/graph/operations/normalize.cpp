// SPDX-License-Identifier: Apache-2.0
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const KernelTable* kernels;
  float *y, *norm;
  const float* x;
  Extent rows;
  std::int64_t cols;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    const std::int64_t from = range.first * a.cols;
    a.kernels->normalize_forward({a.y + from, a.norm + range.first, a.x + from, range.count, a.cols});
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  float* d_x;
  const float *d_y, *y, *norm;
  Extent rows;
  std::int64_t cols;
  Accumulate rule;
  static std::int64_t tasks(const BackwardArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    const std::int64_t from = range.first * a.cols;
    a.kernels->normalize_backward(
        {a.d_x + from, a.d_y + from, a.y + from, a.norm + range.first, range.count, a.cols, adds(a.rule, replay)});
  }
};

class NormalizeGradient final : public Operation {
 public:
  Tensor d_y, y, norm;
  Backward::Slot d_x;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "normalize_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_y, Access::kRead}, {y, Access::kRead}, {norm, Access::kRead}};
    add_slots(&uses, {d_x});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {5.0 * values, 12.0 * values};
  }
  void launch(Launch& launch) const override {
    launch.step(BackwardArguments{&launch.kernels, launch.at(d_x.gradient), launch.at(d_y), launch.at(y),
                                  launch.at(norm), rows, cols, d_x.accumulate});
  }
};

class Normalize final : public Operation {
 public:
  Tensor y, norm, x;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "normalize"; }
  std::vector<TensorUse> uses() const override {
    return {{x, Access::kRead}, {y, Access::kWrite}, {norm, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {3.0 * values, 8.0 * values};
  }
  void derive(Backward& b) const override {
    const Tensor d_y = b.gradient(y);
    if (!d_y || !b.wants(x)) return;
    auto op = std::make_unique<NormalizeGradient>();
    op->d_y = d_y;
    op->y = y;
    op->norm = norm;
    op->d_x = b.slot(x);
    op->rows = rows;
    op->cols = cols;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(ForwardArguments{&launch.kernels, launch.at(y), launch.at(norm), launch.at(x), rows, cols});
  }
};

}  // namespace

Tensor normalize(Graph& graph, const std::string& name, Tensor x) {
  auto op = std::make_unique<Normalize>();
  op->x = x;
  op->rows = graph[x].rows;
  op->cols = graph[x].cols;
  op->norm = graph.activation(name + ".norm", op->rows, 1);
  op->y = graph.activation(name, op->rows, op->cols);
  const Tensor y = op->y;
  graph.add(std::move(op));
  return y;
}

}  // namespace bascule
