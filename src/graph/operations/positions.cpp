// SPDX-License-Identifier: Apache-2.0
// Resizing the image position table to a picture of another size. Small and rare (verification, other image sizes, once
// at load), so plain loops.
#include <cmath>

#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace positions_operation {

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
  std::int64_t class_rows;  // before the grid: 0 or 1
};

// The first task is the class row where there is one, each other one a row of the grid.
struct ForwardBlock {
  float* out;
  const float* table;
  Grid grid;
};

void run_forward(const ForwardBlock& b, Range range, int) {
  const Grid& g = b.grid;
  if (range.task < g.class_rows) {
    for (std::int64_t c = 0; c < g.cols; ++c) b.out[c] = b.table[c];
    return;
  }
  const std::int64_t y = range.task - g.class_rows;
  const Taps rows = taps_of(y, g.from, g.height);
  for (std::int64_t x = 0; x < g.width; ++x) {
    const Taps columns = taps_of(x, g.from, g.width);
    float* out = b.out + (g.class_rows + y * g.width + x) * g.cols;
    for (std::int64_t c = 0; c < g.cols; ++c) {
      float sum = 0.0f;
      for (int i = 0; i < 4; ++i) {
        float row = 0.0f;
        for (int j = 0; j < 4; ++j)
          row += columns.weight[j] * b.table[(g.class_rows + rows.index[i] * g.from + columns.index[j]) * g.cols + c];
        sum += rows.weight[i] * row;
      }
      out[c] = sum;
    }
  }
}

namespace gradient {
enum : std::size_t { kDOut, kDTable };

struct Block {
  void (*fill)(const Fill&);
  void (*add)(const Add&);
  float* d_table;
  const float* d_out;
  Grid grid;
  bool adds;
};

void run(const Block& b, Range, int) {
  const Grid& g = b.grid;
  if (!b.adds) b.fill({b.d_table, (g.from * g.from + g.class_rows) * g.cols, 0.0f});
  b.add({b.d_table, b.d_table, b.d_out, g.class_rows * g.cols});
  for (std::int64_t y = 0; y < g.height; ++y) {
    const Taps rows = taps_of(y, g.from, g.height);
    for (std::int64_t x = 0; x < g.width; ++x) {
      const Taps columns = taps_of(x, g.from, g.width);
      const float* d_out = b.d_out + (g.class_rows + y * g.width + x) * g.cols;
      for (int tap = 0; tap < 16; ++tap) {
        const int i = tap / 4, j = tap % 4;
        float* d_row = b.d_table + (g.class_rows + rows.index[i] * g.from + columns.index[j]) * g.cols;
        const float weight = rows.weight[i] * columns.weight[j];
        for (std::int64_t c = 0; c < g.cols; ++c) d_row[c] += weight * d_out[c];
      }
    }
  }
}

Cost cost(const NodeView& node, const BatchCounts&) {
  const Grid grid = node.as<Grid>();
  return {32.0 * static_cast<double>(grid.height * grid.width * grid.cols), 0.0};
}

void launch(const NodeView& node, Launch& l) {
  Block* const b =
      l.step(Block{l.kernels.fill, l.kernels.add, l.at(node[kDTable]), l.at(node[kDOut]), node.as<Grid>(), false},
             whole(), run);
  l.adds(&b->adds, node.operand(kDTable).access);
}

constexpr OperationKind kKind{"resize_positions_backward", cost, launch};
}  // namespace gradient

enum : std::size_t { kTable, kOut };

Cost cost(const NodeView& node, const BatchCounts&) {
  const Grid grid = node.as<Grid>();
  return {40.0 * static_cast<double>(grid.height * grid.width * grid.cols), 0.0};
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kTable])) return;
  b.emit(gradient::kKind, {reads(d_out), b.slot(node[kTable])}, node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const Grid grid = node.as<Grid>();
  l.step(ForwardBlock{l.at(node[kOut]), l.at(node[kTable]), grid}, {fixed_rows(grid.class_rows + grid.height), 1},
         run_forward);
}

constexpr OperationKind kKind{"resize_positions", cost, launch, derive};

}  // namespace positions_operation
}  // namespace

void resize_position_values(float* out, const float* table, std::int64_t from_side, std::int64_t height,
                            std::int64_t width, std::int64_t cols, bool has_class_row) {
  const positions_operation::Grid grid{from_side, height, width, cols, has_class_row ? 1 : 0};
  for (std::int64_t task = 0; task < grid.class_rows + height; ++task)
    positions_operation::run_forward({out, table, grid}, {task, 1, task}, 0);
}

Tensor resize_positions(Graph& graph, const std::string& name, Tensor table, std::int64_t from_side,
                        std::int64_t height, std::int64_t width, bool has_class_row) {
  const std::int64_t cols = graph[table].cols, class_rows = has_class_row ? 1 : 0;
  const Tensor out = graph.activation(name, fixed_rows(height * width + class_rows), cols, graph[table].dtype);
  graph.add(positions_operation::kKind, {reads(table), writes(out)},
            Attributes::of(positions_operation::Grid{from_side, height, width, cols, class_rows}));
  return out;
}

}  // namespace bascule
