// SPDX-License-Identifier: Apache-2.0
// Normal deviates by coordinates: initial weights and first latents have one law. Usable before and after the seal.
#pragma once

#include <cstdint>

#include "src/base/philox.h"

namespace bascule {

// destination[i] = deviation * z(first + i) for i < count, where z(e) is deviate e % 4 of the block of four that the
// Philox words at counter (e / 4, stream), 64 bits each, make (elementary.h): N(0, 1), a function of (key, stream, e),
// however a tensor is split. Rounded once, to float32.
void fill_normal(float* destination, std::int64_t first, std::int64_t count, double deviation, PhiloxKey key,
                 std::uint64_t stream) noexcept;

}  // namespace bascule
