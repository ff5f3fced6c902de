// SPDX-License-Identifier: Apache-2.0
// CLIP's byte-level BPE, as Transformers' CLIPTokenizer with tokenizers 0.23: the text is normalised (clip_text.h), cut
// into pieces by two patterns (pieces.h), and the last letter of a piece carries "</w>". Before the seal; throws Error
// (kData).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/text/token_decoder.h"
#include "src/text/tokenizer.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

// tokenizer.json, or vocab.json and merges.txt, and the files beside them that clip_files.h names.
std::unique_ptr<const Tokenizer> load_clip(const TokenizerFolder& folder);
// Each token as the files write it, in the byte-level alphabet.
std::vector<std::string> clip_texts(const TokenizerFolder& folder);
// A space follows each piece; bytes that are no UTF-8 become U+FFFD; white space at both ends goes.
std::unique_ptr<const TokenDecoder> load_clip_decoder(const TokenizerFolder& folder);

}  // namespace bascule
