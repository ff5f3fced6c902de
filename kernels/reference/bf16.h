// SPDX-License-Identifier: Apache-2.0
// Reference for kernels/bf16.h, one number at a time.
#pragma once

#include <cstring>

#include "kernels/bf16.h"

namespace bascule::reference {

inline void to_bf16(const ToBf16& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, a.x + i, sizeof bits);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const std::uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    a.out[i] = static_cast<std::uint16_t>((is_nan ? bits | 0x400000u : rounded) >> 16);
  }
}

inline void from_bf16(const FromBf16& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(a.x[i]) << 16;
    std::memcpy(a.out + i, &bits, sizeof bits);
  }
}

}  // namespace bascule::reference
