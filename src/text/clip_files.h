// SPDX-License-Identifier: Apache-2.0
// Reads and checks the files of CLIP's tokenizer, by the rules of Transformers 5.
#pragma once

#include "src/text/bpe_files.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json, or vocab.json with merges.txt; then tokenizer_config.json, special_tokens_map.json and
// added_tokens.json where they exist. Throws Error (kData) for a file that is missing or malformed, and for a
// tokenizer.json whose pipeline is not CLIP's. Added tokens that are looked for in the normalised text are normalised.
BpeFiles read_clip_files(const TokenizerFolder& folder);

}  // namespace bascule
