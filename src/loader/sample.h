// SPDX-License-Identifier: Apache-2.0
// The fields of a batch beside its pictures: packed captions, positions, keys, masks, labels. Made for a whole batch at
// once, when all its pictures are there and it is known which rows they came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/span.h"
#include "src/corpus/corpus.h"
#include "src/index/manifest.h"
#include "src/loader/masking.h"
#include "src/loader/mixing.h"
#include "src/loader/slot.h"
#include "src/text/tokenizer.h"

namespace bascule {

struct TextSettings {
  const Tokenizer* tokenizer = nullptr;
  const Corpus* corpus = nullptr;   // has the samples' tokens; null: their captions are tokenised
  bool exchanges_captions = false;  // of some samples, where rows have no labels that say whether they belong
  bool masks_tokens = false;
  std::int64_t max_seq_length = 128;
  PositionRule positions;
  std::int64_t vocabulary_size = 0;
  MaskingSettings masking;     // read where tokens are masked
  NegativeSettings negatives;  // read where captions are exchanged
};

// Working memory of one thread: a tokenizer's, and the labels of one caption.
class TextScratch {
 public:
  // A multiple of 64.
  static std::size_t bytes(std::size_t tokenizer_bytes, std::int64_t longest_caption) noexcept;
  // Requires `bytes` of memory, 64-byte aligned.
  TextScratch(Span<std::byte> memory, std::int64_t longest_caption) noexcept;

  Span<std::byte> tokenizer;
  Span<std::int32_t> labels;
};

// A row's texts, as the tokenizer takes them.
inline Texts texts_of(const ManifestRow& row) noexcept { return {row.caption, row.second_caption}; }

// The tokens of a row's texts, at most ids.size().
Span<std::int32_t> tokens_of(const Manifest& manifest, const TextSettings& settings, std::int64_t row,
                             Span<std::int32_t> ids, TextScratch& scratch) noexcept;

// Most masked tokens of a batch of `samples` of the manifest.
std::int64_t max_masked_tokens(const TextSettings& settings, const Manifest& manifest, std::int64_t samples,
                               std::int64_t longest) noexcept;

// When a slot is opened, slot->place being set: its batch without samples, which for an empty place is all of it.
void begin_batch(Slot* slot) noexcept;

// Completes slot->batch from slot->place and slot->samples, or sets slot->status if a sample failed. The samples that
// were not left out move together. mix: of a stream that leaves out none, whose batches begin with the first of a pair.
// samples_per_epoch: of all ranks. Allocates nothing.
void complete_batch(Slot* slot, const Manifest& manifest, const TextSettings& settings, const MixSettings& mix,
                    std::int64_t samples_per_epoch, TextScratch& scratch) noexcept;

}  // namespace bascule
