// SPDX-License-Identifier: Apache-2.0
// A tokenizer whose words are the ids themselves, so that a test can say which tokens a text has: "7 12" is the tokens
// 7 and 12, and a word that is no number is none.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

#include "src/text/tokenizer.h"

namespace bascule::test {

class NumberTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kFirst = 1, kSeparator = 2;

  explicit NumberTokenizer(std::int32_t vocabulary_size = 60000, std::uint64_t digest = 5)
      : Tokenizer(facts(vocabulary_size, digest)) {}
  std::size_t scratch_bytes(std::size_t) const noexcept override { return 0; }

 private:
  static TokenizerFacts facts(std::int32_t vocabulary_size, std::uint64_t digest) {
    TokenizerFacts facts;
    facts.before = {kFirst};
    facts.between = facts.after = {kSeparator};
    facts.second_type = 1;
    facts.pad_id = 0;
    facts.mask_id = 3;
    facts.special_ids = {0, 1, 2, 3};
    facts.vocabulary_size = vocabulary_size;
    facts.digest = digest;
    return facts;
  }
  Status tokenize(std::string_view text, TokenOutput& output, Span<std::byte>) const noexcept override {
    for (std::size_t at = 0; at < text.size();) {
      std::int32_t id = 0;
      const auto [end, failed] = std::from_chars(text.data() + at, text.data() + text.size(), id);
      if (failed == std::errc()) output.add(id);
      at = static_cast<std::size_t>(end - text.data()) + 1;
    }
    return ok_status();
  }
};

}  // namespace bascule::test
