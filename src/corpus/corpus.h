// SPDX-License-Identifier: Apache-2.0
// A text corpus as samples: each is a sequence of tokens with its special ones. Made before the seal; reading a sample
// allocates nothing and may be done by any thread.
//
// - Blocks: every document between its special tokens, laid end to end and cut into blocks of max_seq_length tokens.
//   The rest of the last block is dropped.
// - Lines: every sentence between its special tokens, cut at max_seq_length.
// - Pairs: two texts each (pair_index.h), labelled 1 where the second one is random.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/span.h"
#include "src/corpus/pair_index.h"
#include "src/corpus/token_store.h"
#include "src/index/data_files.h"
#include "src/index/manifest.h"
#include "src/settings/settings.h"
#include "src/text/tokenizer.h"

namespace bascule {

struct CorpusRules {
  TextLayout layout = TextLayout::kBlocks;
  std::int64_t max_seq_length = 128;
  // Samples are pairs, whatever the layout; max_tokens follows from max_seq_length.
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
