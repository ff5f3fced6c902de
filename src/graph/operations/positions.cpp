// SPDX-License-Identifier: Apache-2.0
// Resizing the image position table to a picture of another size. Small and rare (verification, other image sizes), so
// plain loops.
#include <cmath>

#include "src/base/align.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"
#include "src/graph/operations/accumulate.h"

namespace bascule {
namespace {

// The four taps of one output coordinate. Keys 1981 with a = -0.75; coordinates (i + 1/2) scale - 1/2; taps beyond the
// border repeat it.
struct Taps {
  std::int64_t index[4];
  float weight[4];
};

Taps taps_of(std::int64_t i, std::int64_t from, std::int64_t to) {
  const double a = -0.75;
  const double at = (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  const double base = std::floor(at), t = at - base;
  const auto near = [a](double x) { return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0; };
  const auto far = [a](double x) { return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a; };
  const double weights[4] = {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
  Taps taps{};
  for (int k = 0; k < 4; ++k) {
    const std::int64_t j = static_cast<std::int64_t>(base) - 1 + k;
    taps.index[k] = j < 0 ? 0 : j >= from ? from - 1 : j;
    taps.weight[k] = static_cast<float>(weights[k]);
  }
  return taps;
}

struct Grid {
  std::int64_t from, height, width, cols;
};

struct ForwardArguments {
  float* out;
  const float* table;
  Grid grid;
  static std::int64_t tasks(const ForwardArguments& a, const Replay&) { return 1 + a.grid.height; }
  static void run(const ForwardArguments& a, const Replay&, std::int64_t task, int) {
    const Grid& g = a.grid;
    if (task == 0) {
      for (std::int64_t c = 0; c < g.cols; ++c) a.out[c] = a.table[c];
      return;
    }
    const std::int64_t y = task - 1;
    const Taps rows = taps_of(y, g.from, g.height);
    for (std::int64_t x = 0; x < g.width; ++x) {
      const Taps columns = taps_of(x, g.from, g.width);
      float* out = a.out + (1 + y * g.width + x) * g.cols;
      for (std::int64_t c = 0; c < g.cols; ++c) {
        float sum = 0.0f;
        for (int i = 0; i < 4; ++i) {
          float row = 0.0f;
          for (int j = 0; j < 4; ++j)
            row += columns.weight[j] * a.table[(1 + rows.index[i] * g.from + columns.index[j]) * g.cols + c];
          sum += rows.weight[i] * row;
        }
        out[c] = sum;
      }
    }
  }
};

struct BackwardArguments {
  const KernelTable* kernels;
  float* d_table;
  const float* d_out;
  Grid grid;
  Accumulate rule;
  static std::int64_t tasks(const BackwardArguments&, const Replay&) { return 1; }
  static void run(const BackwardArguments& a, const Replay& replay, std::int64_t, int) {
    const Grid& g = a.grid;
    if (!adds(a.rule, replay)) a.kernels->fill({a.d_table, (g.from * g.from + 1) * g.cols, 0.0f});
    a.kernels->add({a.d_table, a.d_table, a.d_out, g.cols});
    for (std::int64_t y = 0; y < g.height; ++y) {
      const Taps rows = taps_of(y, g.from, g.height);
      for (std::int64_t x = 0; x < g.width; ++x) {
        const Taps columns = taps_of(x, g.from, g.width);
        const float* d_out = a.d_out + (1 + y * g.width + x) * g.cols;
        for (int tap = 0; tap < 16; ++tap) {
          const int i = tap / 4, j = tap % 4;
          float* d_row = a.d_table + (1 + rows.index[i] * g.from + columns.index[j]) * g.cols;
          const float weight = rows.weight[i] * columns.weight[j];
          for (std::int64_t c = 0; c < g.cols; ++c) d_row[c] += weight * d_out[c];
        }
      }
    }
  }
};

class ResizeGradient final : public Operation {
 public:
  Tensor d_out;
  Backward::Slot d_table;
  Grid grid{};

  const char* kind() const override { return "resize_positions_backward"; }
  std::vector<TensorUse> uses() const override {
    std::vector<TensorUse> uses = {{d_out, Access::kRead}};
    add_slots(&uses, {d_table});
    return uses;
  }
  Cost cost(const BatchCounts&) const override {
    return {32.0 * static_cast<double>(grid.height * grid.width * grid.cols), 0.0};
  }
  void launch(Launch& launch) const override {
    launch.step(
        BackwardArguments{&launch.kernels, launch.at(d_table.gradient), launch.at(d_out), grid, d_table.accumulate});
  }
};

class Resize final : public Operation {
 public:
  Tensor out, table;
  Grid grid{};

  const char* kind() const override { return "resize_positions"; }
  std::vector<TensorUse> uses() const override { return {{table, Access::kRead}, {out, Access::kWrite}}; }
  Cost cost(const BatchCounts&) const override {
    return {40.0 * static_cast<double>(grid.height * grid.width * grid.cols), 0.0};
  }
  void derive(Backward& b) const override {
    const Tensor d_out = b.gradient(out);
    if (!d_out || !b.wants(table)) return;
    auto op = std::make_unique<ResizeGradient>();
    op->d_out = d_out;
    op->d_table = b.slot(table);
    op->grid = grid;
    b.emit(std::move(op));
  }
  void launch(Launch& launch) const override { launch.step(ForwardArguments{launch.at(out), launch.at(table), grid}); }
};

}  // namespace

Tensor resize_positions(Graph& graph, const std::string& name, Tensor table, std::int64_t from_side,
                        std::int64_t height, std::int64_t width) {
  auto op = std::make_unique<Resize>();
  op->table = table;
  op->grid = {from_side, height, width, graph[table].cols};
  op->out = graph.activation(name, fixed_rows(height * width + 1), op->grid.cols);
  const Tensor out = op->out;
  graph.add(std::move(op));
  return out;
}

}  // namespace bascule
