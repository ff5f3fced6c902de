// SPDX-License-Identifier: Apache-2.0
// The size in the header of a changed WebP put right: without it, one that was cut is "truncated" before anything else
// of it is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace bascule::test {

// Nothing happens to a file that is not RIFF.
inline void mend_riff_size(std::uint8_t* bytes, std::size_t size) {
  if (size < 8 || std::memcmp(bytes, "RIFF", 4) != 0) return;
  for (std::size_t i = 0; i < 4; ++i) bytes[4 + i] = static_cast<std::uint8_t>((size - 8) >> 8 * i);
}

}  // namespace bascule::test
