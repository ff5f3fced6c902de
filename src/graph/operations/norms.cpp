// SPDX-License-Identifier: Apache-2.0
#include "src/graph/operations/norms.h"

#include "src/base/check.h"
#include "src/graph/launch.h"

namespace bascule {

Normalized record_norm(Graph& graph, const OperationKind& kind, const std::string& name, Tensor x, Tensor h,
                       Tensor weight, Tensor bias, const Norm& norm, Tensor row_keys) {
  const std::int64_t cols = graph[x].cols;
  const Tensor mean = bias ? graph.activation(name + ".mean", graph[x].rows, 1) : Tensor{};
  const Tensor rstd = graph.activation(name + ".rstd", graph[x].rows, 1);
  const Tensor y = graph.activation_like(name, x, cols);
  Tensor sum = x;
  if (h) {
    sum = graph.activation_like(name + ".sum", x, cols);
    graph.may_share(sum, h);
  }
  graph.add(kind,
            {reads(x), reads(h), reads(weight), reads(bias), reads(row_keys), h ? writes(sum) : reads(sum), writes(y),
             writes(mean), writes(rstd)},
            Attributes::of(norm));
  return {sum, y};
}

void derive_norm(const NodeView& node, Backward& b, const OperationKind& gradient) {
  const Tensor x = node[norm::kX], h = node[norm::kH], d_y = b.gradient(node[norm::kY]);
  if (!d_y) return;
  Graph& graph = b.graph();
  const std::int64_t cols = node.cols(norm::kX);
  const Tensor d_sum = h ? b.gradient(node[norm::kSum]) : Tensor{};
  const Operand d_weight = b.slot(node[norm::kWeight]);
  const Operand d_bias = node[norm::kBias] ? b.slot(node[norm::kBias]) : Operand{};
  const bool both = h && b.wants(x) && b.wants(h);
  const bool shareable = both && node.as<Norm>().dropout.probability == 0.0f && b.untouched(x) && b.untouched(h);
  Operand d_x = b.slot(x), d_h;
  if (shareable) {
    b.share(h, d_x.tensor);
  } else if (h && b.wants(h)) {
    d_h = b.slot(h);
    BASCULE_CHECK(d_h.access == Access::kWrite);  // what is added to a stream is read by nobody else
  }
  if (d_x && d_x.access == Access::kWrite) graph.may_share(d_x.tensor, d_sum ? d_sum : d_y);
  Operand parts;
  if (d_weight || d_bias) {
    const std::int64_t tasks = row_tasks(graph.max_rows(node[norm::kY]), cols);
    parts = writes(graph.activation("norm_parts", fixed_rows(tasks), (node[norm::kBias] ? 2 : 1) * cols));
  }
  if (!d_x && !d_h && !parts) return;
  // The kernel writes d_x always: where x is not trained, to a gradient that nobody reads.
  if (!d_x) d_x = writes(graph.activation_like("d_unused", x, cols));
  b.emit(gradient,
         {reads(d_y), reads(node[norm::kSum]), reads(node[norm::kMean]), reads(node[norm::kRstd]),
          reads(node[norm::kWeight]), reads(d_sum), reads(node[norm::kKeys]), d_x, d_weight, d_bias, d_h, parts},
         node.attributes());
}

void launch_sums_of_parts(const NodeView& node, Launch& l, const std::vector<std::size_t>& places) {
  const Extent rows = node.rows(norm_gradient::kSum);
  const std::int64_t cols = node.cols(norm_gradient::kSum);
  const float* const parts = l.at(node[norm_gradient::kParts]);
  if (parts == nullptr) return;
  l.begin_step();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Operand sum = node.operand(places[i]);
    if (!sum) continue;
    const float* const first = parts + static_cast<std::int64_t>(i) * cols;
    const std::int64_t stride = static_cast<std::int64_t>(places.size()) * cols;
    AddParts* const end =
        l.add_kernel(l.kernels.add_parts, {l.at(sum.tensor), first, 0, cols, stride, false}, by_columns(cols));
    l.row_tasks(&end->count, rows, cols);
    l.adds(&end->accumulate, sum.access);
  }
}

namespace {
namespace layer_norm_operation {

namespace gradient {
using namespace norm_gradient;

struct Block {
  void (*kernel)(const LayerNormBackward&);
  LayerNormBackward whole;
  float* parts;  // (tasks, 2 cols): of d_weight and d_bias
};

void run(const Block& b, Range range, int) {
  LayerNormBackward a = part_of(b.whole, range.first, range.count);
  a.d_gamma_part = advance(b.parts, range.task * 2 * a.cols);
  a.d_beta_part = advance(a.d_gamma_part, a.cols);
  b.kernel(a);
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double elements = node.elements(kSum, counts);
  return {14.0 * elements, 4.0 * elements * (node[kDSum] ? 4.0 : 3.0) + (node[kDH] ? 4.0 * elements : 0.0)};
}

void launch(const NodeView& node, Launch& l) {
  Block block{};
  block.kernel = l.kernels.layer_norm_backward;
  LayerNormBackward& a = block.whole;
  a.d_x = l.at(node[kDX]);
  a.d_h = l.at(node[kDH]);
  a.d_sum = l.at(node[kDSum]);
  a.d_y = l.at(node[kDY]);
  a.sum = l.at(node[kSum]);
  a.mean = l.at(node[kMean]);
  a.rstd = l.at(node[kRstd]);
  a.gamma = l.at(node[kWeight]);
  a.cols = node.cols(kSum);
  block.parts = l.at(node[kParts]);
  Block* const b = l.step(block, by_rows(node.rows(kSum), a.cols), run);
  l.operand(&b->whole.row_keys, node[kKeys]);
  l.dropout(&b->whole.dropout, node.as<Norm>().dropout);
  l.adds(&b->whole.accumulate, node.operand(kDX).access);
  launch_sums_of_parts(node, l, {kDWeight, kDBias});
}

constexpr OperationKind kKind{"layer_norm_backward", cost, launch};
}  // namespace gradient

using namespace norm;

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double elements = node.elements(kX, counts);
  return {8.0 * elements, 4.0 * elements * (node[kH] ? 4.0 : 2.0)};
}

void derive(const NodeView& node, Backward& b) { derive_norm(node, b, gradient::kKind); }

void launch(const NodeView& node, Launch& l) {
  const Norm attributes = node.as<Norm>();
  LayerNormForward a{};
  a.y = l.elements(node[kY]);
  a.sum = node[kH] ? l.at(node[kSum]) : nullptr;
  a.mean = l.at(node[kMean]);
  a.rstd = l.at(node[kRstd]);
  a.x = l.at(node[kX]);
  a.h = l.at(node[kH]);
  a.gamma = l.at(node[kWeight]);
  a.beta = l.at(node[kBias]);
  a.cols = node.cols(kX);
  a.epsilon = attributes.epsilon;
  LayerNormForward* const stored = l.kernel(l.kernels.layer_norm_forward, a, by_rows(node.rows(kX), a.cols));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"layer_norm", cost, launch, derive, nullptr, places(kY)};

}  // namespace layer_norm_operation
}  // namespace

Tensor layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, float epsilon) {
  return record_norm(graph, layer_norm_operation::kKind, name, x, Tensor{}, weight, bias, {epsilon, {}}, Tensor{}).y;
}

Normalized add_layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, Tensor bias,
                          float epsilon, DropoutPlace dropout, Tensor row_keys) {
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  return record_norm(graph, layer_norm_operation::kKind, name, x, h, weight, bias, {epsilon, dropout}, keys);
}

namespace {
namespace rms_norm_operation {

namespace gradient {
using namespace norm_gradient;

struct Block {
  void (*kernel)(const RmsNormBackward&);
  RmsNormBackward whole;
  float* parts;  // (tasks, cols): of d_weight
};

void run(const Block& b, Range range, int) {
  RmsNormBackward a = part_of(b.whole, range.first, range.count);
  a.d_gamma_part = advance(b.parts, range.task * a.cols);
  b.kernel(a);
}

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double elements = node.elements(kSum, counts);
  return {11.0 * elements, 4.0 * elements * (node[kDSum] ? 4.0 : 3.0) + (node[kDH] ? 4.0 * elements : 0.0)};
}

void launch(const NodeView& node, Launch& l) {
  Block block{};
  block.kernel = l.kernels.rms_norm_backward;
  RmsNormBackward& a = block.whole;
  a.d_x = l.at(node[kDX]);
  a.d_h = l.at(node[kDH]);
  a.d_sum = l.at(node[kDSum]);
  a.d_y = l.at(node[kDY]);
  a.sum = l.at(node[kSum]);
  a.rstd = l.at(node[kRstd]);
  a.gamma = l.at(node[kWeight]);
  a.cols = node.cols(kSum);
  block.parts = l.at(node[kParts]);
  Block* const b = l.step(block, by_rows(node.rows(kSum), a.cols), run);
  l.operand(&b->whole.row_keys, node[kKeys]);
  l.dropout(&b->whole.dropout, node.as<Norm>().dropout);
  l.adds(&b->whole.accumulate, node.operand(kDX).access);
  launch_sums_of_parts(node, l, {kDWeight});
}

constexpr OperationKind kKind{"rms_norm_backward", cost, launch};
}  // namespace gradient

using namespace norm;

Cost cost(const NodeView& node, const BatchCounts& counts) {
  const double elements = node.elements(kX, counts);
  return {4.0 * elements, 4.0 * elements * (node[kH] ? 4.0 : 2.0)};
}

void derive(const NodeView& node, Backward& b) { derive_norm(node, b, gradient::kKind); }

void launch(const NodeView& node, Launch& l) {
  const Norm attributes = node.as<Norm>();
  RmsNormForward a{};
  a.y = l.elements(node[kY]);
  a.sum = node[kH] ? l.at(node[kSum]) : nullptr;
  a.rstd = l.at(node[kRstd]);
  a.x = l.at(node[kX]);
  a.h = l.at(node[kH]);
  a.gamma = l.at(node[kWeight]);
  a.cols = node.cols(kX);
  a.epsilon = attributes.epsilon;
  RmsNormForward* const stored = l.kernel(l.kernels.rms_norm_forward, a, by_rows(node.rows(kX), a.cols));
  l.operand(&stored->row_keys, node[kKeys]);
  l.dropout(&stored->dropout, attributes.dropout);
}

constexpr OperationKind kKind{"rms_norm", cost, launch, derive, nullptr, places(kY)};

}  // namespace rms_norm_operation
}  // namespace

Tensor rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, float epsilon) {
  return record_norm(graph, rms_norm_operation::kKind, name, x, Tensor{}, weight, Tensor{}, {epsilon, {}}, Tensor{}).y;
}

Normalized add_rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, float epsilon,
                        DropoutPlace dropout, Tensor row_keys) {
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  return record_norm(graph, rms_norm_operation::kKind, name, x, h, weight, Tensor{}, {epsilon, dropout}, keys);
}

}  // namespace bascule
