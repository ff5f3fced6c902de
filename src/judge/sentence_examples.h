// SPDX-License-Identifier: Apache-2.0
// Sentences with masked tokens for report.html: while the predicted split is judged, the tokens of a few evenly spaced
// rows are kept, with the best predictions for those that are masked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/examples.h"

namespace bascule {

inline constexpr std::int64_t kSentenceExamples = 8, kTokenGuesses = 5;

// A masked token, and the tokens that the model holds most probable, best first.
struct TokenGuesses {
  std::int32_t position = 0;  // among the text's tokens, the special one before them at 0
  std::int32_t expected = 0;
  float probability = 0.0f;  // of the expected one
  std::int32_t ids[kTokenGuesses] = {};
  float probabilities[kTokenGuesses] = {};
};

// Which example a row of a split is; -1: none.
inline std::int64_t example_of_row(std::int64_t row, std::int64_t rows) {
  const std::int64_t shown = rows < kSentenceExamples ? rows : kSentenceExamples;
  for (std::int64_t i = 0; i < shown; ++i) {
    if (i * rows / shown == row) return i;
  }
  return -1;
}

// One kept row.
struct KeptSentence {
  const std::int32_t* ids = nullptr;  // as the model saw them
  std::int64_t tokens = 0;
  const TokenGuesses* masked = nullptr;
  std::int64_t masked_tokens = 0;
  std::int64_t guesses = 0;  // for each of them
};

// names: of the tokens by id; a token without a name is shown by its number.
SentenceExample sentence_example(const KeptSentence& kept, const std::vector<std::string>& names);

}  // namespace bascule
