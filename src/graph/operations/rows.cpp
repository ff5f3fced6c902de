// SPDX-License-Identifier: Apache-2.0
// Taking rows out of a tensor, and putting columns side by side.
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

enum class Selection { kFirstText, kFirstImage, kSelected };

// The rows' numbers in the batch; null where they are evenly spaced.
const std::int32_t* index_of(Selection selection, const BatchView& batch) {
  return selection == Selection::kFirstText  ? batch.text_offsets
         : selection == Selection::kSelected ? batch.selected_rows
                                             : nullptr;
}

struct GatherArguments {
  const KernelTable* kernels;
  float* out;
  const float* x;
  Selection selection;
  Extent rows;
  std::int64_t cols, spacing;
  static std::int64_t tasks(const GatherArguments&, const Replay&) { return 1; }
  static void run(const GatherArguments& a, const Replay& replay, std::int64_t, int) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    const std::int32_t* index = index_of(a.selection, replay.batch);
    if (index != nullptr) {
      a.kernels->gather_rows({a.out, a.x, index, rows, a.cols});
    } else {
      a.kernels->copy_rows({a.out, a.x, rows, a.cols, a.cols, a.spacing * a.cols, false});
    }
  }
};

struct ClearArguments {
  const KernelTable* kernels;
  float* x;
  Extent rows;
  std::int64_t cols;
  static std::int64_t tasks(const ClearArguments& a, const Replay& replay) {
    return row_tasks(a.rows.at(replay.batch.counts), a.cols);
  }
  static void run(const ClearArguments& a, const Replay& replay, std::int64_t task, int) {
    const RowRange range = rows_of_task(task, a.rows.at(replay.batch.counts), a.cols);
    a.kernels->fill({a.x + range.first * a.cols, range.count * a.cols, 0.0f});
  }
};

struct ScatterArguments {
  const KernelTable* kernels;
  float* d_x;
  const float* d_out;
  Selection selection;
  Extent rows;
  std::int64_t cols, spacing;
  static std::int64_t tasks(const ScatterArguments&, const Replay&) { return 1; }
  static void run(const ScatterArguments& a, const Replay& replay, std::int64_t, int) {
    const std::int64_t rows = a.rows.at(replay.batch.counts);
    const std::int32_t* index = index_of(a.selection, replay.batch);
    if (index != nullptr) {
      a.kernels->scatter_rows({a.d_x, a.d_out, index, rows, a.cols, true});
    } else {
      a.kernels->copy_rows({a.d_x, a.d_out, rows, a.cols, a.spacing * a.cols, a.cols, true});
    }
  }
};

class ScatterGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot d_x;
  Selection selection = Selection::kSelected;
  Extent rows, x_rows;
  std::int64_t cols = 0, spacing = 0;

  const char* kind() const override { return "scatter_rows"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {d_x});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    const double values = static_cast<double>(rows.at(counts) * cols);
    return {values,
            12.0 * values +
                (d_x.accumulate == Accumulate::kNo ? 4.0 * static_cast<double>(x_rows.at(counts) * cols) : 0.0)};
  }
  void launch(Launch& launch) const override {
    if (d_x.accumulate == Accumulate::kNo)
      launch.step(ClearArguments{&launch.kernels, launch.at(d_x.gradient), x_rows, cols});
    launch.step(
        ScatterArguments{&launch.kernels, launch.at(d_x.gradient), launch.at(d_out), selection, rows, cols, spacing});
  }
};

class GatherOperation final : public Operation {
 public:
  Tensor out, x;
  Selection selection = Selection::kSelected;
  Extent rows, x_rows;
  std::int64_t cols = 0, spacing = 0;

  const char* kind() const override { return "gather_rows"; }
  std::vector<TensorUse> uses() const override { return {{x, Access::kRead}, {out, Access::kWrite}}; }
  Cost cost(const BatchCounts& counts) const override {
    return {0.0, 8.0 * static_cast<double>(rows.at(counts) * cols)};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(x)) return;
    auto op = std::make_unique<ScatterGradient>();
    op->d_out = d_out;
    op->d_x = b.slot(x);
    op->selection = selection;
    op->rows = rows;
    op->x_rows = x_rows;
    op->cols = cols;
    op->spacing = spacing;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    launch.step(GatherArguments{&launch.kernels, launch.at(out), launch.at(x), selection, rows, cols, spacing});
  }
};

Tensor gather(Graph& graph, const std::string& name, Tensor x, Selection selection, Extent rows, std::int64_t spacing) {
  auto op = std::make_unique<GatherOperation>();
  op->x = x;
  op->selection = selection;
  op->rows = rows;
  op->x_rows = graph[x].rows;
  op->cols = graph[x].cols;
  op->spacing = spacing;
  op->out = graph.activation(name, rows, op->cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

// Copies a (rows, cols) block between tensors of other widths; forward both halves, backward each half back.
struct CopyArguments {
  const KernelTable* kernels;
  float* out;
  const float* x;
  Extent rows;
  std::int64_t cols, out_stride, x_stride;
  Accumulate rule;
  static std::int64_t tasks(const CopyArguments&, const Replay&) { return 1; }
  static void run(const CopyArguments& a, const Replay& replay, std::int64_t, int) {
    a.kernels->copy_rows(
        {a.out, a.x, a.rows.at(replay.batch.counts), a.cols, a.out_stride, a.x_stride, adds(a.rule, replay)});
  }
};

class ConcatenateGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot d_half[2];
  Extent rows;
  std::int64_t cols[2] = {0, 0};

  const char* kind() const override { return "concatenate_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {d_half[0], d_half[1]});
    return uses;
  }
  Cost cost(const BatchCounts& counts) const override {
    return {0.0, 8.0 * static_cast<double>(rows.at(counts) * (cols[0] + cols[1]))};
  }
  void launch(Launch& launch) const override {
    for (int i = 0; i < 2; ++i) {
      if (!d_half[i]) continue;
      launch.step(CopyArguments{&launch.kernels, launch.at(d_half[i].gradient),
                                launch.at(d_out) + (i == 0 ? 0 : cols[0]), rows, cols[i], cols[i], cols[0] + cols[1],
                                d_half[i].accumulate});
    }
  }
};

class Concatenate final : public Operation {
 public:
  Tensor out, half[2];
  Extent rows;
  std::int64_t cols[2] = {0, 0};

  const char* kind() const override { return "concatenate"; }
  std::vector<TensorUse> uses() const override {
    return {{half[0], Access::kRead}, {half[1], Access::kRead}, {out, Access::kWrite}};
  }
  Cost cost(const BatchCounts& counts) const override {
    return {0.0, 8.0 * static_cast<double>(rows.at(counts) * (cols[0] + cols[1]))};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(out)) return;
    auto op = std::make_unique<ConcatenateGradient>();
    op->d_out = d_out;
    op->rows = rows;
    for (int i = 0; i < 2; ++i) {
      op->d_half[i] = b.slot(half[i]);
      op->cols[i] = cols[i];
    }
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override {
    for (int i = 0; i < 2; ++i) {
      launch.step(CopyArguments{&launch.kernels, launch.at(out) + (i == 0 ? 0 : cols[0]), launch.at(half[i]), rows,
                                cols[i], cols[0] + cols[1], cols[i], Accumulate::kNo});
    }
  }
};

}  // namespace

Tensor first_rows(Graph& graph, const std::string& name, Tensor x, SampleRows rows) {
  return gather(graph, name, x, rows.text ? Selection::kFirstText : Selection::kFirstImage, rows_per_sample(1),
                rows.per_sample);
}

Tensor selected_rows_of(Graph& graph, const std::string& name, Tensor x) {
  return gather(graph, name, x, Selection::kSelected, selected_rows(), 0);
}

Tensor concatenate(Graph& graph, const std::string& name, Tensor a, Tensor b) {
  auto op = std::make_unique<Concatenate>();
  op->half[0] = a;
  op->half[1] = b;
  op->rows = graph[a].rows;
  op->cols[0] = graph[a].cols;
  op->cols[1] = graph[b].cols;
  op->out = graph.activation(name, op->rows, op->cols[0] + op->cols[1]);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

}  // namespace bascule
