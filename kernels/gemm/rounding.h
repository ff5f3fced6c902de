// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace bascule {

// For a >= 0 and b >= 1.
constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace bascule
