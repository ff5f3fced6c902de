// SPDX-License-Identifier: Apache-2.0
#include "src/draw/prompt_tokenizer.h"

#include "src/base/error.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

PromptTokenizer::PromptTokenizer(const Pipeline& pipeline, const std::string& folder)
    : length_(pipeline.prompt_tokens()),
      folder_(folder.empty() ? pipeline.tokenizer_folder() : folder),
      tokenizer_(load_tokenizer(folder_)),
      decoder_(load_token_decoder(folder_)) {
  if (tokenizer_->vocabulary_size() > pipeline.text.vocab_size)
    throw Error(ErrorKind::kData, folder_,
                "has " + std::to_string(tokenizer_->vocabulary_size()) + " tokens, but the text encoder has only " +
                    std::to_string(pipeline.text.vocab_size),
                "the parts are of different pipelines");
}

EncodedPrompt PromptTokenizer::encode(const std::string& text, const std::string& where) const {
  try {
    return encode_prompt(*tokenizer_, *decoder_, text, length_);
  } catch (const Error& error) {
    throw Error(error.kind(), where, error.problem(), error.what_to_do());
  }
}

}  // namespace bascule
