// SPDX-License-Identifier: Apache-2.0
// Reads and checks the files of a WordPiece tokenizer. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/text/added_tokens.h"
#include "src/text/tokenizer_kinds.h"
#include "src/text/word_piece_text.h"

namespace bascule {

struct WordPieceFiles {
  std::string where;                                     // the file that the tokens are from, for messages
  std::unordered_map<std::string, std::int32_t> tokens;  // "play", "##ing" -> id
  std::vector<AddedToken> added;
  WordPieceNormalizer normalizer;
  bool has_types = true;  // of the texts of a pair
  std::string cls = "[CLS]", sep = "[SEP]", pad = "[PAD]", mask = "[MASK]", unk = "[UNK]";
};

// tokenizer.json, or vocab.txt (a token a line, numbered from 0); then tokenizer_config.json and
// special_tokens_map.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for
// options that BertTokenizer does not have.
WordPieceFiles read_word_piece_files(const TokenizerFolder& folder);

}  // namespace bascule
