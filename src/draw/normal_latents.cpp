// SPDX-License-Identifier: Apache-2.0
#include "src/draw/normal_latents.h"

#include "src/base/normal_values.h"
#include "src/base/philox.h"

namespace bascule {

void fill_normal_latents(float* latents, std::uint64_t seed, std::uint64_t picture, std::int64_t first,
                         std::int64_t count) noexcept {
  constexpr std::uint32_t kUse = 0x6c617465u;  // "late"
  fill_normal(latents, first, count, 1.0, derive_key(seed, kUse), picture);
}

}  // namespace bascule
