// SPDX-License-Identifier: Apache-2.0
// The checksums of a changed PNG put right: without it, hardly one would be looked at behind its first wrong chunk.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bascule::test {

inline std::uint32_t crc32_of(const std::uint8_t* bytes, std::size_t size) {
  std::uint32_t sum = ~0u;
  for (std::size_t i = 0; i < size; ++i) {
    sum ^= bytes[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum % 2 != 0 ? 0xEDB88320u : 0u);
  }
  return ~sum;
}

// Corrects the checksum of every chunk that lies in the file as a whole.
inline void mend_png_checksums(std::uint8_t* bytes, std::size_t size) {
  for (std::size_t at = 8; at + 12 <= size;) {
    const std::size_t length = std::size_t{bytes[at]} << 24 | std::size_t{bytes[at + 1]} << 16 |
                               std::size_t{bytes[at + 2]} << 8 | bytes[at + 3];
    if (length > size - at - 12) return;
    const std::uint32_t sum = crc32_of(bytes + at + 4, length + 4);
    for (std::size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    at += length + 12;
  }
}

}  // namespace bascule::test
