// SPDX-License-Identifier: Apache-2.0
// The area under the receiver operating curve: the chance that a positive scores above a negative, ties counting half.
// Sealed: allocates nothing.
#pragma once

#include <cstdint>

namespace bascule {

// scores, labels: (count); a label of 1 is a positive. order: (count) scratch. 0.5 if one class is missing.
double area_under_curve(const float* scores, const std::int32_t* labels, std::int32_t* order,
                        std::int64_t count) noexcept;

}  // namespace bascule
