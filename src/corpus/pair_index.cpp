// SPDX-License-Identifier: Apache-2.0
#include "src/corpus/pair_index.h"

#include "src/base/check.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

// Keys of their own among those derived from the run's seed.
constexpr std::uint32_t kPairsUse = 0x70616972u;
constexpr std::uint32_t kShortenUse = 0x73686f72u;

constexpr int kTries = 10;  // to find another document

// The draws of one pass over a document.
class Draws {
 public:
  Draws(PhiloxKey key, std::int64_t document, std::int64_t pass) noexcept
      : key_(key),
        counter_{{0, static_cast<std::uint32_t>(document),
                  static_cast<std::uint32_t>(static_cast<std::uint64_t>(document) >> 32),
                  static_cast<std::uint32_t>(pass)}} {}
  // From 0 to bound - 1.
  std::int64_t below(std::int64_t bound) noexcept { return bounded(word(), static_cast<std::uint32_t>(bound)); }
  bool chance(double probability) noexcept { return static_cast<double>(word()) * 0x1p-32 < probability; }

 private:
  std::uint32_t word() noexcept {
    const std::uint32_t drawn = philox4x32(counter_, key_).word[0];
    ++counter_.word[0];
    return drawn;
  }

  PhiloxKey key_;
  PhiloxCounter counter_;
};

// The pairs of one pass over a document.
class PassOverDocument {
 public:
  PassOverDocument(const TokenStore& store, const PairRules& rules, std::int64_t document, Draws draws) noexcept
      : store_(store), document_(document), draws_(draws), target_(rules.max_tokens) {
    if (draws_.chance(rules.short_seq_probability)) target_ = 2 + draws_.below(rules.max_tokens - 1);
  }

  void add_to(std::vector<SentencePair>* pairs) noexcept {
    const std::int64_t end = store_.document_begin(document_ + 1);
    for (std::int64_t begin = store_.document_begin(document_); begin < end;) {
      const std::int64_t chunk = take(begin, end, target_);
      const std::int64_t first = chunk >= 2 ? 1 + draws_.below(chunk - 1) : 1;
      SentencePair pair;
      pair.first = static_cast<std::uint32_t>(begin);
      pair.first_count = static_cast<std::uint32_t>(first);
      pair.is_random = chunk == 1 || draws_.chance(0.5);
      if (pair.is_random) {
        take_random(&pair, target_ - tokens(begin, begin + first));
        begin += first;  // the sentences behind the first text begin the next chunk
      } else {
        pair.second = static_cast<std::uint32_t>(begin + first);
        pair.second_count = static_cast<std::uint32_t>(chunk - first);
        begin += chunk;
      }
      pairs->push_back(pair);
    }
  }

 private:
  std::int64_t tokens(std::int64_t begin, std::int64_t end) const noexcept {
    return store_.sentence_begin(end) - store_.sentence_begin(begin);
  }
  // Sentences from `begin` on, before `end`, until they have so many tokens; at least one.
  std::int64_t take(std::int64_t begin, std::int64_t end, std::int64_t wanted) const noexcept {
    std::int64_t count = 1;
    while (begin + count < end && tokens(begin, begin + count) < wanted) ++count;
    return count;
  }
  void take_random(SentencePair* pair, std::int64_t wanted) noexcept {
    std::int64_t other = document_;
    for (int i = 0; i < kTries && other == document_; ++i) other = draws_.below(store_.documents());
    const std::int64_t begin = store_.document_begin(other), end = store_.document_begin(other + 1);
    const std::int64_t second = begin + draws_.below(end - begin);
    pair->second = static_cast<std::uint32_t>(second);
    pair->second_count = static_cast<std::uint32_t>(take(second, end, wanted));
  }

  const TokenStore& store_;
  std::int64_t document_;
  Draws draws_;
  std::int64_t target_;
};

}  // namespace

std::vector<SentencePair> make_pairs(const TokenStore& store, const PairRules& rules) {
  BASCULE_CHECK(store.documents() >= 2 && rules.max_tokens >= 2);
  const PhiloxKey key = derive_key(rules.seed, kPairsUse);
  std::vector<SentencePair> pairs;
  for (std::int64_t document = 0; document < store.documents(); ++document) {
    for (std::int64_t pass = 0; pass < rules.passes; ++pass)
      PassOverDocument(store, rules, document, Draws(key, document, pass)).add_to(&pairs);
  }
  pairs.shrink_to_fit();
  return pairs;
}

PairTokens tokens_of_pair(const TokenStore& store, const SentencePair& pair, std::int64_t row,
                          const PairRules& rules) noexcept {
  PairTokens left = {store.sentence_begin(pair.first), store.sentence_begin(pair.first + pair.first_count),
                     store.sentence_begin(pair.second), store.sentence_begin(pair.second + pair.second_count)};
  const PhiloxKey key = derive_key(rules.seed, kShortenUse);
  const std::uint64_t wide_row = static_cast<std::uint64_t>(row);
  PhiloxCounter counter = {{0, static_cast<std::uint32_t>(wide_row), static_cast<std::uint32_t>(wide_row >> 32), 0}};
  PhiloxBlock block = {};
  for (std::uint32_t draw = 0;; ++draw) {
    const std::int64_t first = left.first_end - left.first, second = left.second_end - left.second;
    if (first + second <= rules.max_tokens) return left;
    if (draw % 4 == 0) {
      counter.word[0] = draw / 4;
      block = philox4x32(counter, key);
    }
    const bool drops_first_token = block.word[draw % 4] < 0x80000000u;
    std::int64_t& begin = first > second ? left.first : left.second;
    std::int64_t& end = first > second ? left.first_end : left.second_end;
    if (drops_first_token) {
      ++begin;
    } else {
      --end;
    }
  }
}

}  // namespace bascule
