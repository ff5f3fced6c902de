// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as they stand, before it is split or merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bascule {

struct AddedToken {
  std::string text;
  std::int32_t id = -1;
  bool takes_space_before = false;  // Hugging Face: lstrip
  bool takes_space_after = false;   // rstrip
  bool special = true;              // counts among TokenizerFacts::special_ids
  bool normalized = false;          // looked for in the normalised text, where a kind of tokenizer has one
};

struct AddedMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;  // -1: none, begin and end are the text's end
};

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);
  // The first token at or after `place`, the longest where several begin together, with the white space that it takes.
  AddedMatch find(std::string_view text, std::size_t place) const noexcept;

 private:
  std::vector<AddedToken> tokens_;  // the longest first
  bool is_first_byte_[256] = {};    // where a search has to look closer
};

}  // namespace bascule
