// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/corpus.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/corpus/number_tokenizer.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

using test::NumberTokenizer;
using test::TemporaryFolder;
using Lengths = std::vector<std::vector<int>>;  // tokens of each sentence, by document

// The tokens 4, 5, 6, ... in sentences of these lengths.
std::unique_ptr<const TokenStore> store_of(const Lengths& documents) {
  const TemporaryFolder folder;
  std::string text;
  int token = 4;
  for (const std::vector<int>& document : documents) {
    for (const int length : document) {
      for (int i = 0; i < length; ++i) text += std::to_string(token++) + " ";
      text += "\n";
    }
    text += "\n";
  }
  PathsSetting setting;
  setting.written = {folder.write("a.txt", text)};
  return std::move(open_tokens(find_data_files(setting), NumberTokenizer(1 << 30), "", false).store);
}

struct Case {
  PairRules rules;
  Lengths documents;
  std::vector<std::vector<std::int64_t>> pairs;  // label, then first and last token of both texts
};

std::vector<Case> read_cases() {
  std::vector<Case> cases;
  std::ifstream file(std::string(BASCULE_TEST_DATA) + "/../corpus/pair_cases.txt");
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      cases.emplace_back();
      PairRules& rules = cases.back().rules;
      line >> rules.seed >> rules.max_tokens >> rules.passes >> rules.short_seq_probability;
      continue;
    }
    std::vector<std::int64_t> numbers;
    for (std::int64_t number; line >> number;) numbers.push_back(number);
    if (word == "document") {
      cases.back().documents.emplace_back(numbers.begin(), numbers.end());
    } else {
      cases.back().pairs.push_back(numbers);
    }
  }
  return cases;
}

TEST(Pairs, AreThoseOfAnIndependentProgram) {
  const std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), 7u);
  for (const Case& one : cases) {
    SCOPED_TRACE("seed " + std::to_string(one.rules.seed));
    const auto store = store_of(one.documents);
    const std::vector<SentencePair> pairs = make_pairs(*store, one.rules);
    ASSERT_EQ(pairs.size(), one.pairs.size());
    for (std::size_t row = 0; row < pairs.size(); ++row) {
      const PairTokens left = tokens_of_pair(*store, pairs[row], static_cast<std::int64_t>(row), one.rules);
      const std::vector<std::int64_t> found = {pairs[row].is_random ? 1 : 0, left.first + 4, left.first_end + 3,
                                               left.second + 4, left.second_end + 3};
      ASSERT_EQ(found, one.pairs[row]) << row;
    }
  }
}

// The share among 100,000 pairs, within three standard errors. Sentences of 5 tokens: only the last one of a document
// can be a chunk of its own, and its second text is always a random one.
TEST(Pairs, AreRandomInHalfOfTheChunksOfTwoSentencesOrMore) {
  const auto store = store_of(Lengths(600, std::vector<int>(40, 5)));
  PairRules rules;
  rules.max_tokens = 29;
  rules.passes = 20;
  rules.short_seq_probability = 0.0;
  const std::vector<SentencePair> pairs = make_pairs(*store, rules);
  double chunks = 0.0, random = 0.0, left_behind = 0.0;
  std::vector<double> of_first(7, 0.0);
  for (const SentencePair& pair : pairs) {
    if (pair.first % 40 == 39) {
      EXPECT_TRUE(pair.is_random);
      continue;
    }
    ++chunks;
    random += pair.is_random ? 1.0 : 0.0;
    EXPECT_EQ(pair.is_random, pair.second != pair.first + pair.first_count || pair.second / 40 != pair.first / 40);
    if (pair.first % 40 > 34) continue;  // fewer sentences are left than a chunk has
    ++left_behind;
    ++of_first[pair.first_count];
  }
  ASSERT_GE(chunks, 100000.0);
  EXPECT_LT(std::fabs(random - 0.5 * chunks), 3.0 * std::sqrt(0.25 * chunks)) << random << " of " << chunks;
  // The first text has 1 to 5 of the six sentences of a chunk, each as often. Five figures: 3.5 standard errors.
  for (int k = 1; k <= 5; ++k)
    EXPECT_LT(std::fabs(of_first[static_cast<std::size_t>(k)] - 0.2 * left_behind),
              3.5 * std::sqrt(0.16 * left_behind));
}

TEST(Pairs, OfAPassDependOnNoOtherDocumentAndOnNoOtherPass) {
  const Lengths documents(6, {3, 4, 5, 6, 3, 4, 5, 6});
  PairRules rules;
  rules.max_tokens = 20;
  rules.passes = 3;
  const std::vector<SentencePair> three = make_pairs(*store_of(documents), rules);
  rules.passes = 1;
  const std::vector<SentencePair> one = make_pairs(*store_of(documents), rules);
  // Those of the first pass over each document.
  std::size_t at = 0;
  for (std::uint32_t document = 0; document < 6; ++document) {
    std::size_t begin = 0;
    while (three[begin].first / 8 != document) ++begin;
    for (; at < one.size() && one[at].first / 8 == document; ++at, ++begin) EXPECT_EQ(one[at], three[begin]);
  }
  EXPECT_EQ(at, one.size());
}

}  // namespace
}  // namespace bascule
