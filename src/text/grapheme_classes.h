// SPDX-License-Identifier: Apache-2.0
// Where the tokenizers library sees the bounds of grapheme clusters (Unicode 17), as far as clusters of fewer than six
// bytes need it: a character and the marks behind it.
#pragma once

#include <cstdint>

namespace bascule {

enum class GraphemeClass : std::uint8_t {
  kOther,
  kContinues,  // belongs to the character before it, unless that stands alone
  kAlone,      // a control character; CR and LF together are one cluster
};

// Any number is allowed; what is no code point is kOther.
GraphemeClass grapheme_class(std::uint32_t code_point) noexcept;

}  // namespace bascule
