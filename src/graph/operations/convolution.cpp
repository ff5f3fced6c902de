// SPDX-License-Identifier: Apache-2.0
#include "kernels/convolution.h"

#include <algorithm>

#include "kernels/gemm/own_tiles.h"
#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace convolution_operation {

// As many times the extent as one picture has other rows than another.
Extent with_pictures_of(const Extent& extent, std::int64_t from_rows, std::int64_t to_rows) {
  BASCULE_CHECK(extent.per_row % from_rows == 0 && extent.fixed % from_rows == 0);
  return {extent.stream, extent.per_row / from_rows * to_rows, extent.fixed / from_rows * to_rows};
}

constexpr std::int64_t kProductScratchFloats = kGemmTileScratchBytes / sizeof(float);

namespace gradient {
// kX is empty where the weight is not trained, kWeight where x is not.
enum : std::size_t { kDY, kX, kWeight, kDX, kDWeight, kDBias, kParts };

// Rows of windows that are written, or of their gradients, at a time.
constexpr std::int64_t kWindowRows = kGemmChunk;

std::int64_t scratch_floats(const NodeView&) { return kProductScratchFloats + kWindowRows * kGemmTileCols; }

// Columns of the weight's gradient: d_y^T times the windows, which are written a chunk of rows at a time.
struct WeightBlock {
  void (*windows)(const WindowColumns&);
  void (*product)(const GemmTile&);
  float* d_weight;
  const float* d_y;
  const float* x;
  Pictures pictures;
  std::int64_t rows, out;
  bool accumulate;
  float* scratch;
};

void run_weight(const WeightBlock& b, Range range, int) {
  float* const columns = b.scratch + kProductScratchFloats;
  const std::int64_t depth = window_size(b.pictures);
  for (std::int64_t row = 0; row < b.rows; row += kWindowRows) {
    const std::int64_t rows = std::min(kWindowRows, b.rows - row);
    b.windows({columns, b.x, range.count, row, rows, range.first, range.count, b.pictures});
    b.product({GemmKind::kWeightGradient, b.d_weight + range.first, b.d_y + row * b.out, columns, nullptr, b.out,
               range.count, depth, b.out, range.count, rows, row > 0 || b.accumulate, b.scratch});
  }
}

// Channels of x's gradient: d_y times the weights of one tap after another, added where the tap lies.
struct InputBlock {
  void (*fill)(const Fill&);
  void (*product)(const GemmTile&);
  void (*add)(const AddWindowColumns&);
  float* d_x;
  const float* d_y;
  const float* weight;
  Pictures pictures;
  std::int64_t out, first_channel, channels;
  bool accumulate;
  float* scratch;
};

void run_input(const InputBlock& b, Range range, int) {
  const Pictures& p = b.pictures;
  float* const columns = b.scratch + kProductScratchFloats;
  const std::int64_t pixels = p.height * p.width, outputs = out_height(p) * out_width(p);
  for (std::int64_t i = range.first * pixels; i < range.end() * pixels && !b.accumulate; ++i)
    b.fill({b.d_x + i * p.channels + b.first_channel, b.channels, 0.0f});
  const std::int64_t end = range.end() * outputs;
  for (std::int64_t tap = 0; tap < kTaps; ++tap) {
    const std::int64_t col = tap * p.channels + b.first_channel;
    for (std::int64_t row = range.first * outputs; row < end; row += kWindowRows) {
      const std::int64_t rows = std::min(kWindowRows, end - row);
      b.product({GemmKind::kInputGradient, columns, b.d_y + row * b.out, b.weight + col, nullptr, b.out, window_size(p),
                 b.channels, rows, b.channels, b.out, false, b.scratch});
      b.add({b.d_x, columns, b.channels, row, rows, col, b.channels, p});
    }
  }
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double d_y = node.elements(kDY, counts), depth = static_cast<double>(window_size(node.as<Pictures>()));
  const double products = (node[kDX] ? 1.0 : 0.0) + (node[kDWeight] ? 1.0 : 0.0);
  return {2.0 * d_y * depth * products, 4.0 * products * d_y};
}

void launch(const NodeView& node, Launch& l) {
  const Pictures pictures = node.as<Pictures>();
  const Extent rows = node.rows(kDY);
  const std::int64_t out = node.cols(kDY);
  const float* const d_y = l.at(node[kDY]);
  float* const parts = l.at(node[kParts]);
  if (parts != nullptr) l.add_column_sums(parts, d_y, rows, out);

  // The gradients of weight and input and the end of the bias gradient are one step.
  l.begin_step();
  if (const Operand d_weight = node.operand(kDWeight)) {
    WeightBlock* const b = l.add(WeightBlock{l.kernels.window_columns, l.kernels.gemm_tile, l.at(d_weight.tensor), d_y,
                                             l.at(node[kX]), pictures, 0, out, false, nullptr},
                                 {fixed_rows(window_size(pictures)), kGemmTileCols}, run_weight);
    l.rows(&b->rows, rows);
    l.adds(&b->accumulate, d_weight.access);
    l.scratch(&b->scratch);
  }
  if (const Operand d_x = node.operand(kDX)) {
    const Extent samples = with_pictures_of(rows, out_height(pictures) * out_width(pictures), 1);
    for (std::int64_t channel = 0; channel < pictures.channels; channel += kGemmTileCols) {
      InputBlock* const b = l.add(InputBlock{l.kernels.fill, l.kernels.gemm_tile, l.kernels.add_window_columns,
                                             l.at(d_x.tensor), d_y, l.at(node[kWeight]), pictures, out, channel,
                                             std::min(kGemmTileCols, pictures.channels - channel), false, nullptr},
                                  {samples, 1}, run_input);
      l.adds(&b->accumulate, d_x.access);
      l.scratch(&b->scratch);
    }
  }
  if (const Operand d_bias = node.operand(kDBias)) l.add_sum_of_parts(d_bias, parts, out, out, by_rows(rows, out));
}

constexpr OperationKind kKind{"convolution_backward", cost, launch, nullptr, scratch_floats};
}  // namespace gradient

enum : std::size_t { kX, kWeight, kBias, kY };

// A tile of y: a task.
template <typename Kernel>
struct Block {
  void (*kernel)(const Kernel&);
  Kernel whole;
  std::int64_t first_col;
  float* scratch;
};

template <typename Kernel>
Kernel tile_of(const Block<Kernel>& b, std::int64_t windows) {
  Kernel a = b.whole;
  a.y += b.first_col;
  a.weight += b.first_col * windows;
  a.bias += b.first_col;
  a.scratch = b.scratch;
  return a;
}

void run(const Block<Convolution>& b, Range range, int) {
  Convolution a = tile_of(b, window_size(b.whole.pictures));
  a.y += range.first * a.y_stride;
  a.first_row = range.first;
  a.rows = range.count;
  b.kernel(a);
}

void run_doubled(const Block<DoubledConvolution>& b, Range range, int) {
  DoubledConvolution a = tile_of(b, kTaps * b.whole.channels);
  a.first_line = range.first;
  a.lines = range.count;
  b.kernel(a);
}

void run_winograd(const Block<WinogradConvolution>& b, Range range, int) {
  WinogradConvolution a = tile_of(b, kTaps * b.whole.channels);
  a.first_tile = range.first;
  a.tiles = range.count;
  b.kernel(a);
}

// How a convolution is computed: a function of its shape alone, since the bits depend on it.
enum class Form { kWindows, kDoubled, kWinograd };

std::int64_t tiles_of_picture(const Pictures& p) { return tiles_of(p.height) * tiles_of(p.width); }

Form form_of(const NodeView& node) {
  const Pictures p = node.as<Pictures>();
  if (p.stride == 1 && p.enlarged_height == 2 * p.height && p.enlarged_width == 2 * p.width) return Form::kDoubled;
  const bool is_plain = p.stride == 1 && p.enlarged_height == p.height && p.enlarged_width == p.width;
  // Fewer channels or pixels are not worth the transforms.
  constexpr std::int64_t kFewest = 32, kFewestPixels = 16;
  const bool is_worth_it = p.channels >= kFewest && node.cols(kY) >= kFewest && p.height * p.width >= kFewestPixels;
  return is_plain && is_worth_it && !node.bf16_products() ? Form::kWinograd : Form::kWindows;
}

std::int64_t scratch_floats(const NodeView& node) {
  if (node.bf16_products()) return kConvolutionBf16ScratchBytes / sizeof(float);
  return form_of(node) == Form::kWinograd ? kWinogradScratchBytes / sizeof(float) : kProductScratchFloats;
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double x = node.elements(kX, counts), y = node.elements(kY, counts);
  const Pictures pictures = node.as<Pictures>();
  const Form form = form_of(node);
  const double pixels = static_cast<double>(pictures.height * pictures.width);
  // Products of a channel for an output pixel: 16 for each tile, or the taps of a window.
  const double taps = form == Form::kWinograd  ? 16.0 * static_cast<double>(tiles_of_picture(pictures)) / pixels
                      : form == Form::kDoubled ? 4.0
                                               : 9.0;
  const double channels = static_cast<double>(pictures.channels);
  return {2.0 * y * taps * channels, 4.0 * (x + y + 9.0 * channels * static_cast<double>(node.cols(kY)))};
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_weight = b.slot(node[kWeight]), d_bias = b.slot(node[kBias]), d_x = b.slot(node[kX]);
  if (!d_x && !d_weight && !d_bias) return;
  Operand parts;
  if (d_bias) {
    const std::int64_t out = node.cols(kY), tasks = row_tasks(b.graph().max_rows(node[kY]), out);
    parts = writes(b.graph().activation("bias_parts", fixed_rows(tasks), out));
  }
  b.emit(gradient::kKind,
         {reads(d_y), d_weight ? reads(node[kX]) : Operand{}, d_x ? reads(node[kWeight]) : Operand{}, d_x, d_weight,
          d_bias, parts},
         node.attributes());
}

// Adds the tiles of y, each of so many columns and, of the units of `split`, so many.
template <typename Kernel>
void add_tiles(const NodeView& node, Launch& l, Block<Kernel> block, std::int64_t width, const TaskSplit& split,
               void (*run_tile)(const Block<Kernel>&, Range, int)) {
  const std::int64_t out = node.cols(kY);
  block.whole.y = l.at(node[kY]);
  block.whole.x = l.elements(node[kX]);
  block.whole.weight = l.elements(node[kWeight]);
  block.whole.bias = l.at(node[kBias]);
  block.whole.y_stride = out;
  l.begin_step();
  for (std::int64_t col = 0; col < out; col += width) {
    block.first_col = col;
    block.whole.cols = std::min(width, out - col);
    Block<Kernel>* const b = l.add(block, split, run_tile);
    l.scratch(&b->scratch);
  }
}

// Tiles of a task in Winograd's form: as many as are kept at a time, since each task transforms its weights, but fewer
// where a thread would have no task. Tasks of many tiles have whole blocks of rows.
std::int64_t winograd_tiles(std::int64_t tiles, std::int64_t cols, int threads) {
  const std::int64_t across = divide_up(cols, kWinogradCols);
  const std::int64_t down = std::max(divide_up(tiles, kWinogradKept), divide_up(std::int64_t{threads}, across));
  const std::int64_t height = divide_up(tiles, down);
  return height >= 8 * kOwnRowUnit ? align_up(height, kOwnRowUnit) : height;
}

// The tiles of a product of these extents: its rows are windows, which are packed as its rows are. Pictures of twice
// the size are four products, each of a quarter of the rows.
void launch(const NodeView& node, Launch& l) {
  const Pictures pictures = node.as<Pictures>();
  const bool is_bf16 = node.bf16_products();
  const Form form = form_of(node);
  const std::int64_t pixels = pictures.height * pictures.width;
  if (form == Form::kWinograd) {
    Block<WinogradConvolution> block{l.kernels.winograd_convolution, {}, 0, nullptr};
    block.whole.height = pictures.height;
    block.whole.width = pictures.width;
    block.whole.channels = pictures.channels;
    const Extent tiles = with_pictures_of(node.rows(kY), pixels, tiles_of_picture(pictures));
    const std::int64_t most = std::max<std::int64_t>(1, tiles.at(l.bounds()));
    return add_tiles(node, l, block, kWinogradCols, {tiles, winograd_tiles(most, node.cols(kY), l.threads())},
                     run_winograd);
  }
  const std::int64_t max_rows = std::max<std::int64_t>(1, node.rows(form == Form::kDoubled ? kX : kY).at(l.bounds()));
  const OwnTiling tiling =
      own_tiling(GemmKind::kForward, max_rows, node.cols(kY), l.threads(), costs_of(l.kernels, is_bf16));
  const std::int64_t height = divide_up(max_rows, tiling.rows);
  if (form == Form::kDoubled) {
    const Extent lines = with_pictures_of(node.rows(kX), pixels, pictures.height);
    Block<DoubledConvolution> block{
        is_bf16 ? l.kernels.doubled_convolution_bf16 : l.kernels.doubled_convolution, {}, 0, nullptr};
    block.whole.height = pictures.height;
    block.whole.width = pictures.width;
    block.whole.channels = pictures.channels;
    add_tiles(node, l, block, tiling.width, {lines, divide_up(height, pictures.width)}, run_doubled);
  } else {
    Block<Convolution> block{is_bf16 ? l.kernels.convolution_bf16 : l.kernels.convolution, {}, 0, nullptr};
    block.whole.pictures = pictures;
    add_tiles(node, l, block, tiling.width, {node.rows(kY), align_up(height, tiling.row_unit)}, run);
  }
}

constexpr OperationKind kKind{"convolution",      cost, launch, derive, scratch_floats, places(kX, kWeight),
                              places(kX, kWeight)};

}  // namespace convolution_operation
}  // namespace

Tensor convolution(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias,
                   const ConvolutionShape& shape) {
  const bool is_enlarged = shape.enlarged_height > 0;
  const Pictures pictures{shape.height,
                          shape.width,
                          graph[x].cols,
                          is_enlarged ? shape.enlarged_height : shape.height,
                          is_enlarged ? shape.enlarged_width : shape.width,
                          shape.stride};
  const std::int64_t out = graph[weight].rows.fixed;
  BASCULE_CHECK(shape.height > 0 && shape.width > 0 && (shape.stride == 1 || shape.stride == 2));
  BASCULE_CHECK(pictures.enlarged_height >= shape.height && pictures.enlarged_width >= shape.width);
  BASCULE_CHECK(graph[weight].cols == window_size(pictures) && graph[bias].cols == out);
  const Extent rows = convolution_operation::with_pictures_of(graph[x].rows, shape.height * shape.width,
                                                              out_height(pictures) * out_width(pictures));
  const Tensor y = graph.activation(name, rows, out);
  graph.add(convolution_operation::kKind, {reads(x), reads(weight), reads(bias), writes(y)}, Attributes::of(pictures));
  return y;
}

}  // namespace bascule
