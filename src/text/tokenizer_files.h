// SPDX-License-Identifier: Apache-2.0
// Reads and checks the files of a byte-level BPE tokenizer; vocabulary.h turns them into tables.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/text/tokenizer_kinds.h"
#include "src/text/vocabulary.h"

namespace bascule {

struct TokenizerFiles {
  std::string where;                                     // the file that the tokens are from, for messages
  std::unordered_map<std::string, std::int32_t> tokens;  // token as written (bytes as the byte-level alphabet) -> id
  std::string merges_where;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::vector<AddedToken> added;
  std::string unknown_byte;  // the token for a byte that is none; empty: such a byte is left out
  std::string bos = "<s>", eos = "</s>", pad = "<pad>", mask = "<mask>", unk = "<unk>";
  bool has_bert_pairs = false;  // <s> a </s> b </s>, with types 0 and 1; RoBERTa's are <s> a </s></s> b </s> of type 0
};

// tokenizer.json, or vocab.json with merges.txt; then special_tokens_map.json, tokenizer_config.json and
// added_tokens.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for a BPE with
// options that RoBERTa's does not have.
TokenizerFiles read_tokenizer_files(const TokenizerFolder& folder);

}  // namespace bascule
