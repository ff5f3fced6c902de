// SPDX-License-Identifier: Apache-2.0
#include "src/graph/launch.h"
#include "src/graph/operations.h"

namespace bascule {
namespace {
namespace round_operation {

enum : std::size_t { kX, kY };

void launch(const NodeView& node, Launch& l) {
  l.kernel(l.kernels.to_bf16, {l.at<std::uint16_t>(node[kY]), l.at(node[kX]), 0},
           by_elements(node.rows(kX), node.cols(kX)));
}

constexpr OperationKind kKind{"round_to_bf16", cost_by_elements<kX, 8, 8>, launch, nullptr, nullptr, places(kY)};

}  // namespace round_operation
}  // namespace

const OperationKind kRoundToBf16 = round_operation::kKind;

}  // namespace bascule
