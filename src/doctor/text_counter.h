// SPDX-License-Identifier: Apache-2.0
// Counts texts by their tokens. Where a text is longer than may be, the digest is that of the tokens that are left.
#pragma once

#include <cstdint>

#include "src/base/span.h"
#include "src/doctor/diagnosis.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The greatest length with a count of its own.
inline constexpr std::int64_t kLongestCounted = 65536;

class TextCounter {
 public:
  // special: the special tokens of a text.
  TextCounter(const Tokenizer& tokenizer, std::int64_t special, TextFigures* figures)
      : unknown_id_(tokenizer.unknown_id()), special_(special), figures_(*figures) {}

  struct Text {
    std::int64_t unknown = 0;
    bool is_cut = false, is_empty = false, is_all_unknown = false;
  };
  // ids: all of a text's tokens, special ones too. is_blank: it has nothing but spaces, which may be tokens.
  Text add(Span<const std::int32_t> ids, bool is_blank = false);

 private:
  std::int32_t unknown_id_;
  std::int64_t special_;
  TextFigures& figures_;
};

}  // namespace bascule
