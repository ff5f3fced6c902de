// SPDX-License-Identifier: Apache-2.0
#include "src/graph/launch.h"
#include "src/graph/operations/norm_operation.h"

namespace bascule {
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

}  // namespace bascule
