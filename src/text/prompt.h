// SPDX-License-Identifier: Apache-2.0
// A prompt as the text encoder of a pipeline wants it: always the same number of ids. Before the seal.
//
//   const EncodedPrompt prompt = encode_prompt(*tokenizer, *decoder, "a cat asleep on a radiator", 77);
//   if (prompt.tokens_cut > 0) say(prompt.text_cut);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/token_decoder.h"
#include "src/text/tokenizer.h"

namespace bascule {

struct EncodedPrompt {
  std::vector<std::int32_t> ids;  // special tokens around the text, cut on the right; then the tokenizer's pad_id()
  std::int64_t tokens_cut = 0;    // the text's tokens that did not fit
  std::string text_cut;           // what they say, decoded; may be empty where they are part of a character
};

// Exactly `length` ids. Both are of one folder (load_tokenizer(), load_token_decoder()); length has room for the
// special tokens, and a pad token exists. Throws Error (kData) naming the first byte that is not UTF-8.
EncodedPrompt encode_prompt(const Tokenizer& tokenizer, const TokenDecoder& decoder, std::string_view prompt,
                            std::int64_t length);

}  // namespace bascule
