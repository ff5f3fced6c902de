// SPDX-License-Identifier: Apache-2.0
#include "src/base/check.h"
#include "src/base/span.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace linear_operation {

// One matrix product: its tiles are the tasks.
struct ProductBlock {
  const Gemm* product;
  GemmRun run;
};

void run_product(const ProductBlock& b, Range range, int thread) { b.product->run(range.task, thread, b.run); }

void add_product(Launch& l, const GemmSpec& spec, const GemmRun& run, Extent rows, Access access) {
  const Gemm* const product = l.product(spec);
  ProductBlock* const b = l.add(ProductBlock{product, run}, by_tiles(product, rows), run_product);
  l.rows(&b->run.rows, rows);
  l.adds(&b->run.accumulate, access);
}

GemmType type_of(const NodeView& node) { return node.bf16_products() ? GemmType::kBf16 : GemmType::kFloat32; }

namespace gradient {
// kX is empty where the weight is not trained, kWeight where x is not.
enum : std::size_t { kDY, kX, kWeight, kDX, kDWeight, kDBias, kParts };

// Out and in, of which one may be in no operand.
struct Widths {
  std::int64_t out, in;
};

// Rows past the last are cleared: oneDNN's products contract over them (gemm.h).
struct TailBlock {
  void (*kernel)(const Fill&);
  float* x;
  std::int64_t rows, cols;
};

void clear_tail(const TailBlock& b, Range, int) {
  const std::int64_t tail = align_up<std::int64_t>(b.rows, 16) - b.rows;
  b.kernel({b.x + b.rows * b.cols, tail * b.cols, 0.0f});
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const Widths widths = node.as<Widths>();
  const double r = static_cast<double>(node.rows(kDY).at(counts)), o = static_cast<double>(widths.out),
               i = static_cast<double>(widths.in);
  const double products = (node[kDX] ? 1.0 : 0.0) + (node[kDWeight] ? 1.0 : 0.0);
  return {2.0 * r * o * i * products, 4.0 * products * (r * o + r * i + o * i)};
}

void launch(const NodeView& node, Launch& l) {
  const auto [out, in] = node.as<Widths>();
  const Extent rows = node.rows(kDY);
  const std::int64_t max_rows = rows.at(l.bounds());
  const GemmType type = type_of(node);
  const ConstElements d_y = l.elements(node[kDY]), x = l.elements(node[kX]);
  float* const parts = l.at(node[kParts]);
  l.begin_step();
  for (const auto& [tensor, cols] : {std::pair{node[kDY], out}, std::pair{node[kX], in}}) {
    if (!tensor || !l.products_read_past_rows()) continue;
    TailBlock* const tail = l.add(TailBlock{l.kernels.fill, l.at(tensor), 0, cols}, whole(), clear_tail);
    l.rows(&tail->rows, rows);
  }
  if (parts != nullptr) l.add_column_sums(parts, d_y, rows, out);

  // The input gradient, the weight gradient and the end of the bias gradient are one step.
  l.begin_step();
  if (const Operand d_weight = node.operand(kDWeight)) {
    const bool always = d_weight.access == Access::kAdd;
    add_product(l, {GemmKind::kWeightGradient, max_rows, out, in, out, in, in, false, !always, true, type},
                {l.at(d_weight.tensor), d_y, x, nullptr, 0, false}, rows, d_weight.access);
  }
  if (const Operand d_x = node.operand(kDX)) {
    const bool first = d_x.access == Access::kWrite;
    add_product(l, {GemmKind::kInputGradient, max_rows, in, out, out, in, in, false, first, !first, type},
                {l.elements(d_x.tensor), d_y, l.at(node[kWeight]), nullptr, 0, false}, rows, d_x.access);
  }
  if (const Operand d_bias = node.operand(kDBias)) l.add_sum_of_parts(d_bias, parts, out, out, by_rows(rows, out));
}

constexpr OperationKind kKind{"linear_backward", cost, launch, nullptr, nullptr, places(kDY, kX, kDX), places(kDY, kX)};
}  // namespace gradient

enum : std::size_t { kX, kWeight, kBias, kY };

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double r = static_cast<double>(node.rows(kX).at(counts)), o = static_cast<double>(node.cols(kY)),
               i = static_cast<double>(node.cols(kX));
  return {2.0 * r * o * i, 4.0 * (r * o + r * i + o * i)};
}

void derive(const NodeView& node, Backward& b) {
  const Tensor d_y = b.gradient(node[kY]);
  if (!d_y) return;
  const Operand d_weight = b.slot(node[kWeight]), d_bias = b.slot(node[kBias]), d_x = b.slot(node[kX]);
  if (!d_x && !d_weight && !d_bias) return;
  const std::int64_t out = node.cols(kY);
  Operand parts;
  if (d_bias) {
    const std::int64_t tasks = row_tasks(b.graph().max_rows(node[kY]), out);
    parts = writes(b.graph().activation("bias_parts", fixed_rows(tasks), out));
  }
  b.emit(gradient::kKind,
         {updates(d_y), d_weight ? updates(node[kX]) : Operand{}, d_x ? reads(node[kWeight]) : Operand{}, d_x, d_weight,
          d_bias, parts},
         Attributes::of(gradient::Widths{out, node.cols(kX)}));
}

void launch(const NodeView& node, Launch& l) {
  const Extent rows = node.rows(kX);
  const std::int64_t out = node.cols(kY), in = node.cols(kX);
  l.begin_step();
  add_product(l,
              {GemmKind::kForward, rows.at(l.bounds()), out, in, in, in, out, static_cast<bool>(node[kBias]), true,
               false, type_of(node), l.is_packed(node[kWeight])},
              {l.elements(node[kY]), l.elements(node[kX]), l.elements(node[kWeight]), l.at(node[kBias]), 0, false},
              rows, Access::kWrite);
}

constexpr OperationKind kKind{
    "linear", cost, launch, derive, nullptr, places(kX, kWeight, kY), places(kX, kWeight), places(kWeight)};

}  // namespace linear_operation
}  // namespace

Tensor linear(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias) {
  const std::int64_t out = graph[weight].rows.fixed;
  BASCULE_CHECK(graph[weight].cols == graph[x].cols && (!bias || graph[bias].cols == out));
  const Tensor y = graph.activation_like(name, x, out);
  graph.add(linear_operation::kKind, {reads(x), reads(weight), reads(bias), writes(y)});
  return y;
}

}  // namespace bascule
