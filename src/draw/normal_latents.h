// SPDX-License-Identifier: Apache-2.0
// The noise that a picture begins with. Usable before and after the seal.
#pragma once

#include <cstdint>

namespace bascule {

// latents[i] = element first + i of the picture's noise, N(0, 1): a function of (seed, picture, element), so a picture
// does not depend on the batch that it is in. Elements are numbered as latents lie in memory: pixel by pixel, the
// channels of a pixel side by side.
void fill_normal_latents(float* latents, std::uint64_t seed, std::uint64_t picture, std::int64_t first,
                         std::int64_t count) noexcept;

}  // namespace bascule
