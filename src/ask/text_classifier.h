// SPDX-License-Identifier: Apache-2.0
// A model that labels texts, and entities from the labels of tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/ask/asked_text.h"
#include "src/json/value.h"
#include "src/models/model.h"
#include "src/runtime/threads.h"
#include "src/session/session.h"
#include "src/text/tokenizer.h"

namespace bascule {

// Entities of a text, from the logits of its tokens, as the token classification pipeline of Transformers finds them
// with aggregation_strategy = "first": a word has the tag of its first token. Source: Transformers 5.23,
// pipelines/token_classification.py.

struct TextEntity {
  std::string type;    // what stands behind B- or I- in the tag
  double score = 0.0;  // mean probability of the tags of its words
  std::string text;
  std::int64_t start = 0, end = 0;  // [start, end) of the text's characters (Unicode code points)
};

// A tokenizer and what its tokens look like.
struct TokenWords {
  const Tokenizer& tokenizer;
  const std::vector<std::string>& texts;  // of tokens by id, as the files write them
};

// tokens: of the text, without special ones; logits: (tokens, names). Entities without a type, of tag "O", are left
// out. Throws nothing.
std::vector<TextEntity> text_entities(const std::string& text, const std::vector<PlacedToken>& tokens,
                                      const float* logits, const std::vector<std::string>& names,
                                      const TokenWords& words);

// [{"entity", "score", "text", "start", "end"}]
Json entities_json(const std::vector<TextEntity>& entities);

// A finished model that labels texts, planned for a batch of them. The constructor seals.

class TextClassifier {
 public:
  // For up to `batch` texts of up to `longest` tokens. second_type: the token type of a pair's second text. The model
  // outlives this. Throws Error kData about the folder's weights.
  TextClassifier(const std::string& folder, const Model& model, std::int32_t second_type, std::int64_t batch,
                 std::int64_t longest);

  // The logits, valid until the next call: (texts, outputs), or where words have tags (tokens of all texts, outputs),
  // one text behind the other. Throws Error kData if one is not finite.
  const float* run(const std::vector<EncodedText>& texts);

 private:
  const std::string folder_;
  const ModelInputs inputs_;
  const std::int32_t second_type_;
  const Fields fields_;
  Session session_;
  Threads threads_;
  Tensor logits_;
};

}  // namespace bascule
