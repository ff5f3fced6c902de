// SPDX-License-Identifier: Apache-2.0
// Canonical decomposition and composition (NFC) and lower case by code point, as the tokenizers library has them: its
// tables for NFC are older than today's Unicode. Hangul, which goes by arithmetic, is in nfc.h.
#pragma once

#include <cstdint>

namespace bascule {

// One or two code points; of one, second is 0.
struct CodePointPair {
  std::uint32_t first = 0, second = 0;
};

// 0: a starter; otherwise marks are put in ascending order of it, the order of equals kept.
std::uint32_t combining_class(std::uint32_t code_point) noexcept;

// What the code point decomposes into in one step: `first` may decompose again. Itself where it does not.
CodePointPair decomposition_step(std::uint32_t code_point) noexcept;

// What NFC makes of two code points that follow each other. 0: they stay two.
std::uint32_t composed_code_point(std::uint32_t first, std::uint32_t second) noexcept;

// Of the character alone: a final sigma is not told from others.
CodePointPair lower_case(std::uint32_t code_point) noexcept;

}  // namespace bascule
