// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bascule {

// Area under the receiver operating curve: the chance that a positive scores above a negative, ties counting half.
// order: `count` numbers of scratch. 0.5 if one class is missing. Allocates nothing.
double area_under_curve(const float* scores, const std::int32_t* labels, std::int32_t* order,
                        std::int64_t count) noexcept;

}  // namespace bascule
