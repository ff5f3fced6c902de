// SPDX-License-Identifier: Apache-2.0
#include "src/draw/prompt_tokenizer.h"

#include "src/base/error.h"
#include "src/text/tokenizer_kinds.h"

namespace bascule {

PromptTokenizer::PromptTokenizer(const Pipeline& pipeline)
    : length_(pipeline.prompt_tokens()),
      tokenizer_(load_tokenizer(pipeline.tokenizer_folder())),
      decoder_(load_token_decoder(pipeline.tokenizer_folder())) {
  if (tokenizer_->vocabulary_size() > pipeline.text.vocab_size)
    throw Error(ErrorKind::kData, pipeline.tokenizer_folder(),
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
