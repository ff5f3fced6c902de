// SPDX-License-Identifier: Apache-2.0
// Positions, embeddings and dropout. First resizing the image position table to a picture of another size: plain loops,
// because it is small and rare (verification, other image sizes, once at load).
#include <cmath>

#include "src/base/check.h"
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
  std::int64_t class_rows;  // before the grid
};

// The first tasks are the class rows, each other one a row of the grid.
struct ForwardBlock {
  float* out;
  const float* table;
  Grid grid;
};

void run_forward(const ForwardBlock& b, Range range, int) {
  const Grid& g = b.grid;
  if (range.task < g.class_rows) {
    const std::int64_t first = range.task * g.cols;
    for (std::int64_t i = first; i < first + g.cols; ++i) b.out[i] = b.table[i];
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

void launch(const NodeView& node, Launch& l) {
  const Grid grid = node.as<Grid>();
  l.step(ForwardBlock{l.at(node[kOut]), l.at(node[kTable]), grid}, {fixed_rows(grid.class_rows + grid.height), 1},
         run_forward);
}

constexpr OperationKind kKind{"resize_positions", cost, launch, derive_one<gradient::kKind, kOut, kTable>};

}  // namespace positions_operation
}  // namespace

void resize_position_values(float* out, const float* table, std::int64_t from_side, std::int64_t height,
                            std::int64_t width, std::int64_t cols, std::int64_t class_rows) {
  const positions_operation::Grid grid{from_side, height, width, cols, class_rows};
  for (std::int64_t task = 0; task < grid.class_rows + height; ++task)
    positions_operation::run_forward({out, table, grid}, {task, 1, task}, 0);
}

Tensor resize_positions(Graph& graph, const std::string& name, Tensor table, std::int64_t from_side,
                        std::int64_t height, std::int64_t width, std::int64_t class_rows) {
  const std::int64_t cols = graph[table].cols;
  const Tensor out = graph.activation(name, fixed_rows(height * width + class_rows), cols, graph[table].dtype);
  graph.add(positions_operation::kKind, {reads(table), writes(out)},
            Attributes::of(positions_operation::Grid{from_side, height, width, cols, class_rows}));
  return out;
}

// Text embeddings, and dropout of rows.

namespace {
namespace text_operations {

constexpr std::size_t kTables = 3;  // word, position, type

// The attribute of both is the EmbeddingPadding.
namespace gradient {
enum : std::size_t { kDOut, kTokens, kPositions, kTypes, kDTable };
constexpr std::int64_t kElementsPerTask = 1 << 16;  // of a table that is cleared
constexpr std::int64_t kColumnsOfTask = 64;

struct ClearBlock {
  void (*kernel)(const Fill&);
  float* table;
  bool adds;
};

void clear(const ClearBlock& b, Range range, int) {
  if (!b.adds) b.kernel({b.table + range.first, range.count, 0.0f});
}

// Threads share a table by columns, so that each row's sum is in the order of the tokens.
struct Block {
  void (*embedding)(const EmbeddingBackward&);
  void (*column_sums)(const ColumnSums&);
  void (*add)(const Add&);
  float *d_word, *d_position, *d_type;
  const float* d_out;
  const std::int32_t *tokens, *positions, *types;  // types null: all 0
  std::int64_t rows, cols;
  EmbeddingPadding padding;
};

void run(const Block& b, Range range, int) {
  if (b.d_word != nullptr)
    b.embedding({b.d_word, b.d_out, b.tokens, b.rows, b.cols, range.first, range.end(), b.padding.word});
  if (b.d_position != nullptr)
    b.embedding({b.d_position, b.d_out, b.positions, b.rows, b.cols, range.first, range.end(), b.padding.position});
  if (b.d_type == nullptr) return;
  if (b.types != nullptr) {
    b.embedding({b.d_type, b.d_out, b.types, b.rows, b.cols, range.first, range.end(), -1});
    return;
  }
  float part[kColumnsOfTask];
  b.column_sums({part, b.d_out + range.first, b.rows, range.count, b.cols});
  b.add({b.d_type + range.first, b.d_type + range.first, part, range.count});
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double values = node.elements(kDOut, counts);
  double bytes = 12.0 * values;
  for (std::size_t i = 0; i < kTables; ++i) {
    if (node[kDTable + i]) bytes += 4.0 * node.elements(kDTable + i, counts);
  }
  return {3.0 * values, bytes};
}

void launch(const NodeView& node, Launch& l) {
  // Tables whose gradient this operation writes first are cleared.
  l.begin_step();
  float* tables[kTables];
  for (std::size_t i = 0; i < kTables; ++i) {
    const Operand table = node.operand(kDTable + i);
    tables[i] = l.at(table.tensor);
    if (!table || table.access == Access::kAdd) continue;
    const Extent elements = node.rows(kDTable + i).times(node.cols(kDTable + i));
    ClearBlock* const b = l.add(ClearBlock{l.kernels.fill, tables[i], false}, {elements, kElementsPerTask}, clear);
    l.adds(&b->adds, table.access);
  }
  const std::int64_t cols = node.cols(kDOut);
  Block* const b =
      l.step(Block{l.kernels.embedding_backward, l.kernels.column_sums, l.kernels.add, tables[0], tables[1], tables[2],
                   l.at(node[kDOut]), nullptr, nullptr, nullptr, 0, cols, node.as<EmbeddingPadding>()},
             {fixed_rows(cols), kColumnsOfTask}, run);
  l.operand(&b->tokens, node[kTokens]);
  l.operand(&b->positions, node[kPositions]);
  l.operand(&b->types, node[kTypes]);
  l.rows(&b->rows, node.rows(kDOut));
}

constexpr OperationKind kKind{"text_embedding_backward", cost, launch};
}  // namespace gradient

enum : std::size_t { kTable = 0, kTokens = 3, kPositions, kTypes, kOut };

void derive(const NodeView& node, Backward& b) {
  const Tensor d_out = b.gradient(node[kOut]);
  if (!d_out || !b.wants(node[kOut])) return;
  std::vector<Operand> operands = {reads(d_out), reads(node[kTokens]), reads(node[kPositions]), reads(node[kTypes])};
  for (std::size_t i = 0; i < kTables; ++i) operands.push_back(b.slot(node[kTable + i]));
  b.emit(gradient::kKind, std::move(operands), node.attributes());
}

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kOut);
  if (!node[kPositions]) {
    GatherRows* const a = l.kernel(l.kernels.gather_rows, {l.at(node[kOut]), l.at(node[kTable]), nullptr, 0, cols},
                                   by_rows(node.rows(kOut), cols));
    l.operand(&a->index, node[kTokens]);
    return;
  }
  TextEmbeddingForward* const a = l.kernel(l.kernels.text_embedding_forward,
                                           {l.at(node[kOut]), l.at(node[kTable]), l.at(node[kTable + 1]),
                                            l.at(node[kTable + 2]), nullptr, nullptr, nullptr, 0, cols},
                                           by_rows(node.rows(kOut), cols));
  l.operand(&a->word_index, node[kTokens]);
  l.operand(&a->position_index, node[kPositions]);
  l.operand(&a->type_index, node[kTypes]);
}

constexpr OperationKind kKind{"text_embedding", cost_by_elements<kOut, 2, 12>, launch, derive};

// The same operation forward, and on gradients backward. The attribute is the DropoutPlace.
namespace dropping {
enum : std::size_t { kX, kKeys, kY };

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kX);
  DropoutForward* const a = l.kernel(l.kernels.dropout_forward, {l.at(node[kY]), l.at(node[kX]), nullptr, 0, cols, {}},
                                     by_rows(node.rows(kX), cols));
  l.operand(&a->row_keys, node[kKeys]);
  l.dropout(&a->stream, node.as<DropoutPlace>());
}

constexpr OperationKind kGradient{"dropout_backward", cost_by_elements<kX, 20, 8>, launch};

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y || !b.wants(node[kX])) return;
  const Operand d_x = b.slot(node[kX]);
  BASCULE_CHECK(d_x.access == Access::kWrite);  // what is dropped is read by nobody else
  b.graph().may_share(d_x.tensor, d_y);
  b.emit(kGradient, {reads(d_y), reads(node[kKeys]), d_x}, node.attributes());
}

constexpr OperationKind kKind{"dropout", cost_by_elements<kX, 20, 8>, launch, derive};
}  // namespace dropping

}  // namespace text_operations
}  // namespace

Tensor text_embedding(Graph& graph, const std::string& name, const EmbeddingTables& tables, const EmbeddingRows& rows,
                      EmbeddingPadding padding) {
  const TensorInfo& word = graph[tables.word];
  const Tensor out = graph.activation(name, graph[rows.token_ids].rows, word.cols, word.dtype);
  graph.add(text_operations::kKind,
            {reads(tables.word), reads(tables.position), reads(tables.type), reads(rows.token_ids),
             reads(rows.position_ids), reads(rows.token_types), writes(out)},
            Attributes::of(padding));
  return out;
}

Tensor dropout(Graph& graph, const std::string& name, Tensor x, DropoutPlace place, Tensor row_keys) {
  if (place.probability <= 0.0f) return x;
  const Tensor y = graph.activation_like(name, x, graph[x].cols);
  graph.may_share(y, x);
  graph.add(text_operations::dropping::kKind, {reads(x), reads(row_keys), writes(y)}, Attributes::of(place));
  return y;
}

}  // namespace bascule
