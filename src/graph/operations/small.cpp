// SPDX-License-Identifier: Apache-2.0
// Operations on one row or one number beside a stream: bias plus token type, and link towers with a trained factor.
#include "src/base/align.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

struct AddRowArguments {
  const KernelTable* kernels;
  float* out;
  const float *row, *table_row;
  std::int64_t cols;
  static std::int64_t tasks(const AddRowArguments&, const Replay&) { return 1; }
  static void run(const AddRowArguments& a, const Replay&, std::int64_t, int) {
    a.kernels->add({a.out, a.row, a.table_row, a.cols});
  }
};

// The first write of a table's gradient clears the other rows.
struct AddRowBackwardArguments {
  const KernelTable* kernels;
  float *d_row, *d_table;
  const float* d_out;
  std::int64_t cols, table_rows, index;
  Accumulate row_rule, table_rule;
  static std::int64_t tasks(const AddRowBackwardArguments&, const Replay&) { return 1; }
  static void run(const AddRowBackwardArguments& a, const Replay& replay, std::int64_t, int) {
    if (a.d_row != nullptr)
      a.kernels->copy_rows({a.d_row, a.d_out, 1, a.cols, a.cols, a.cols, adds(a.row_rule, replay)});
    if (a.d_table == nullptr) return;
    if (!adds(a.table_rule, replay)) a.kernels->fill({a.d_table, a.table_rows * a.cols, 0.0f});
    a.kernels->copy_rows({a.d_table + a.index * a.cols, a.d_out, 1, a.cols, a.cols, a.cols, true});
  }
};

class AddRowGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot d_row, d_table;
  std::int64_t cols = 0, table_rows = 0, index = 0;

  const char* kind() const override { return "add_table_row_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {d_row, d_table});
    return uses;
  }
  Cost cost(const BatchCounts&) const override {
    return {2.0 * static_cast<double>(cols), 20.0 * static_cast<double>(cols)};
  }
  void launch(Launch& launch) const override {
    launch.step(AddRowBackwardArguments{&launch.kernels, launch.at(d_row.gradient), launch.at(d_table.gradient),
                                        launch.at(d_out), cols, table_rows, index, d_row.accumulate,
                                        d_table.accumulate});
  }
};

class AddRow final : public Operation {
 public:
  Tensor out, row, table;
  std::int64_t cols = 0, table_rows = 0, index = 0;

  const char* kind() const override { return "add_table_row"; }
  std::vector<TensorUse> uses() const override {
    return {{row, Access::kRead}, {table, Access::kRead}, {out, Access::kWrite}};
  }
  Cost cost(const BatchCounts&) const override { return {static_cast<double>(cols), 12.0 * static_cast<double>(cols)}; }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(out)) return;
    auto op = std::make_unique<AddRowGradient>();
    op->d_out = d_out;
    op->d_row = b.slot(row);
    op->d_table = b.slot(table);
    op->cols = cols;
    op->table_rows = table_rows;
    op->index = index;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(
        AddRowArguments{&launch.kernels, launch.at(out), launch.at(row), launch.at(table) + index * cols, cols});
  }
};

struct Weights {
  float a, c;
};

Weights weights_of(Blend kind, float factor) {
  return kind == Blend::kScaled ? Weights{factor, 1.0f} : Weights{1.0f - factor, factor};
}

struct BlendArguments {
  const KernelTable* kernels;
  float* out;
  const float *a, *c, *factor;
  Blend kind;
  Extent rows;
  std::int64_t cols;
  static std::int64_t tasks(const BlendArguments& b, const Replay& replay) {
    return row_tasks(b.rows.at(replay.batch.counts), b.cols);
  }
  static void run(const BlendArguments& b, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, b.rows.at(replay.batch.counts), b.cols);
    const std::int64_t from = range.first * b.cols;
    const Weights weights = weights_of(b.kind, *b.factor);
    b.kernels->blend_forward({b.out + from, b.a + from, b.c + from, range.count * b.cols, weights.a, weights.c});
  }
};

struct BlendBackwardArguments {
  const KernelTable* kernels;
  float *d_a, *d_c, *parts;  // parts: (tasks, 2)
  const float *d_out, *a, *c, *factor;
  Blend kind;
  Extent rows;
  std::int64_t cols;
  Accumulate a_rule, c_rule;
  static std::int64_t tasks(const BlendBackwardArguments& b, const Replay& replay) {
    return row_tasks(b.rows.at(replay.batch.counts), b.cols);
  }
  static void run(const BlendBackwardArguments& b, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, b.rows.at(replay.batch.counts), b.cols);
    const std::int64_t from = range.first * b.cols;
    const Weights weights = weights_of(b.kind, *b.factor);
    b.kernels->blend_backward({b.d_a == nullptr ? nullptr : b.d_a + from, b.d_c == nullptr ? nullptr : b.d_c + from,
                               b.parts + 2 * task, b.parts + 2 * task + 1, b.d_out + from, b.a + from, b.c + from,
                               range.count * b.cols, weights.a, weights.c, adds(b.a_rule, replay),
                               adds(b.c_rule, replay)});
  }
};

// kScaled: d factor = sum d_out a; kInterpolate: sum d_out c - sum d_out a. Summed in float64 in the order of the
// parts.
struct FactorArguments {
  float* d_factor;
  const float* parts;
  Blend kind;
  Extent rows;
  std::int64_t cols;
  Accumulate rule;
  static std::int64_t tasks(const FactorArguments&, const Replay&) { return 1; }
  static void run(const FactorArguments& f, const Replay& replay, std::int64_t, int) {
    double sum = 0.0;
    const std::int64_t parts = row_tasks(f.rows.at(replay.batch.counts), f.cols);
    for (std::int64_t p = 0; p < parts; ++p) {
      const double a = static_cast<double>(f.parts[2 * p]), c = static_cast<double>(f.parts[2 * p + 1]);
      sum += f.kind == Blend::kScaled ? a : c - a;
    }
    const float before = adds(f.rule, replay) ? *f.d_factor : 0.0f;
    *f.d_factor = before + static_cast<float>(sum);
  }
};

class BlendGradient final : public Operation {
 public:
  Tensor d_out, a, c, factor, parts;
  Backward::Slot d_a, d_c, d_factor;
  Blend blend_kind = Blend::kScaled;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "blend_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead},
                                   {a, Access::kRead},
                                   {c, Access::kRead},
                                   {factor, Access::kRead},
                                   {parts, Access::kWrite}};
    add_slots(&uses, {d_a, d_c, d_factor});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {6.0 * values, 20.0 * values};
  }
  void launch(Launch& launch) const override {
    launch.step(BlendBackwardArguments{&launch.kernels, launch.at(d_a.gradient), launch.at(d_c.gradient),
                                       launch.at(parts), launch.at(d_out), launch.at(a), launch.at(c),
                                       launch.at(factor), blend_kind, rows, cols, d_a.accumulate, d_c.accumulate});
    if (d_factor)
      launch.step(
          FactorArguments{launch.at(d_factor.gradient), launch.at(parts), blend_kind, rows, cols, d_factor.accumulate});
  }
};

class BlendOperation final : public Operation {
 public:
  Tensor out, a, c, factor;
  Blend blend_kind = Blend::kScaled;
  Extent rows;
  std::int64_t cols = 0;

  const char* kind() const override { return "blend"; }
  std::vector<TensorUse> uses() const override {
    return {{a, Access::kRead}, {c, Access::kRead}, {factor, Access::kRead}, {out, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {3.0 * values, 12.0 * values};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(out)) return;
    auto op = std::make_unique<BlendGradient>();
    op->d_out = d_out;
    op->a = a;
    op->c = c;
    op->factor = factor;
    op->d_a = b.slot(a);
    op->d_c = b.slot(c);
    op->d_factor = b.slot(factor);
    op->blend_kind = blend_kind;
    op->rows = rows;
    op->cols = cols;
    op->parts = b.graph().activation("blend_parts", fixed_rows(row_tasks(b.graph().max_rows(out), cols)), 2);
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(BlendArguments{&launch.kernels, launch.at(out), launch.at(a), launch.at(c), launch.at(factor),
                               blend_kind, rows, cols});
  }
};

}  // namespace

Tensor add_table_row(Graph& graph, const std::string& name, Tensor row, Tensor table, std::int64_t index) {
  auto op = std::make_unique<AddRow>();
  op->row = row;
  op->table = table;
  op->cols = graph[row].cols;
  op->table_rows = graph[table].rows.fixed;
  op->index = index;
  op->out = graph.activation(name, fixed_rows(1), op->cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

Tensor blend(Graph& graph, const std::string& name, Blend kind, Tensor a, Tensor c, Tensor factor) {
  auto op = std::make_unique<BlendOperation>();
  op->a = a;
  op->c = c;
  op->factor = factor;
  op->blend_kind = kind;
  op->rows = graph[a].rows;
  op->cols = graph[a].cols;
  op->out = graph.activation(name, op->rows, op->cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

}  // namespace bascule
