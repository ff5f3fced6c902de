// SPDX-License-Identifier: Apache-2.0
// Entities of a text from the labels of its tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/span.h"
#include "src/text/tokenizer.h"

namespace bascule {

// Entities of a text, from the logits of its tokens, as the token classification pipeline of Transformers finds them
// with aggregation_strategy = "first": a word has the tag of its first token. Source: Transformers 5.23,
// pipelines/token_classification.py.

struct TextEntity {
  std::string_view type;  // what stands behind B- or I- in the tag
  double score = 0.0;     // mean probability of the tags of its words
  std::string_view text;
  std::int64_t start = 0, end = 0;  // [start, end) of the text's characters (Unicode code points)
};

// A word: the tokens that begin with one that does not continue another.
struct TaggedWord {
  std::size_t begin = 0, end = 0;  // bytes of the text
  std::int64_t token = 0;          // the first
  std::int64_t tag = 0;            // of that
  double probability = 0.0;
};

// A tokenizer and what its tokens look like.
struct TokenWords {
  const Tokenizer& tokenizer;
  const std::vector<std::string>& texts;  // of tokens by id, as the files write them
};

// The words of a text, without their tags, into `words`, which has room for as many as there are tokens; their number.
// tokens: of the text, without special ones. Allocates nothing, as the two below.
std::size_t find_words(Span<TaggedWord> words, std::string_view text, Span<const PlacedToken> tokens,
                       const TokenWords& how) noexcept;
// logits: (tokens, tags).
void tag_words(Span<TaggedWord> words, const float* logits, std::int64_t tags) noexcept;

// The entities of a text in turn, from its words. Those without a type, of tag "O", are left out.
class EntityReader {
 public:
  // All outlive this.
  EntityReader(std::string_view text, Span<const TaggedWord> words, const std::vector<std::string>& names) noexcept
      : text_(text), words_(words), names_(names) {}
  // False: there are no more.
  bool next(TextEntity* entity) noexcept;

 private:
  std::int64_t characters_before(std::size_t byte) noexcept;

  const std::string_view text_;
  const Span<const TaggedWord> words_;
  const std::vector<std::string>& names_;
  std::size_t first_ = 0;        // the word of the next entity
  std::size_t counted_ = 0;      // bytes whose characters were counted
  std::int64_t characters_ = 0;  // these
};

// All of them; their texts are parts of `text` and `names`. logits: (tokens, names).
std::vector<TextEntity> text_entities(const std::string& text, const std::vector<PlacedToken>& tokens,
                                      const float* logits, const std::vector<std::string>& names,
                                      const TokenWords& words);

}  // namespace bascule
