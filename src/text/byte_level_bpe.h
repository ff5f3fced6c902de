// SPDX-License-Identifier: Apache-2.0
// RoBERTa's byte-level BPE, as Transformers' RobertaTokenizer with tokenizers 0.23. Text is not normalised; special
// tokens written in the text are taken as such. Before the seal; throws Error (kData).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json, or vocab.json and merges.txt, with special_tokens_map.json, tokenizer_config.json and
// added_tokens.json where they exist. tokenizer.json wins where both are there.
std::unique_ptr<const Tokenizer> load_byte_level_bpe(const TokenizerFolder& folder);
// Each token as the files write it, in the byte-level alphabet.
std::vector<std::string> byte_level_bpe_texts(const TokenizerFolder& folder);

}  // namespace bascule
