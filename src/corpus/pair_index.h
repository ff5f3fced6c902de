// SPDX-License-Identifier: Apache-2.0
// Pairs of texts from a corpus, for next sentence prediction, as the script create_pretraining_data.py makes them: the
// second text follows the first, or is from another document. Which sentences are in a pair is decided for all pairs
// before the seal; which tokens are cut off is drawn when a pair is read.
//
// Random numbers are functions of coordinates (base/philox.h): draw i of a pass over a document is word 0 of counter
// (i, document, pass) under the key for pairs, draw i of a row's shortening word i mod 4 of counter (i / 4, row) under
// the key for shortening. Draws are made in the order of the rule, only where it needs one.
#pragma once

#include <cstdint>
#include <vector>

#include "src/corpus/token_store.h"

namespace bascule {

struct PairRules {
  std::uint64_t seed = 0;
  std::int64_t max_tokens = 125;       // of both texts together, without special tokens; at least 2
  std::int64_t passes = 10;            // over each document
  double short_seq_probability = 0.1;  // of a pass whose pairs are made for a length drawn from 2 .. max_tokens
};

// Sentences of the store, counted over all of its documents.
struct SentencePair {
  std::uint32_t first = 0, first_count = 0;    // of the first text
  std::uint32_t second = 0, second_count = 0;  // of the second text
  bool is_random = false;                      // the second text does not follow the first

  bool operator==(const SentencePair& other) const {
    return first == other.first && first_count == other.first_count && second == other.second &&
           second_count == other.second_count && is_random == other.is_random;
  }
};

// Document after document, for each all passes, for each its pairs in order. Requires two documents.
std::vector<SentencePair> make_pairs(const TokenStore& store, const PairRules& rules);

// The tokens of a row's texts that are left: ranges of the store.
struct PairTokens {
  std::int64_t first = 0, first_end = 0;
  std::int64_t second = 0, second_end = 0;
};

// Drops single tokens until max_tokens are left: of the longer text (of the second one if they are equally long) the
// first or the last, either with a chance of 1/2. Usable after the seal; allocates nothing.
PairTokens tokens_of_pair(const TokenStore& store, const SentencePair& pair, std::int64_t row,
                          const PairRules& rules) noexcept;

}  // namespace bascule
