// SPDX-License-Identifier: Apache-2.0
// Tokens that are found in the text as they stand, before it is split or merged.
//
//   for (AddedMatch added; added.next < text.size();) {
//     const std::size_t begin = added.end;
//     added = tokens.find(text, added);
//     tokenize(text.substr(begin, added.begin - begin));
//     if (added.id >= 0) put(added.id);
//   }
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
  bool is_word = false;             // single_word: not found where a word character is beside it
  std::string normalised;           // the text, where `normalized` and a kind of tokenizer normalises

  // As it is looked for, and shown.
  const std::string& found_as() const noexcept { return normalised.empty() ? text : normalised; }
};

// All that tells the token from others, for a digest.
std::string said_of(const AddedToken& token);

struct AddedMatch {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;  // -1: none, begin and end are the text's end
  std::size_t next = 0;  // where the search goes on: before `end` where the token takes space after it
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Those of which `normalized` is this.
  AddedTokens(const std::vector<AddedToken>& tokens, bool normalized);
  // The first token after `previous`, the longest where several begin together, with the white space that it takes. As
  // in the tokenizers library, one that is no word is skipped whole, with shorter ones that begin in it.
  AddedMatch find(std::string_view text, const AddedMatch& previous) const noexcept;
  bool empty() const noexcept { return tokens_.empty(); }

 private:
  std::vector<AddedToken> tokens_;  // the longest first
  bool is_first_byte_[256] = {};    // where a search has to look closer
};

}  // namespace bascule
