// SPDX-License-Identifier: Apache-2.0
#include "src/graph/operations/norm_operation.h"

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

}  // namespace bascule
