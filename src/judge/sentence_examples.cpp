// SPDX-License-Identifier: Apache-2.0
#include "src/judge/sentence_examples.h"

#include <cstddef>
#include <utility>

namespace bascule {
namespace {

std::string token_name(std::int32_t id, const std::vector<std::string>& names) {
  const std::size_t at = static_cast<std::size_t>(id);
  return at < names.size() && !names[at].empty() ? names[at] : std::to_string(id);
}

}  // namespace

SentenceExample sentence_example(const KeptSentence& kept, const std::vector<std::string>& names) {
  SentenceExample example;
  for (std::int64_t i = 0; i < kept.tokens; ++i) example.tokens.push_back({token_name(kept.ids[i], names), "", {}});
  for (std::int64_t i = 0; i < kept.masked_tokens; ++i) {
    const TokenGuesses& masked = kept.masked[i];
    ShownToken& token = example.tokens[static_cast<std::size_t>(masked.position)];
    token.expected = token_name(masked.expected, names);
    for (std::int64_t g = 0; g < kept.guesses; ++g) {
      const std::int32_t id = masked.ids[g];
      token.guesses.push_back(
          {token_name(id, names), static_cast<double>(masked.probabilities[g]), id == masked.expected});
    }
  }
  return example;
}

}  // namespace bascule
