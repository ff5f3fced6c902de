// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a pipeline's folder, for prompts of the length that its text encoder reads. Before the seal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/draw/pipeline.h"
#include "src/text/prompt.h"

namespace bascule {

class PromptTokenizer {
 public:
  // folder: of a tokenizer in place of the pipeline's own; "": its own. Throws Error kData, also where the tokenizer
  // has ids that the text encoder does not.
  explicit PromptTokenizer(const Pipeline& pipeline, const std::string& folder = "");

  // where: for the error of a text that is not UTF-8.
  EncodedPrompt encode(const std::string& text, const std::string& where) const;

  // Equal for tokenizers whose files say the same.
  std::uint64_t digest() const noexcept { return tokenizer_->digest(); }

 private:
  const std::int64_t length_;
  const std::string folder_;
  const std::unique_ptr<const Tokenizer> tokenizer_;
  const std::unique_ptr<const TokenDecoder> decoder_;
};

}  // namespace bascule
