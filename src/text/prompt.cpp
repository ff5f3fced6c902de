// SPDX-License-Identifier: Apache-2.0
#include "src/text/prompt.h"

#include "src/base/check.h"

namespace bascule {

EncodedPrompt encode_prompt(const Tokenizer& tokenizer, const TokenDecoder& decoder, std::string_view prompt,
                            std::int64_t length) {
  BASCULE_CHECK(tokenizer.pad_id() >= 0);
  EncodedPrompt encoded;
  encoded.ids = tokenizer.encode(prompt, length);
  const std::vector<std::int32_t> whole = tokenizer.encode(prompt);
  if (whole.size() > encoded.ids.size()) {
    const std::size_t cut = whole.size() - encoded.ids.size();
    const Span<const std::int32_t> all(whole);
    encoded.tokens_cut = static_cast<std::int64_t>(cut);
    encoded.text_cut = decoder.decode(all.subspan(encoded.ids.size() - tokenizer.after().size(), cut));
  }
  encoded.ids.resize(static_cast<std::size_t>(length), tokenizer.pad_id());
  return encoded;
}

}  // namespace bascule
