// SPDX-License-Identifier: Apache-2.0
#include "src/graph/launch.h"
#include "src/graph/operations/norm_operation.h"

namespace bascule {
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
