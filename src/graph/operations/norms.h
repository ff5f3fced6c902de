// SPDX-License-Identifier: Apache-2.0
// Shared by the normalisations of rows: their operands, how they are recorded with the residual sum before them, and
// which gradients their backward pass writes.
#pragma once

#include <string>

#include "src/graph/backward.h"
#include "src/graph/operations.h"

namespace bascule {

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
                       Tensor weight, Tensor bias, const Norm& norm, Tensor row_keys);
// Emits `gradient` for the node, if anybody wants one of its gradients.
void derive_norm(const NodeView& node, Backward& b, const OperationKind& gradient);
// Adds up the parts that the gradient's tasks wrote, (tasks, places * cols), into the gradients at these places.
void launch_sums_of_parts(const NodeView& node, Launch& l, const std::vector<std::size_t>& places);

}  // namespace bascule
