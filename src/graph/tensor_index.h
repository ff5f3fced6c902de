// SPDX-License-Identifier: Apache-2.0
// The place of a tensor in an array that has one element for each tensor of its graph.
#pragma once

#include <cstddef>

#include "src/graph/operation.h"

namespace bascule {

// tensor: not none.
constexpr std::size_t index_of(Tensor tensor) { return static_cast<std::size_t>(tensor.index); }

}  // namespace bascule
