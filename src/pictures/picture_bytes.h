// SPDX-License-Identifier: Apache-2.0
// The pixels of a generated picture as bytes. Usable before and after the seal.
#pragma once

#include <cstdint>

namespace bascule {

// bytes[i] = 255 clamp(values[i] / 2 + 1/2, 0, 1) rounded half to even, all in float32; a NaN becomes 0. values: a
// decoder's output, -1 black and 1 white, as it lies in memory. Source: VaeImageProcessor.postprocess of diffusers.
void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept;

}  // namespace bascule
