// SPDX-License-Identifier: Apache-2.0
#include "src/generate/token_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "src/json/json.h"
#include "src/runtime/guard.h"
#include "tests/generate/hashed_model.h"
#include "tests/support/guarded_buffer.h"

namespace bascule::test::test_token_search {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens tokens_of(Span<const std::int32_t> ids) { return {ids.begin(), ids.end()}; }

// A search in memory that ends at a page that cannot be read.
class PlacedSearch {
 public:
  PlacedSearch(const SearchOptions& options, std::int64_t max_samples)
      : search_(options, max_samples), memory_(search_.bytes()) {
    EXPECT_EQ(search_.bytes() % 64, 0u);
    search_.seal(memory_.data());
  }
  TokenSearch& operator*() { return search_; }
  TokenSearch* operator->() { return &search_; }

 private:
  TokenSearch search_;
  GuardedBuffer<std::byte> memory_;
};

SearchOptions small_options(std::int64_t num_beams, std::int64_t max_length) {
  SearchOptions options;
  options.vocabulary_size = 6;
  options.num_beams = num_beams;
  options.max_length = max_length;
  options.end_ids = {5};
  return options;
}

// One search with every row's log p of the next token written by hand. They need not be those of probabilities.
class ByHand {
 public:
  using Row = std::vector<float>;

  ByHand(const SearchOptions& options, std::int64_t samples) : options_(options), search_(options, samples) {
    search_->begin(samples);
  }
  TokenSearch* operator->() { return &*search_; }

  void take(const std::vector<Row>& rows) {
    ASSERT_EQ(static_cast<std::int64_t>(rows.size()), search_->rows());
    std::vector<float> logits;
    for (const Row& row : rows) {
      ASSERT_EQ(static_cast<std::int64_t>(row.size()), options_.vocabulary_size);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    const std::vector<float> zeros(rows.size());
    search_->take(threads_, logits.data(), options_.vocabulary_size, zeros.data(), zeros.data());
  }
  // The same for all rows.
  void take_everywhere(const Row& row) { take(std::vector<Row>(static_cast<std::size_t>(search_->rows()), row)); }

 private:
  SearchOptions options_;
  PlacedSearch search_;
  Threads threads_{1, false};
};

// Cases of tools/make_search_goldens.py.
struct GoldenCase {
  SearchOptions options;
  LogitLaw law;
  std::vector<std::uint64_t> seeds;
  std::vector<Tokens> ids;
  std::vector<double> scores;
};

EarlyStopping early_stopping_of(const Json& value) {
  if (value.is_string()) return EarlyStopping::kNever;
  return value.boolean() ? EarlyStopping::kYes : EarlyStopping::kNo;
}

GoldenCase read_case(const Json& json, const std::string& where) {
  GoldenCase golden;
  const Json& law = get_object(json, "law", where);
  golden.law.vocabulary = get_int(law, "vocabulary", where);
  golden.law.levels = get_int(law, "levels", where);
  golden.law.exponent = static_cast<int>(get_int(law, "exponent", where));
  golden.law.end_bias = get_int(law, "end_bias", where);
  golden.law.is_rotated = get_bool(law, "rotated", where);
  SearchOptions& options = golden.options;
  options.vocabulary_size = golden.law.vocabulary;
  options.num_beams = get_int(json, "beams", where);
  options.max_length = get_int(json, "max_length", where);
  options.min_length = get_int(json, "min_length", where);
  options.length_penalty = get_number(json, "length_penalty", where);
  options.early_stopping = early_stopping_of(*find_member(json, "early_stopping", where));
  options.no_repeat_ngram_size = get_int(json, "ngram", where);
  options.start_id = static_cast<std::int32_t>(get_int(json, "start", where));
  for (const std::int64_t id : get_ints(json, "ends", where)) options.end_ids.push_back(static_cast<std::int32_t>(id));
  golden.law.end_ids = options.end_ids;
  for (const std::int64_t seed : get_ints(json, "seeds", where)) {
    golden.seeds.push_back(static_cast<std::uint64_t>(seed));
  }
  for (const Json& row : get_array(json, "ids", where)) {
    Tokens ids;
    for (const Json& id : row) ids.push_back(static_cast<std::int32_t>(id.integer()));
    golden.ids.push_back(ids);
  }
  golden.scores = get_numbers(json, "scores", where);
  return golden;
}

std::vector<GoldenCase> read_cases() {
  const std::string path = std::string(BASCULE_TEST_DATA) + "/generate/searches.json";
  std::vector<GoldenCase> cases;
  const Json file = read_json_file(path);
  for (const Json& json : get_array(file, "cases", path)) {
    cases.push_back(read_case(json, path + ": case " + std::to_string(cases.size())));
  }
  return cases;
}

struct Result {
  Tokens ids;
  float score = 0.0f;

  bool operator==(const Result& other) const { return ids == other.ids && score == other.score; }
};

std::vector<Result> run(TokenSearch& search, HashedDecoder& decoder, const std::vector<std::uint64_t>& seeds,
                        Threads& threads) {
  search.begin(static_cast<std::int64_t>(seeds.size()));
  decoder.begin(seeds);
  while (!search.done()) {
    decoder.decode(search);
    search.take(threads, decoder.logits(), decoder.stride(), decoder.top(), decoder.log_sum());
  }
  std::vector<Result> results;
  for (std::int64_t sample = 0; sample < static_cast<std::int64_t>(seeds.size()); ++sample) {
    results.push_back({tokens_of(search.generated(sample)), search.score(sample)});
  }
  return results;
}

TEST(TokenSearch, TransformersFindsTheSame) {
  Threads threads(1, false);
  const std::vector<GoldenCase> cases = read_cases();
  ASSERT_GT(cases.size(), 400u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const GoldenCase& golden = cases[i];
    SCOPED_TRACE("case " + std::to_string(i));
    const auto samples = static_cast<std::int64_t>(golden.seeds.size());
    PlacedSearch search(golden.options, samples);
    HashedDecoder decoder(golden.law, golden.options, samples);
    const std::vector<Result> results = run(*search, decoder, golden.seeds, threads);
    for (std::size_t sample = 0; sample < results.size(); ++sample) {
      EXPECT_EQ(results[sample].ids, golden.ids[sample]);
      const double score = golden.scores[sample];
      EXPECT_NEAR(static_cast<double>(results[sample].score), score, 1e-5 * std::max(1.0, std::abs(score)));
    }
  }
}

TEST(TokenSearch, ASampleAloneAndAnyNumberOfThreadsGiveTheSameBits) {
  Threads one(1, false), two(2, false), four(4, false);
  for (const GoldenCase& golden : read_cases()) {
    const auto samples = static_cast<std::int64_t>(golden.seeds.size());
    PlacedSearch search(golden.options, samples);
    HashedDecoder decoder(golden.law, golden.options, samples);
    const std::vector<Result> results = run(*search, decoder, golden.seeds, one);
    EXPECT_TRUE(run(*search, decoder, golden.seeds, two) == results);
    EXPECT_TRUE(run(*search, decoder, golden.seeds, four) == results);
    for (std::size_t sample = 0; sample < results.size(); ++sample) {
      EXPECT_TRUE(run(*search, decoder, {golden.seeds[sample]}, one).front() == results[sample]);
    }
  }
}

TEST(TokenSearch, FirstOneRowOfASampleIsDecodedAndThenItsBeams) {
  ByHand search(small_options(3, 9), 2);
  EXPECT_EQ(search->position(0), 0);
  EXPECT_EQ(tokens_of(search->samples()), (Tokens{0, 1}));
  EXPECT_EQ(tokens_of(search->slots()), (Tokens{0, 3}));
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{0, 0}));
  search.take_everywhere({-4, -1, -2, -3, -2, -9});
  EXPECT_EQ(search->position(0), 1);
  EXPECT_EQ(tokens_of(search->samples()), (Tokens{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tokens_of(search->slots()), (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{1, 2, 4, 1, 2, 4}));
}

TEST(TokenSearch, ASampleThatHasEndedHasNoRows) {
  SearchOptions options = small_options(2, 9);
  options.early_stopping = EarlyStopping::kYes;
  ByHand search(options, 2);
  const ByHand::Row ends = {-8, -9, -9, -9, -5, -1}, goes_on = {-4, -1, -2, -6, -6, -6};
  search.take({ends, goes_on});
  search.take({ends, ends, goes_on, goes_on});
  EXPECT_FALSE(search->done());
  EXPECT_EQ(tokens_of(search->samples()), (Tokens{1, 1}));
  EXPECT_EQ(tokens_of(search->slots()), (Tokens{2, 3}));
  search.take({ends, ends});
  EXPECT_TRUE(search->done());
  EXPECT_EQ(tokens_of(search->generated(0)), (Tokens{5}));
  EXPECT_EQ(search->score(0), -1.0f);
  EXPECT_EQ(tokens_of(search->generated(1)), (Tokens{1, 1, 5}));
  EXPECT_EQ(search->score(1), -1.0f);
}

TEST(TokenSearch, AGreedyRowThatHasEndedIsDecodedNoMore) {
  ByHand search(small_options(1, 4), 3);
  const ByHand::Row one = {-2, -1, -2, -2, -2, -2}, end = {-2, -2, -2, -2, -2, -1};
  search.take({one, end, one});
  EXPECT_EQ(tokens_of(search->samples()), (Tokens{0, 2}));
  EXPECT_EQ(tokens_of(search->slots()), (Tokens{0, 2}));
  EXPECT_EQ(search->history(1)[0], 2);
  search.take({end, one});
  search.take({one});
  EXPECT_TRUE(search->done());
  EXPECT_EQ(tokens_of(search->generated(0)), (Tokens{1, 5}));
  EXPECT_EQ(tokens_of(search->generated(1)), (Tokens{5}));
  EXPECT_EQ(tokens_of(search->generated(2)), (Tokens{1, 1, 1}));  // full
  EXPECT_EQ(search->score(2), 0.0f);
}

TEST(TokenSearch, ARowTakesOverTheHistoryOfTheBeamThatItDescendsFrom) {
  ByHand search(small_options(2, 9), 2);
  const auto history = [&search](std::int64_t row) {
    const std::int32_t* const slots = search->history(row);
    return Tokens(slots, slots + search->position(row));
  };
  search.take_everywhere({-9, -1, -2, -9, -9, -9});  // 1 | 2
  EXPECT_EQ(history(0), (Tokens{0}));
  EXPECT_EQ(history(1), (Tokens{0}));
  EXPECT_EQ(history(2), (Tokens{2}));
  EXPECT_EQ(history(3), (Tokens{2}));
  const ByHand::Row unlikely(6, -8), three_or_four = {-9, -9, -9, -1, -2, -9};
  search.take({unlikely, three_or_four, unlikely, three_or_four});  // 2 3 | 2 4
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{3, 4, 3, 4}));
  EXPECT_EQ(history(0), (Tokens{0, 1}));
  EXPECT_EQ(history(1), (Tokens{0, 1}));
  EXPECT_EQ(history(3), (Tokens{2, 3}));
  const ByHand::Row one = {-19, -1, -19, -19, -19, -19};
  search.take({unlikely, one, unlikely, one});  // 2 4 1 | 2 3 0
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{1, 0, 1, 0}));
  EXPECT_EQ(history(0), (Tokens{0, 1, 1}));
  EXPECT_EQ(history(1), (Tokens{0, 1, 0}));
  EXPECT_EQ(history(2), (Tokens{2, 3, 3}));
  const ByHand::Row very_unlikely(6, -29);
  search.take({very_unlikely, three_or_four, very_unlikely, three_or_four});  // 2 3 0 3 | 2 3 0 4
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{3, 4, 3, 4}));
  EXPECT_EQ(history(0), (Tokens{0, 1, 0, 1}));
  EXPECT_EQ(history(1), (Tokens{0, 1, 0, 1}));
  EXPECT_EQ(history(3), (Tokens{2, 3, 2, 3}));
  EXPECT_EQ(tokens_of(search->slots()), (Tokens{0, 1, 2, 3}));
}

// The estimate of what a going sequence can still reach takes its own length where a longer one scores lower.
TEST(TokenSearch, NeverStoppingEarlyFavoursTheGoingSequence) {
  SearchOptions options = small_options(2, 20);
  options.early_stopping = EarlyStopping::kNever;
  options.length_penalty = -1.0;
  ByHand search(options, 1);
  search.take_everywhere({-1, -9, -9, -9, -9, -3});         // 0 | 1, and the end with -3
  search.take_everywhere({-0.125f, -9, -9, -9, -9, -0.5});  // 0 0 | 1 0, and 0 with the end: -1.5 * 2
  EXPECT_FALSE(search->done());                             // -1.125 * 2 is above -3; -1.125 * 19 were not
}

TEST(TokenSearch, ASearchEndsWhereTheGoingSequenceIsNoBetterThanTheWorst) {
  ByHand search(small_options(2, 20), 1);
  search.take_everywhere({-2, -3, -9, -9, -9, -2.5});  // 0 | 1, and the end with -2.5
  search.take_everywhere({-3, -9, -9, -9, -9, -3});    // 0 0 and 0 with the end: both -5 / 2
  EXPECT_TRUE(search->done());
}

// Beams that are virtual at first go on where the tokens of the first one are less likely than -1e9.
TEST(TokenSearch, AnEqualBeamIsBetterThanATokenBelowIt) {
  ByHand search(small_options(3, 20), 1);
  search.take_everywhere({-1, -2, -2e9f, -2e9f, -2e9f, -2e9f});
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{0, 1, 0}));
}

// Where only one token is possible, beams are filled with sequences that have -1e9.
TEST(TokenSearch, ASequenceThatOnlyFillsABeamTakesNoPlaceInTheFinishedList) {
  SearchOptions options = small_options(2, 20);
  options.end_ids = {0};
  options.length_penalty = 0.0;
  options.early_stopping = EarlyStopping::kYes;
  constexpr float kNo = -std::numeric_limits<float>::infinity();
  ByHand search(options, 1);
  search.take_everywhere({kNo, -1, kNo, kNo, kNo, kNo});  // 1 | 1 with -1e9
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{1, 1}));
  search.take_everywhere({-2, -1, kNo, kNo, kNo, kNo});  // finished: 1 0. Of equals with -1e9 it comes first
  EXPECT_EQ(tokens_of(search->tokens()), (Tokens{1, 0}));
  search.take(
      {{kNo, -1, kNo, kNo, kNo, kNo}, {-1, -1, kNo, kNo, kNo, kNo}});  // 1 0 0 has -1e9, no more than a free place
  EXPECT_FALSE(search->done());
}

TEST(TokenSearch, NothingFollowsTheStartTokenOfARowOfOne) {
  ByHand search(small_options(2, 1), 2);
  EXPECT_TRUE(search->done());
  EXPECT_TRUE(search->generated(1).empty());
}

TEST(TokenSearch, WithoutSamplesItIsDone) {
  PlacedSearch search(small_options(2, 5), 2);
  search->begin(0);
  EXPECT_TRUE(search->done());
}

// A broken model makes all tokens impossible: the first is taken, and nothing finishes.
TEST(TokenSearch, LogitsThatAreNotNumbersEndInASequenceOrNone) {
  const ByHand::Row broken(6, std::numeric_limits<float>::quiet_NaN()), usual = {-1, -2, -3, -4, -5, -6};
  ByHand greedy(small_options(1, 4), 1), beams(small_options(3, 4), 1);
  while (!greedy->done()) greedy.take_everywhere(broken);
  EXPECT_EQ(tokens_of(greedy->generated(0)), (Tokens{0, 0, 0}));
  while (!beams->done()) beams.take_everywhere(usual);
  EXPECT_FALSE(beams->generated(0).empty());
  beams->begin(1);
  while (!beams->done()) beams.take_everywhere(broken);
  EXPECT_TRUE(beams->generated(0).empty());
  EXPECT_EQ(beams->score(0), -1e9f);
}

TEST(TokenSearch, ItAllocatesNothingAfterTheSeal) {
  if (!guard_is_active()) GTEST_SKIP() << "a sanitizer's allocator is in place";
  Threads threads(2, false);
  for (const std::int64_t beams : {1, 3}) {
    SearchOptions options = small_options(beams, 8);
    options.no_repeat_ngram_size = 2;
    options.min_length = 4;
    PlacedSearch search(options, 4);
    const std::vector<float> logits(4 * 3 * 6), top(4 * 3), log_sum(4 * 3, std::log(6.0f));
    seal_memory();
    for (std::int64_t samples = 4; samples > 0; --samples) {
      search->begin(samples);
      while (!search->done()) search->take(threads, logits.data(), 6, top.data(), log_sum.data());
    }
    open_memory();
    EXPECT_FALSE(search->generated(0).empty());
  }
}

class TokenSearchDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(TokenSearchDeathTest, MoreBeamsOrEndTokensThanAVocabularyHasAreRefused) {
  EXPECT_EXIT(TokenSearch(small_options(7, 9), 1), ::testing::ExitedWithCode(1), "num_beams");
  SearchOptions options = small_options(2, 9);
  options.end_ids = {0, 1, 2, 3, 4, 5};
  EXPECT_EXIT(TokenSearch(options, 1), ::testing::ExitedWithCode(1), "candidates");
  options.end_ids.clear();
  EXPECT_EXIT(TokenSearch(options, 1), ::testing::ExitedWithCode(1), "end_ids");
}

}  // namespace
}  // namespace bascule::test::test_token_search
