// SPDX-License-Identifier: Apache-2.0
// BERT's WordPiece, as Transformers' BertTokenizer with tokenizers 0.23: special tokens written in the text are taken
// first; then the text is cleaned, marks are dropped and case is lowered where the files say so, it is split at white
// space and punctuation, and each word is cut from the left into the longest pieces of the vocabulary. A word that
// cannot be, or that has more than 100 characters, is one unknown token. Before the seal; throws Error (kData).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json, or vocab.txt and tokenizer_config.json.
std::unique_ptr<const Tokenizer> load_word_piece(const TokenizerFolder& folder);
// Each token as the files write it.
std::vector<std::string> word_piece_texts(const TokenizerFolder& folder);

}  // namespace bascule
