// SPDX-License-Identifier: Apache-2.0
// A text corpus as samples: lines, and pairs of texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/span.h"
#include "src/corpus/token_store.h"
#include "src/index/data_files.h"
#include "src/index/manifest.h"
#include "src/text/tokenizer.h"

namespace bascule {

// Pairs of texts from a corpus, for next sentence prediction, as the script create_pretraining_data.py makes them: the
// second text follows the first, or is from another document. Which sentences are in a pair is decided for all pairs
// before the seal; which tokens are cut off is drawn when a pair is read.
//
// Random numbers are functions of coordinates (base/philox.h): draw i of a pass over a document is word 0 of counter
// (i, document, pass) under the key for pairs, draw i of a row's shortening word i mod 4 of counter (i / 4, row) under
// the key for shortening. Draws are made in the order of the rule, only where it needs one.

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

// A text corpus as samples: each is a sequence of tokens with its special ones. Made before the seal; reading a sample
// allocates nothing and may be done by any thread.
//
// - Blocks: every document between its special tokens, laid end to end and cut into blocks of max_seq_length tokens.
//   The rest of the last block is dropped.
// - Lines: every sentence between its special tokens, cut at max_seq_length.
// - Pairs: two texts each, labelled 1 where the second one is random.

struct CorpusRules {
  bool by_line = false;
  std::int64_t max_seq_length = 128;
  // Samples are pairs, by line or not; max_tokens follows from max_seq_length.
  std::optional<PairRules> pairs = std::nullopt;
};

class Corpus {
 public:
  // tokenizer: the one that made the store; outlives this. Throws Error (kData) where the text gives no sample.
  Corpus(std::unique_ptr<const TokenStore> store, const DataFiles& files, const Tokenizer& tokenizer,
         const CorpusRules& rules);

  std::int64_t rows() const noexcept { return rows_; }
  const TokenStore& store() const noexcept { return *store_; }
  // Tokens of the longest sample.
  std::int64_t longest() const noexcept { return longest_; }
  // The tokens of a sample; there is room for longest() ids.
  Encoded write(std::int64_t row, Span<std::int32_t> ids) const noexcept;

  // The samples as rows of a manifest: no picture and no text, only where each begins in the text, and
  // the labels of pairs.
  Manifest manifest() const;
  // Shared by the processes that map the same file.
  std::size_t mapped_bytes() const noexcept { return store_->mapped_bytes(); }
  // Each process has its own.
  std::size_t own_bytes() const noexcept { return pairs_.size() * sizeof(SentencePair); }

 private:
  std::int64_t special() const noexcept { return static_cast<std::int64_t>(before_.size() + after_.size()); }
  void index_pairs();
  std::int64_t block_begin(std::int64_t document) const noexcept;
  std::int64_t document_of(std::int64_t position) const noexcept;
  std::int64_t first_sentence(std::int64_t row) const noexcept;
  Encoded write_block(std::int64_t row, std::int32_t* ids) const noexcept;
  Encoded write_line(std::int64_t row, std::int32_t* ids) const noexcept;
  Encoded write_pair(std::int64_t row, std::int32_t* ids) const noexcept;

  std::unique_ptr<const TokenStore> store_;
  DataFiles files_;
  Span<const std::int32_t> before_, between_, after_;  // the special tokens around texts
  CorpusRules rules_;
  std::vector<SentencePair> pairs_;  // by row
  std::int64_t rows_ = 0, longest_ = 0;
};

}  // namespace bascule
