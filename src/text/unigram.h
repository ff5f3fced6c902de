// SPDX-License-Identifier: Apache-2.0
// SentencePiece's unigram tokenizer, as Transformers' T5Tokenizer with tokenizers 0.23: special tokens written in the
// text are taken first; the text between them is normalised by a map of characters and cut into words that begin with
// "▁"; each word becomes the pieces whose log probabilities have the greatest sum (Viterbi), the one found first of
// equal ones. A character that no piece covers costs 10 more than the rarest piece; neighbours of that kind are one
// unknown token. Before the seal; throws Error (kData).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/text/token_decoder.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json; spiece.model alone is refused.
std::unique_ptr<const Tokenizer> load_unigram(const TokenizerFolder& folder);
// Each token as the file writes it.
std::vector<std::string> unigram_texts(const TokenizerFolder& folder);
std::unique_ptr<const TokenDecoder> load_unigram_decoder(const TokenizerFolder& folder);

}  // namespace bascule
