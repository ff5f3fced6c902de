// SPDX-License-Identifier: Apache-2.0
// Operands of kernels that take float32 or bf16, before an unreadable page.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/reference/bf16.h"
#include "tests/support/guarded_buffer.h"

namespace bascule::test {

// The values, or for std::uint16_t the values rounded to bf16.
template <typename Number>
GuardedBuffer<Number> guarded(const std::vector<float>& values) {
  GuardedBuffer<Number> buffer(values.size());
  if constexpr (std::is_same_v<Number, float>) {
    std::copy(values.begin(), values.end(), buffer.begin());
  } else {
    reference::to_bf16({buffer.data(), values.data(), static_cast<std::int64_t>(values.size())});
  }
  return buffer;
}

}  // namespace bascule::test
