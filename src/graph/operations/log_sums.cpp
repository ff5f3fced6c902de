// SPDX-License-Identifier: Apache-2.0
// What makes logarithms of probabilities of logits, row by row.
#include "src/base/elementary.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace log_sums_operation {

// Rows that one task takes; it needs as many of what the kernel of the loss writes beside.
constexpr std::int64_t kRowsPerTask = 4;

struct Block {
  void (*kernel)(const CrossEntropyForward&);
  float *tops, *log_sums;
  const float* logits;
  std::int64_t cols;
};

// The kernel's sums leave out the label's exponential, which is that of the first class here.
void run(const Block& b, Range range, int) {
  constexpr std::int32_t kFirstClass[kRowsPerTask] = {};
  float losses[kRowsPerTask], others[kRowsPerTask];
  std::int32_t hits[kRowsPerTask];
  const float* const logits = b.logits + range.first * b.cols;
  float* const tops = b.tops + range.first;
  b.kernel({losses, tops, others, hits, logits, kFirstClass, range.count, b.cols, 0.0f});
  for (std::int64_t r = 0; r < range.count; ++r) {
    const double first = fixed_exp(static_cast<double>(logits[r * b.cols]) - static_cast<double>(tops[r]));
    b.log_sums[range.first + r] = static_cast<float>(fixed_log(static_cast<double>(others[r]) + first));
  }
}

enum : std::size_t { kLogits, kTops, kLogSums };

void launch(const NodeView& node, Launch& l) {
  l.step(Block{l.kernels.cross_entropy_forward, l.at(node[kTops]), l.at(node[kLogSums]), l.at(node[kLogits]),
               node.cols(kLogits)},
         {node.rows(kLogits), kRowsPerTask}, run);
}

constexpr OperationKind kKind{"log_sums", cost_by_elements<kLogits, 15, 4>, launch};

}  // namespace log_sums_operation
}  // namespace

LogSums log_sums(Graph& graph, Tensor logits) {
  const Extent rows = graph[logits].rows;
  const LogSums sums = {graph.activation("top", rows, 1), graph.activation("log_sum", rows, 1)};
  graph.add(log_sums_operation::kKind, {reads(logits), writes(sums.top), writes(sums.log_sum)});
  return sums;
}

}  // namespace bascule
