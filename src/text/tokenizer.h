// SPDX-License-Identifier: Apache-2.0
// RoBERTa's byte-level BPE: text to token ids, exactly as Transformers' RobertaTokenizer with tokenizers 0.23. Text is
// not normalised; special tokens written in the text are taken as such; text that is not UTF-8 is refused.
//
//   const Tokenizer tokenizer = Tokenizer::load("model");                  // before the seal
//   std::vector<std::int32_t> ids = tokenizer.encode("two cats", 128);     // <s> ... </s>, at most 128 ids
//
// A loader worker that tokenises after the seal brings its own working memory:
//
//   TokenizerScratch scratch(Span<std::byte>(memory, TokenizerScratch::bytes(longest_caption_bytes)));
//   BASCULE_TRY(tokenizer.encode_into(text, ids, &count, scratch));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/text/merge.h"
#include "src/text/vocabulary.h"

namespace bascule {

class Tokenizer {
 public:
  // A Hugging Face folder: tokenizer.json, or vocab.json and merges.txt with special_tokens_map.json,
  // tokenizer_config.json and added_tokens.json where they exist. tokenizer.json wins where both are there. Throws
  // Error (kData).
  static Tokenizer load(const std::string& folder);

  // <s>, the text's tokens, </s>. max_length (0: no limit, else at least 2) cuts on the right and keeps both ends.
  // Throws Error (kData) naming the first byte that is not UTF-8.
  std::vector<std::int32_t> encode(std::string_view text, std::int64_t max_length = 0) const;

  // The same into ids[0, *count), where ids.size() (at least 2) is the maximal length. After the seal: allocates
  // nothing; work ends with the piece that fills ids. ids and text do not overlap. *count is written only if the status
  // is ok. kBadSample: the text is not UTF-8 (detail: the byte's place, 0), or a piece before the cut is longer than
  // the scratch holds, which cannot be where the scratch was made for the longest text (detail: the piece's place, 1).
  Status encode_into(Span<const char> text, Span<std::int32_t> ids, std::int64_t* count,
                     TokenizerScratch& scratch) const noexcept;

  std::int32_t bos_id() const noexcept { return vocabulary_.bos_id; }
  std::int32_t eos_id() const noexcept { return vocabulary_.eos_id; }
  std::int32_t pad_id() const noexcept { return vocabulary_.pad_id; }
  std::int32_t mask_id() const noexcept { return vocabulary_.mask_id; }
  std::int32_t unk_id() const noexcept { return vocabulary_.unk_id; }
  // One more than the greatest id.
  std::int32_t vocabulary_size() const noexcept { return vocabulary_.size; }
  // Equal for tokenizers whose files say the same.
  std::uint64_t digest() const noexcept { return vocabulary_.digest; }
  // Ids of all special tokens, ascending.
  Span<const std::int32_t> special_ids() const noexcept { return vocabulary_.special_ids; }

 private:
  class Output;
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Status encode_text(std::string_view text, Output& output, TokenizerScratch& scratch) const noexcept;
  Status encode_between(std::string_view text, std::size_t begin, std::size_t end, Output& output,
                        TokenizerScratch& scratch) const noexcept;

  Vocabulary vocabulary_;
};

}  // namespace bascule
