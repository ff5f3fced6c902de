// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), in one line. noexcept, allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "src/base/digest.h"
#include "src/base/span.h"

namespace bascule {

constexpr std::size_t base64_characters(std::size_t bytes) noexcept { return 4 * divide_up<std::size_t>(bytes, 3); }

// Writes so many characters. Returns them.
inline std::string_view write_base64(Span<const std::byte> bytes, char* to) noexcept {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = i; k < i + 3; ++k)
      group = group << 8 | (k < bytes.size() ? static_cast<std::uint32_t>(bytes[k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      to[i / 3 * 4 + k] = i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63u] : '=';
  }
  return {to, base64_characters(bytes.size())};
}

// The SHA-256 of a text, as headers of HTTP have it.
inline std::string_view base64_sha256(std::string_view text, char (&to)[base64_characters(32)]) noexcept {
  Sha256 sum;
  sum.add(text.data(), text.size());
  unsigned char bytes[32];
  sum.end(bytes);
  const void* const begin = bytes;
  return write_base64({static_cast<const std::byte*>(begin), sizeof bytes}, to);
}

}  // namespace bascule
