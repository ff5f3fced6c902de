// SPDX-License-Identifier: Apache-2.0
// The loss of verification, whose gradients are inputs of the graph.
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace cotangent_loss_operation {

namespace gradient {
enum : std::size_t { kCotangent, kDOutput };

struct Block {
  void (*kernel)(const CopyRows&);
  CopyRows copy;
};

void launch(const NodeView& node, Launch& l) {
  const std::int64_t cols = node.cols(kCotangent);
  Block* const b = l.step(
      Block{l.kernels.copy_rows, {l.at(node[kDOutput]), l.at(node[kCotangent]), 0, cols, cols, cols, false}}, whole(),
      +[](const Block& block, Range, int) { block.kernel(block.copy); });
  l.rows(&b->copy.rows, node.rows(kCotangent));
}

constexpr OperationKind kKind{"cotangent_loss_backward", cost_by_elements<kCotangent, 0, 8>, launch};
}  // namespace gradient

// Operands: the loss, then output and cotangent in turn.
constexpr std::size_t kLoss = 0, kFirstOutput = 1;

Cost cost(const NodeView&, const BatchCounts&) { return {}; }

void derive(const NodeView& node, Backward& b) {
  for (std::size_t i = kFirstOutput; i < node.operands(); i += 2) {
    if (const Operand d_output = b.slot(node[i])) b.emit(gradient::kKind, {reads(node[i + 1]), d_output});
  }
}

struct Block {
  float* loss;
  const float *output, *cotangent;
  std::int64_t rows, cols;
  bool first;
};

void run(const Block& b, Range, int) {
  double sum = b.first ? 0.0 : static_cast<double>(*b.loss);
  for (std::int64_t i = 0; i < b.rows * b.cols; ++i)
    sum += static_cast<double>(b.output[i]) * static_cast<double>(b.cotangent[i]);
  *b.loss = static_cast<float>(sum);
}

void launch(const NodeView& node, Launch& l) {
  for (std::size_t i = kFirstOutput; i < node.operands(); i += 2) {
    Block* const b = l.step(
        Block{l.at(node[kLoss]), l.at(node[i]), l.at(node[i + 1]), 0, node.cols(i), i == kFirstOutput}, whole(), run);
    l.rows(&b->rows, node.rows(i));
  }
}

constexpr OperationKind kKind{"cotangent_loss", cost, launch, derive};

}  // namespace cotangent_loss_operation
}  // namespace

Tensor cotangent_loss(Graph& graph, const std::vector<std::pair<Tensor, Tensor>>& outputs_and_cotangents) {
  const Tensor loss = graph.activation("loss", fixed_rows(1), 1);
  std::vector<Operand> operands = {writes(loss)};
  for (const auto& [output, cotangent] : outputs_and_cotangents)
    operands.insert(operands.end(), {reads(output), reads(cotangent)});
  graph.keep(loss);
  graph.add(cotangent_loss_operation::kKind, std::move(operands));
  return loss;
}

}  // namespace bascule
