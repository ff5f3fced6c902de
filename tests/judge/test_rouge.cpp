// SPDX-License-Identifier: Apache-2.0
// Scores against those of rouge_score, and against a plain form of its algorithm on random texts.
#include "src/judge/rouge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/json/json.h"
#include "src/runtime/guard.h"
#include "tests/support/guarded_buffer.h"
#include "tests/support/seeded.h"

namespace bascule::test {
namespace {

// With its memory, which ends at a page that cannot be touched.
class SealedRouge {
 public:
  explicit SealedRouge(const RougeLimits& limits = {2048, 1024}) : rouge_(limits), memory_(rouge_.bytes()) {
    rouge_.seal(memory_.data());
  }
  // The texts, too, end at such a page.
  RougeScores score(const std::string& target, const std::string& prediction) {
    GuardedBuffer<char> texts[] = {GuardedBuffer<char>(target.size()), GuardedBuffer<char>(prediction.size())};
    std::copy(target.begin(), target.end(), texts[0].begin());
    std::copy(prediction.begin(), prediction.end(), texts[1].begin());
    return rouge_.score({texts[0].data(), target.size()}, {texts[1].data(), prediction.size()});
  }

 private:
  Rouge rouge_;
  GuardedBuffer<std::byte> memory_;
};

RougeScore of_counts(std::size_t matches, std::size_t of_target, std::size_t of_prediction) {
  if (matches == 0) return {};
  const double precision = static_cast<double>(matches) / static_cast<double>(of_prediction);
  const double recall = static_cast<double>(matches) / static_cast<double>(of_target);
  return {precision, recall, 2.0 * precision * recall / (precision + recall)};
}

void expect_equal(const RougeScore& score, const RougeScore& expected) {
  EXPECT_EQ(score.precision, expected.precision);
  EXPECT_EQ(score.recall, expected.recall);
  EXPECT_EQ(score.f, expected.f);
}

void expect_equal(const RougeScores& scores, const RougeScores& expected) {
  expect_equal(scores.rouge1, expected.rouge1);
  expect_equal(scores.rouge2, expected.rouge2);
  expect_equal(scores.rougeL, expected.rougeL);
  expect_equal(scores.rougeLsum, expected.rougeLsum);
}

void expect_near(const RougeScore& score, const Json& expected) {
  EXPECT_NEAR(score.precision, expected[std::size_t{0}].number(), 1e-12);
  EXPECT_NEAR(score.recall, expected[1].number(), 1e-12);
  EXPECT_NEAR(score.f, expected[2].number(), 1e-12);
}

TEST(Rouge, GivesTheScoresOfRougeScore) {
  const Json document = read_json_file(std::string(BASCULE_TEST_DATA) + "/goldens-families/t5_relu_tied/rouge.json");
  SealedRouge rouge;
  int compared = 0;
  for (const Json& pair : document["pairs"]) {
    if (!pair["use_stemmer"].boolean()) continue;
    SCOPED_TRACE(pair["prediction"].string());
    const RougeScores scores = rouge.score(pair["reference"].string(), pair["prediction"].string());
    expect_near(scores.rouge1, pair["rouge1"]);
    expect_near(scores.rouge2, pair["rouge2"]);
    expect_near(scores.rougeL, pair["rougeL"]);
    expect_near(scores.rougeLsum, pair["rougeLsum"]);
    ++compared;
  }
  EXPECT_GE(compared, 20);
}

// rouge_score as it is written, with whole tables, on words that are given.
class PlainRouge {
 public:
  using Sentence = std::vector<std::string>;
  using Sentences = std::vector<Sentence>;

  static RougeScores score(const Sentences& target, const Sentences& prediction) {
    const Sentence t = joined(target), p = joined(prediction);
    RougeScores scores;
    scores.rouge1 = score_ngrams(t, p, 1);
    scores.rouge2 = score_ngrams(t, p, 2);
    scores.rougeL = of_counts(table(t, p)[t.size()][p.size()], t.size(), p.size());
    scores.rougeLsum = of_counts(union_matches(target, prediction), t.size(), p.size());
    return scores;
  }

 private:
  static Sentence joined(const Sentences& sentences) {
    Sentence all;
    for (const Sentence& sentence : sentences) all.insert(all.end(), sentence.begin(), sentence.end());
    return all;
  }

  static std::map<Sentence, std::size_t> ngrams(const Sentence& words, std::size_t n) {
    std::map<Sentence, std::size_t> counts;
    for (auto first = words.begin(); words.end() - first >= static_cast<std::ptrdiff_t>(n); ++first)
      ++counts[Sentence(first, first + static_cast<std::ptrdiff_t>(n))];
    return counts;
  }

  static RougeScore score_ngrams(const Sentence& target, const Sentence& prediction, std::size_t n) {
    const std::map<Sentence, std::size_t> of_target = ngrams(target, n), of_prediction = ngrams(prediction, n);
    std::size_t matches = 0;
    for (const auto& [ngram, count] : of_target) {
      const auto found = of_prediction.find(ngram);
      if (found != of_prediction.end()) matches += std::min(count, found->second);
    }
    return of_counts(matches, target.size() - n + 1, prediction.size() - n + 1);
  }

  static std::vector<std::vector<std::size_t>> table(const Sentence& target, const Sentence& prediction) {
    std::vector<std::vector<std::size_t>> lengths(target.size() + 1, std::vector<std::size_t>(prediction.size() + 1));
    for (std::size_t i = 1; i <= target.size(); ++i) {
      for (std::size_t j = 1; j <= prediction.size(); ++j) {
        lengths[i][j] = target[i - 1] == prediction[j - 1] ? lengths[i - 1][j - 1] + 1
                                                           : std::max(lengths[i - 1][j], lengths[i][j - 1]);
      }
    }
    return lengths;
  }

  static void add_common(const Sentence& target, const Sentence& prediction, std::set<std::size_t>* places) {
    const std::vector<std::vector<std::size_t>> lengths = table(target, prediction);
    for (std::size_t i = target.size(), j = prediction.size(); i > 0 && j > 0;) {
      if (target[i - 1] == prediction[j - 1]) {
        places->insert(i - 1);
        --i;
        --j;
      } else if (lengths[i][j - 1] > lengths[i - 1][j]) {
        --j;
      } else {
        --i;
      }
    }
  }

  static std::size_t union_matches(const Sentences& target, const Sentences& prediction) {
    std::map<std::string, int> left_of_target, left_of_prediction;
    for (const std::string& word : joined(target)) ++left_of_target[word];
    for (const std::string& word : joined(prediction)) ++left_of_prediction[word];
    std::size_t matches = 0;
    for (const Sentence& sentence : target) {
      std::set<std::size_t> places;
      for (const Sentence& other : prediction) add_common(sentence, other, &places);
      for (const std::size_t place : places) {
        if (left_of_prediction[sentence[place]] <= 0 || left_of_target[sentence[place]] <= 0) continue;
        --left_of_prediction[sentence[place]];
        --left_of_target[sentence[place]];
        ++matches;
      }
    }
    return matches;
  }
};

struct RandomText {
  std::string text;
  PlainRouge::Sentences sentences;
};

// Words of one letter, which have no other stem; between them signs, spaces and line breaks of several kinds.
RandomText random_text(Seeded& random, std::int64_t most_words, std::int64_t different) {
  RandomText made;
  const char* const breaks[] = {"\n", "\n\n", " \n", "\n...\n", "\r\n"};
  const char* const spaces[] = {" ", "  ", ". ", "-", "\xC3\xA9", "\t"};
  const double line_break = random.uniform(0.0, 0.3);
  bool begins_line = true;
  for (std::int64_t i = random.integer(0, most_words); i > 0; --i) {
    if (begins_line) made.sentences.emplace_back();
    const char letter = static_cast<char>('a' + random.integer(0, different - 1));
    made.text += letter;
    made.sentences.back().push_back(std::string(1, letter));
    begins_line = random.chance(line_break);
    made.text += begins_line ? breaks[random.integer(0, 4)] : spaces[random.integer(0, 5)];
  }
  return made;
}

TEST(Rouge, EqualsItsPlainFormOnRandomTexts) {
  Seeded random;
  SealedRouge rouge;
  for (int i = 0; i < 400; ++i) {
    const std::int64_t most_words = i % 10 == 0 ? 300 : 24;
    const std::int64_t different = random.integer(1, 20);
    const RandomText target = random_text(random, most_words, different);
    const RandomText prediction = random_text(random, most_words, different);
    SCOPED_TRACE(target.text + "\n--\n" + prediction.text);
    expect_equal(rouge.score(target.text, prediction.text), PlainRouge::score(target.sentences, prediction.sentences));
  }
}

TEST(Rouge, IsZeroWhereATextHasNoWords) {
  SealedRouge rouge;
  for (const char* const empty : {"", "\n", "\n\n\n", "!!! ...", "\xE6\x97\xA5\xE6\x9C\xAC", " \n?\n "}) {
    SCOPED_TRACE(empty);
    expect_equal(rouge.score(empty, "some words"), RougeScores{});
    expect_equal(rouge.score("some words", empty), RougeScores{});
    expect_equal(rouge.score(empty, empty), RougeScores{});
  }
}

TEST(Rouge, HasNoPairsInATextOfOneWord) {
  const RougeScores scores = SealedRouge().score("word", "word");
  expect_equal(scores.rouge1, {1.0, 1.0, 1.0});
  expect_equal(scores.rouge2, {});
  expect_equal(scores.rougeL, {1.0, 1.0, 1.0});
  expect_equal(scores.rougeLsum, {1.0, 1.0, 1.0});
}

// Matching words, of the target's words, of the prediction's words.
RougeScore words_of(const std::string& target, const std::string& prediction) {
  return SealedRouge().score(target, prediction).rouge1;
}

TEST(Rouge, LowersLettersAsPythonDoes) {
  expect_equal(words_of("ABCXYZ 09", "abcxyz 09"), of_counts(2, 2, 2));
  expect_equal(words_of("\xC4\xB0"
                        "x",
                        "i x"),
               of_counts(2, 2, 2));  // U+0130: i, then a mark that separates
  expect_equal(words_of("a\xC4\xB0"
                        "b",
                        "ai b"),
               of_counts(2, 2, 2));
  expect_equal(words_of("a\xE2\x84\xAA"
                        "b",
                        "akb"),
               of_counts(1, 1, 1));                 // U+212A: k
  expect_equal(words_of("\xE2\x84\xAB", "k"), {});  // U+212B: a letter beyond ASCII
  expect_equal(words_of("\xC4\xB1", "i"), {});      // U+0131: it is small already
  expect_equal(words_of("na\xC3\xAFve", "na ve"), of_counts(2, 2, 2));
}

TEST(Rouge, SeparatesWordsAtEverythingElse) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool is_letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    const std::string text = std::string("p") + c + "q";
    EXPECT_EQ(words_of(text, "p q").recall, is_letter ? 0.0 : 1.0) << byte;
  }
}

TEST(Rouge, StemsWordsOfFourLettersOrMore) {
  expect_equal(words_of("runs", "run"), of_counts(1, 1, 1));
  expect_equal(words_of("his", "hi"), {});
  expect_equal(words_of("cats", "cat"), of_counts(1, 1, 1));
  expect_equal(words_of("1990s", "1990"), of_counts(1, 1, 1));
}

TEST(Rouge, CountsAWordOfTheSumOnlyAsOftenAsThePredictionHasIt) {
  // Each line of the target finds its a in the only line of the prediction.
  const RougeScores scores = SealedRouge().score("a b\na c\na d", "a b c d");
  expect_equal(scores.rougeLsum, of_counts(4, 6, 4));
  expect_equal(scores.rougeL, of_counts(4, 6, 4));
  expect_equal(SealedRouge().score("a\na\na", "a x\ny").rougeLsum, of_counts(1, 3, 3));
}

TEST(Rouge, CutsTextsAtTheLimits) {
  SealedRouge few_words({100, 3});
  expect_equal(few_words.score("a b c d e", "a b\nc d"), few_words.score("a b c", "a b\nc"));
  EXPECT_EQ(few_words.score("a b c d", "a b c").rouge1.recall, 1.0);
  SealedRouge few_bytes({5, 100});
  EXPECT_EQ(few_bytes.score("a b c d", "a b c").rouge1.recall, 1.0);
  expect_equal(few_bytes.score("ab cdef", "ab cd").rouge1, of_counts(2, 2, 2));
  expect_equal(few_bytes.score("a bc\xE2\x84\xAA", "a bck").rouge1, of_counts(1, 2, 2));  // the sign is cut
  SealedRouge nothing({0, 0}), no_words({10, 0});
  expect_equal(nothing.score("a b", "a b"), RougeScores{});
  expect_equal(no_words.score("a b", "a b"), RougeScores{});
}

TEST(Rouge, TextsOfTheMostWordsFitIntoItsMemory) {
  for (const std::size_t bytes : {1u, 2u, 7u, 64u, 257u, 1000u}) {
    SealedRouge rouge({bytes, Rouge::most_words(bytes)});
    std::string target, prediction;  // a word at every second byte; one a line, and all in one line
    for (std::size_t i = 0; i < bytes; ++i) {
      target += i % 2 == 1 ? '\n' : static_cast<char>('a' + i / 2 % 26);
      prediction += i % 2 == 1 ? ' ' : static_cast<char>('0' + i / 2 % 10);
    }
    EXPECT_EQ(rouge.score(target, prediction).rouge1.f, 0.0);
    EXPECT_EQ(rouge.score(target, target).rougeLsum.f, 1.0);
    EXPECT_EQ(rouge.score(prediction, prediction).rougeLsum.f, 1.0);
    EXPECT_EQ(rouge.score(std::string(bytes, 'y'), std::string(bytes, 'x')).rougeL.f, 0.0);
  }
}

TEST(Rouge, RefusesTextsWhosePlacesTakeMoreThan32Bits) {
  EXPECT_EXIT(Rouge({std::size_t{1} << 31, 1}), ::testing::ExitedWithCode(1), "kMostBytes");
}

TEST(Rouge, KnowsTheMostWordsOfBytes) {
  EXPECT_EQ(Rouge::most_words(0), 0u);
  EXPECT_EQ(Rouge::most_words(1), 1u);
  EXPECT_EQ(Rouge::most_words(2), 1u);
  EXPECT_EQ(Rouge::most_words(3), 2u);
}

TEST(Rouge, HoldsManyDifferentWords) {
  const auto words = [](char first, int count) {
    std::string made;
    for (int i = 0; i < count; ++i) {
      made += std::string{first, static_cast<char>('a' + i / 26), static_cast<char>('a' + i % 26), ' '};
    }
    return made;
  };
  SealedRouge rouge({2000, 500});
  expect_equal(rouge.score(words('a', 500), words('b', 500)), RougeScores{});
  // The target's words are found again after 400 others have been added to them.
  const RougeScores scores = rouge.score(words('a', 500), words('b', 400) + words('a', 100));
  expect_equal(scores.rouge1, of_counts(100, 500, 500));
  expect_equal(scores.rouge2, of_counts(99, 499, 499));
  expect_equal(scores.rougeL, of_counts(100, 500, 500));
  expect_equal(scores.rougeLsum, of_counts(100, 500, 500));
}

TEST(Rouge, TellsWordsApartInASmallTable) {
  SealedRouge rouge({4, 1});  // one word a text: some of these pairs meet at the table's last place
  std::vector<std::string> words;
  for (char letter = 'a'; letter <= 'z'; ++letter) {
    for (const char* const ending : {"", "b", "bc"}) words.push_back(letter + std::string(ending));
  }
  for (const std::string& target : words) {
    for (const std::string& prediction : words)
      EXPECT_EQ(rouge.score(target, prediction).rouge1.f, target == prediction ? 1.0 : 0.0) << target << prediction;
  }
}

TEST(Rouge, MemoryIsABitForEachPairOfWordsAndLittleElse) {
  const std::size_t words = 4096, bytes = 8192;
  EXPECT_LE(Rouge({bytes, words}).bytes(), words * words / 8 + 100 * words + 2 * bytes + 1024);
  EXPECT_EQ(Rouge({bytes, words}).bytes() % kCacheLine, 0u);
}

TEST(Rouge, AllocatesNothingOnceSealed) {
  Rouge rouge({4096, 2048});
  GuardedBuffer<std::byte> memory(rouge.bytes());
  rouge.seal(memory.data());
  std::string target, prediction;
  for (int i = 0; i < 200; ++i) {
    target += "generalizations number " + std::to_string(i) + (i % 7 == 0 ? "\n" : " ");
    prediction += "number " + std::to_string(i % 50) + (i % 5 == 0 ? ".\n" : " ");
  }
  seal_memory();  // an allocation ends the test program
  const RougeScores scores = rouge.score(target, prediction);
  open_memory();
  EXPECT_GT(scores.rougeLsum.f, 0.0);
}

}  // namespace
}  // namespace bascule::test
