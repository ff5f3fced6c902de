// SPDX-License-Identifier: Apache-2.0
// Reads and checks tokenizer.json of a SentencePiece unigram tokenizer, as T5 has it. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/text/added_tokens.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

struct UnigramFiles {
  struct Piece {
    std::string text;
    double score = 0.0;  // log probability
  };

  std::string where;          // tokenizer.json, for messages
  std::vector<Piece> pieces;  // by id
  std::vector<AddedToken> added;
  std::int32_t unknown = -1, end = -1, pad = -1;
  std::string character_map;  // bytes of precompiled_charsmap; empty: none
  // The published forms of the pipeline. splits_at_space: words end at white space. Otherwise at spaces alone, white
  // space at the end of the text is dropped, and joins_spaces: several spaces are one.
  bool splits_at_space = false, joins_spaces = false;
  bool joins_with_sign = false;  // the one space is the sign of a word's beginning
};

// Throws Error (kData) for a file that is malformed, a form of the pipeline that T5 does not have, a vocabulary without
// an unknown token, and a folder with spiece.model alone.
UnigramFiles read_unigram_files(const TokenizerFolder& folder);

}  // namespace bascule
