// SPDX-License-Identifier: Apache-2.0
#include "src/base/align.h"
#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct ForwardArguments {
  const Gemm* gemm;
  float* y;
  const float *x, *weight, *bias;
  Extent rows;
  static std::int64_t tasks(const ForwardArguments& a, const Replay& replay) {
    return a.gemm->tasks(a.rows.at(replay.batch.counts));
  }
  static void run(const ForwardArguments& a, const Replay& replay, std::int64_t task, int thread) {
    a.gemm->run(task, thread, {a.y, a.x, a.weight, a.bias, a.rows.at(replay.batch.counts), false});
  }
};

// Before the products: rows past the last are cleared (they are contracted over), and the bias gradient is summed by
// row block.
struct PrepareArguments {
  const KernelTable* kernels;
  float *d_y, *x, *parts;
  Extent rows;
  std::int64_t out, in;
  static std::int64_t tasks(const PrepareArguments& a, const Replay& replay) {
    return 1 + (a.parts == nullptr ? 0 : row_tasks(a.rows.at(replay.batch.counts), a.out));
  }
  static void run(const PrepareArguments& a, const Replay& replay, std::int64_t task, int) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    if (task == 0) {
      const std::int64_t tail = align_up<std::int64_t>(rows, 16) - rows;
      a.kernels->fill({a.d_y + rows * a.out, tail * a.out, 0.0f});
      if (a.x != nullptr) a.kernels->fill({a.x + rows * a.in, tail * a.in, 0.0f});
      return;
    }
    const RowRange range = rows_of_task(task - 1, rows, a.out);
    a.kernels->column_sums({a.parts + (task - 1) * a.out, a.d_y + range.first * a.out, range.count, a.out, a.out});
  }
};

// The input gradient, the weight gradient and the end of the bias gradient are one step: their tasks fill the threads
// together.
struct GradientArguments {
  const KernelTable* kernels;
  const Gemm *input_gemm, *weight_gemm;
  float *d_x, *d_weight, *d_bias;
  const float *d_y, *x, *weight, *parts;
  Extent rows;
  std::int64_t out;
  Accumulate input_rule, weight_rule, bias_rule;

  static std::int64_t tasks(const GradientArguments& a, const Replay& replay) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    return weight_tasks(a, rows) + input_tasks(a, rows) +
           (a.d_bias == nullptr ? 0 : divide_up<std::int64_t>(a.out, kColumnsPerTask));
  }
  static void run(const GradientArguments& a, const Replay& replay, std::int64_t task, int thread) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    if (task < weight_tasks(a, rows)) {
      a.weight_gemm->run(task, thread, {a.d_weight, a.d_y, a.x, nullptr, rows, adds(a.weight_rule, replay)});
      return;
    }
    task -= weight_tasks(a, rows);
    if (task < input_tasks(a, rows)) {
      a.input_gemm->run(task, thread, {a.d_x, a.d_y, a.weight, nullptr, rows, adds(a.input_rule, replay)});
      return;
    }
    task -= input_tasks(a, rows);
    const std::int64_t first = task * kColumnsPerTask;
    const std::int64_t count = a.out - first < kColumnsPerTask ? a.out - first : kColumnsPerTask;
    a.kernels->add_parts(
        {a.d_bias + first, a.parts + first, row_tasks(rows, a.out), count, a.out, adds(a.bias_rule, replay)});
  }
  static std::int64_t weight_tasks(const GradientArguments& a, std::int64_t rows) {
    return a.weight_gemm == nullptr ? 0 : a.weight_gemm->tasks(rows);
  }
  static std::int64_t input_tasks(const GradientArguments& a, std::int64_t rows) {
    return a.input_gemm == nullptr ? 0 : a.input_gemm->tasks(rows);
  }
};

class LinearBackward final : public Operation {
 public:
  Tensor d_y, x, weight, parts;
  Backward::Slot d_x, d_weight, d_bias;
  Extent rows;
  std::int64_t out = 0, in = 0;

  const char* kind() const override { return "linear_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_y, Access::kUpdate}};  // its rows past the last are cleared
    if (d_x) uses.push_back({weight, Access::kRead});
    if (d_weight) uses.push_back({x, Access::kUpdate});
    add_slots(&uses, {d_x, d_weight, d_bias});
    if (parts) uses.push_back({parts, Access::kWrite});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double r = static_cast<double>(rows.at(counts)), o = static_cast<double>(out), i = static_cast<double>(in);
    const double products = (d_x ? 1.0 : 0.0) + (d_weight ? 1.0 : 0.0);
    return {2.0 * r * o * i * products, 4.0 * products * (r * o + r * i + o * i)};
  }
  void launch(Launch& launch) const override {
    const std::int64_t max_rows = rows.at(launch.bounds());
    PrepareArguments prepare{
        &launch.kernels, launch.at(d_y), d_weight ? launch.at(x) : nullptr, launch.at(parts), rows, out, in};
    launch.step(prepare);
    GradientArguments a{};
    a.kernels = &launch.kernels;
    if (d_x) {
      const bool first = d_x.accumulate == Accumulate::kNo;
      a.input_gemm = launch.product({GemmKind::kInputGradient, max_rows, in, out, out, in, in, false, first, !first});
    }
    if (d_weight) {
      const bool always = d_weight.accumulate == Accumulate::kYes;
      a.weight_gemm = launch.product({GemmKind::kWeightGradient, max_rows, out, in, out, in, in, false, !always, true});
    }
    a.d_x = launch.at(d_x.gradient);
    a.d_weight = launch.at(d_weight.gradient);
    a.d_bias = launch.at(d_bias.gradient);
    a.d_y = launch.at(d_y);
    a.x = launch.at(x);
    a.weight = launch.at(weight);
    a.parts = launch.at(parts);
    a.rows = rows;
    a.out = out;
    a.input_rule = d_x.accumulate;
    a.weight_rule = d_weight.accumulate;
    a.bias_rule = d_bias.accumulate;
    launch.step(a);
  }
};

class Linear final : public Operation {
 public:
  Tensor y, x, weight, bias;
  Extent rows;
  std::int64_t out = 0, in = 0;

  const char* kind() const override { return "linear"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{x, Access::kRead}, {weight, Access::kRead}};
    if (bias) uses.push_back({bias, Access::kRead});
    uses.push_back({y, Access::kWrite});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double r = static_cast<double>(rows.at(counts)), o = static_cast<double>(out), i = static_cast<double>(in);
    return {2.0 * r * o * i, 4.0 * (r * o + r * i + o * i)};
  }
  void derive(Backward& b) const override {
    const Tensor d_y = b.gradient(y);
    if (!d_y) return;
    auto op = std::make_unique<LinearBackward>();
    op->d_y = d_y;
    op->x = x;
    op->weight = weight;
    op->d_weight = b.slot(weight);
    op->d_bias = b.slot(bias);
    op->d_x = b.slot(x);
    op->rows = rows;
    op->out = out;
    op->in = in;
    if (!op->d_x && !op->d_weight && !op->d_bias) return;
    if (op->d_bias) {
      op->parts = b.graph().activation("bias_parts", fixed_rows(row_tasks(b.graph().max_rows(y), out)), out);
    }
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    const Gemm* gemm = launch.product(
        {GemmKind::kForward, rows.at(launch.bounds()), out, in, in, in, out, static_cast<bool>(bias), true, false});
    launch.step(ForwardArguments{gemm, launch.at(y), launch.at(x), launch.at(weight), launch.at(bias), rows});
  }
};

}  // namespace

Tensor linear(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias) {
  auto op = std::make_unique<Linear>();
  op->rows = graph[x].rows;
  op->in = graph[x].cols;
  op->out = graph[weight].rows.fixed;
  BASCULE_CHECK(graph[weight].cols == op->in && (!bias || graph[bias].cols == op->out));
  op->x = x;
  op->weight = weight;
  op->bias = bias;
  op->y = graph.activation(name, op->rows, op->out);
  const Tensor y = op->y;
  graph.add(std::move(op));
  return y;
}

}  // namespace bascule
