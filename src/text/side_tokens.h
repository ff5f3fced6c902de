// SPDX-License-Identifier: Apache-2.0
// Tokens beside the vocabulary: ids, roles, added tokens.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/json/json.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// The ids of tokens as the files of tokenizers hold them.

// More than any vocabulary has. A larger id is a fault of the file; no table is made for it.
inline constexpr std::int64_t kMostTokenIds = std::int64_t{1} << 22;

// The id that a file gives to a token. Throws Error (kData) unless it is a whole number from 0 to below kMostTokenIds.
std::int32_t token_id(const Json& value, const std::string& token, const std::string& where);

// Tokens that are found in the text as they stand, before it is split or merged.
//
//   for (AddedMatch added; added.next < text.size();) {
//     const std::size_t begin = added.end;
//     added = tokens.find(text, added);
//     tokenize(text.substr(begin, added.begin - begin));
//     if (added.id >= 0) put(added.id);
//   }

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

// Single tokens in a folder's files beside the vocabulary, as Transformers 5 reads them: which have a
// role, and which are found in the text before it is split. Throws Error (kData) for a file that is malformed.

// {"content": "<mask>", "lstrip": true, ...}, as in tokenizer.json, special_tokens_map.json and added_tokens_decoder.
AddedToken added_token(const Json& value, const std::string& where);

// The token that a key of tokenizer_config.json or special_tokens_map.json names: a string, or an object as above.
AddedToken special_token(const Json& value, const std::string& key, const std::string& where);

// The special tokens that such a file names without a role: in lists, and by keys that end in "_token".
std::vector<AddedToken> further_tokens(const Json& map, const std::string& where);

// Places in SideTokens::roles.
enum TokenRole : std::uint8_t { kBosToken, kEosToken, kUnkToken, kPadToken, kSepToken, kClsToken, kMaskToken };

struct SideTokens {
  std::array<AddedToken, 7> roles;            // without a text: there is no such token
  std::vector<AddedToken> further;            // special tokens without a role
  std::map<std::int32_t, AddedToken> listed;  // tokens that a file lists with their ids, by id
};

// The ids of a vocabulary's tokens. id_in() returns the id of one of them, or of an added one; -1 if there is none.
using TokenIds = std::unordered_map<std::string, std::int32_t>;
std::int32_t id_in(const TokenIds& vocabulary, const std::string& token);
std::int32_t id_in(const TokenIds& vocabulary, const std::vector<AddedToken>& added, const std::string& token);

// tokenizer_config.json, special_tokens_map.json, added_tokens.json and tokenizer.json. Where tokenizer_config.json
// lists the added tokens, the lists of other files and special_tokens_map.json do not count. names: of roles that no
// file names.
SideTokens read_side_tokens(const TokenizerFolder& folder, const std::map<TokenRole, const char*>& names);

// The tokens that are found in the text, each once: those that are listed, then those with a role, then the further
// ones; of equal texts the later counts. An id that Transformers would not give, and a token that neither the
// vocabulary nor a list has, are refused.
std::vector<AddedToken> added_tokens(const SideTokens& side, std::size_t vocabulary_size, const TokenIds& vocabulary,
                                     const std::string& where);

// Of the special ones, ascending.
std::vector<std::int32_t> special_ids_of(const std::vector<AddedToken>& tokens);

// Sets `normalised` of the tokens that are.
void normalise_added(const std::function<std::string(std::string_view)>& normalise, const std::string& where,
                     std::vector<AddedToken>* tokens);

}  // namespace bascule
