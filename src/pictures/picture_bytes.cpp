// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_bytes.h"

namespace bascule {

void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept {
  // Added to a number from 0 to 2^22, this leaves it no bits behind the point: the addition rounds it.
  constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23
  for (std::int64_t i = 0; i < count; ++i) {
    const float share = values[i] * 0.5f + 0.5f;
    const float clamped = share > 0.0f ? (share < 1.0f ? share : 1.0f) : 0.0f;
    bytes[i] = static_cast<std::uint8_t>((clamped * 255.0f + kRounds) - kRounds);
  }
}

}  // namespace bascule
