// SPDX-License-Identifier: Apache-2.0
// The average of the weights. After the seal.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace bascule {

// averages += share * (values - averages), `count` of each; share 1: they become a copy of the values.
void average_weights(const KernelTable& kernels, float* averages, const float* values, std::int64_t count,
                     double share) noexcept;

}  // namespace bascule
