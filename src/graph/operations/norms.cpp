// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation of rows, alone or joined to the residual sum before it.
#include <string>
#include <vector>

#include "src/base/check.h"
#include "src/graph/backward.h"
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {

// Attributes of the operation and of its gradient.
struct Norm {
  float epsilon;
  DropoutPlace dropout;
};

// Places of the operation. Without kH the rows are x's own, and kSum is x. kBias and kMean: layer_norm's alone.
namespace norm {
enum : std::size_t { kX, kH, kWeight, kBias, kKeys, kSum, kY, kMean, kRstd };
}
// Places of its gradient. kSum: the rows that were normalised. kDSum, kDWeight, kDBias, kDH, kParts may be empty.
namespace norm_gradient {
enum : std::size_t { kDY, kSum, kMean, kRstd, kWeight, kDSum, kKeys, kDX, kDWeight, kDBias, kDH, kParts };
}

// kind: "layer_norm", with bias, or "rms_norm", with an empty one. h: empty where nothing is added.
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

// Emits `gradient` for the node, if anybody wants one of its gradients.
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

// Adds up the parts that the gradient's tasks wrote, (tasks, places * cols), into the gradients at these places.
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
    l.add_sum_of_parts(sum, first, cols, stride, by_rows(rows, cols));
  }
}

// What the two norms differ in. Flops are those of an element.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  static constexpr const char* kGradientName = "layer_norm_backward";
  static constexpr double kFlops = 8.0, kGradientFlops = 14.0;
  static constexpr std::size_t kParts = 2;  // of d_weight and d_bias
  static auto forward(const KernelTable& kernels) { return kernels.layer_norm_forward; }
  static auto backward(const KernelTable& kernels) { return kernels.layer_norm_backward; }
};
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  static constexpr const char* kGradientName = "rms_norm_backward";
  static constexpr double kFlops = 4.0, kGradientFlops = 11.0;
  static constexpr std::size_t kParts = 1;  // of d_weight
  static auto forward(const KernelTable& kernels) { return kernels.rms_norm_forward; }
  static auto backward(const KernelTable& kernels) { return kernels.rms_norm_backward; }
};

template <typename Kind>
struct NormGradient {
  struct Block {
    void (*kernel)(const RowNormBackward&);
    RowNormBackward whole;
    float* parts;  // (tasks, kParts, cols)
  };

  static void run(const Block& b, Range range, int) {
    RowNormBackward a = part_of(b.whole, range.first, range.count);
    a.d_gamma_part = advance(b.parts, range.task * static_cast<std::int64_t>(Kind::kParts) * a.cols);
    if (Kind::kParts > 1) a.d_beta_part = advance(a.d_gamma_part, a.cols);
    b.kernel(a);
  }

  static Cost cost(const NodeView& node, const BatchCounts& counts) {
    using namespace norm_gradient;
    const double elements = node.elements(kSum, counts);
    return {Kind::kGradientFlops * elements,
            4.0 * elements * (node[kDSum] ? 4.0 : 3.0) + (node[kDH] ? 4.0 * elements : 0.0)};
  }

  static void launch(const NodeView& node, Launch& l) {
    using namespace norm_gradient;
    Block block{};
    block.kernel = Kind::backward(l.kernels);
    RowNormBackward& a = block.whole;
    a.d_x = l.at(node[kDX]);
    a.d_h = l.at(node[kDH]);
    a.d_sum = l.at(node[kDSum]);
    a.d_y = l.at(node[kDY]);
    a.sum = l.at(node[kSum]);
    a.mean = l.at(node[kMean]);
    a.rstd = l.at(node[kRstd]);
    a.gamma = l.at(node[kWeight]);
    a.cols = node.cols(kSum);
    block.parts = l.at(node[norm_gradient::kParts]);
    Block* const b = l.step(block, by_rows(node.rows(kSum), a.cols), run);
    l.operand(&b->whole.row_keys, node[kKeys]);
    l.dropout(&b->whole.dropout, node.as<Norm>().dropout);
    l.adds(&b->whole.accumulate, node.operand(kDX).access);
    constexpr std::size_t kGradients[] = {kDWeight, kDBias};
    launch_sums_of_parts(node, l, {kGradients, kGradients + Kind::kParts});
  }

  static constexpr OperationKind kKind{Kind::kGradientName, cost, launch};
};

template <typename Kind>
struct NormOperation {
  static Cost cost(const NodeView& node, const BatchCounts& counts) {
    const double elements = node.elements(norm::kX, counts);
    return {Kind::kFlops * elements, 4.0 * elements * (node[norm::kH] ? 4.0 : 2.0)};
  }

  static void derive(const NodeView& node, Backward& b) { derive_norm(node, b, NormGradient<Kind>::kKind); }

  static void launch(const NodeView& node, Launch& l) {
    using namespace norm;
    const Norm attributes = node.as<Norm>();
    RowNormForward a{};
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
    RowNormForward* const stored = l.kernel(Kind::forward(l.kernels), a, by_rows_evenly(l, node.rows(kX), a.cols));
    l.operand(&stored->row_keys, node[kKeys]);
    l.dropout(&stored->dropout, attributes.dropout);
  }

  static constexpr OperationKind kKind{Kind::kName, cost, launch, derive, nullptr, places(norm::kY)};
};

}  // namespace

Tensor layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, Tensor bias, float epsilon) {
  return record_norm(graph, NormOperation<LayerNorm>::kKind, name, x, Tensor{}, weight, bias, {epsilon, {}}, Tensor{})
      .y;
}

Normalized add_layer_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, Tensor bias,
                          float epsilon, DropoutPlace dropout, Tensor row_keys) {
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  return record_norm(graph, NormOperation<LayerNorm>::kKind, name, x, h, weight, bias, {epsilon, dropout}, keys);
}

Tensor rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor weight, float epsilon) {
  return record_norm(graph, NormOperation<RmsNorm>::kKind, name, x, Tensor{}, weight, Tensor{}, {epsilon, {}}, Tensor{})
      .y;
}

Normalized add_rms_norm(Graph& graph, const std::string& name, Tensor x, Tensor h, Tensor weight, float epsilon,
                        DropoutPlace dropout, Tensor row_keys) {
  const Tensor keys = dropout.probability > 0.0f ? row_keys : Tensor{};
  return record_norm(graph, NormOperation<RmsNorm>::kKind, name, x, h, weight, Tensor{}, {epsilon, dropout}, keys);
}

}  // namespace bascule
