// SPDX-License-Identifier: Apache-2.0
// The files of byte-level BPE tokenizers, RoBERTa's and CLIP's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "src/text/side_tokens.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// The files of a byte-level BPE tokenizer, and the readers of the folders of RoBERTa and CLIP;
// vocabulary.h turns it into tables. All throw Error (kData) for a file that is missing or malformed.

struct BpeFiles {
  std::string where;  // the file that the tokens are from, for messages
  TokenIds tokens;    // token as written (bytes as the byte-level alphabet) -> id
  std::string merges_where;
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::string word_end;  // what a token has at its end that ends a piece; empty: nothing
  std::vector<AddedToken> added;
  std::string unknown_byte;  // the token for a byte that is none; empty: such a byte is left out
  std::string bos = "<s>", eos = "</s>", pad = "<pad>", mask = "<mask>", unk = "<unk>";
  bool adds_space = false;      // before a text, and behind added tokens in it, where there is none
  bool has_bert_pairs = false;  // <s> a </s> b </s>, with types 0 and 1; RoBERTa's are <s> a </s></s> b </s> of type 0
};

// tokenizer.json's model: vocabulary and merges. Refuses options of BPE that neither RoBERTa's nor CLIP's has.
void read_bpe_model(const TokenizerFolder& folder, BpeFiles* files);
// vocab.json with merges.txt.
void read_vocabulary_and_merges(const TokenizerFolder& folder, BpeFiles* files);

// A later mention of a token replaces an earlier one.
void put_added(AddedToken token, const std::string& where, BpeFiles* files);
// The "type" of a member that is an object; "null" where there is none.
std::string type_of(const Json& object, const std::string& key, const std::string& where);

// By id, each token as the files write it, in the byte-level alphabet.
std::vector<std::string> token_texts(const BpeFiles& files);

[[noreturn]] void refuse_bpe(const std::string& where, const std::string& what);

// Reads and checks the files of a byte-level BPE tokenizer as RoBERTa has it.

// tokenizer.json, or vocab.json with merges.txt; then special_tokens_map.json, tokenizer_config.json and
// added_tokens.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for a BPE with
// options that RoBERTa's does not have.
BpeFiles read_roberta_files(const TokenizerFolder& folder);

// Reads and checks the files of CLIP's tokenizer, by the rules of Transformers 5.

// tokenizer.json, or vocab.json with merges.txt; then tokenizer_config.json, special_tokens_map.json and
// added_tokens.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for a
// tokenizer.json whose pipeline is not CLIP's. Added tokens that are looked for in the normalised text are normalised.
BpeFiles read_clip_files(const TokenizerFolder& folder);

}  // namespace bascule
