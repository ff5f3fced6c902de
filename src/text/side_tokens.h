// SPDX-License-Identifier: Apache-2.0
// What the files of a folder say of single tokens beside the vocabulary, as Transformers 5 reads them: which have a
// role, and which are found in the text before it is split. Throws Error (kData) for a file that is malformed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/added_tokens.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

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

// tokenizer_config.json, special_tokens_map.json, added_tokens.json and tokenizer.json. Where tokenizer_config.json
// lists the added tokens, the lists of other files and special_tokens_map.json do not count. names: of roles that no
// file names.
SideTokens read_side_tokens(const TokenizerFolder& folder, const std::map<TokenRole, const char*>& names);

// The tokens that are found in the text, each once: those that are listed, then those with a role, then the further
// ones; of equal texts the later counts. id_in_vocabulary: of a token of the vocabulary, else -1. An id that
// Transformers would not give, and a token that neither the vocabulary nor a list has, are refused.
std::vector<AddedToken> added_tokens(const SideTokens& side, std::int32_t vocabulary_size,
                                     const std::function<std::int32_t(const std::string&)>& id_in_vocabulary,
                                     const std::string& where);

// Sets `normalised` of the tokens that are.
void normalise_added(const std::function<std::string(std::string_view)>& normalise, const std::string& where,
                     std::vector<AddedToken>* tokens);

}  // namespace bascule
