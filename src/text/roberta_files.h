// SPDX-License-Identifier: Apache-2.0
// Reads and checks the files of a byte-level BPE tokenizer as RoBERTa has it.
#pragma once

#include "src/text/bpe_files.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json, or vocab.json with merges.txt; then special_tokens_map.json, tokenizer_config.json and
// added_tokens.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for a BPE with
// options that RoBERTa's does not have.
BpeFiles read_roberta_files(const TokenizerFolder& folder);

}  // namespace bascule
