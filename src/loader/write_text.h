// SPDX-License-Identifier: Apache-2.0
// The texts of samples, written into a batch one behind the other: tokens, positions, types, keys, masks. After the
// seal, but for what bounds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/corpus/corpus.h"
#include "src/index/manifest.h"
#include "src/loader/masking.h"
#include "src/loader/slot.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The texts of a row that make one text of a sample.
enum class RowTexts : std::uint8_t {
  kAll,     // a pair becomes one sequence
  kFirst,   // of a pair, whose texts are two of the sample's
  kSecond,  // likewise
};

// One of the texts of a sample.
struct TextSettings {
  const Tokenizer* tokenizer = nullptr;
  const Corpus* corpus = nullptr;  // has the samples' tokens; null: their texts are tokenised
  RowTexts of_row = RowTexts::kAll;
  std::string prefix;  // put before the text; none where it is a pair
  std::string column;  // of the row's text, for messages
  bool pads = false;   // a text is padded to its maximal length, with tokens like any other
  bool masks_tokens = false;
  // The row's text is a list of words, whose tags are labels: of each word's first token; where further_labels are
  // there, of the others too, by tag.
  bool reads_words = false;
  std::vector<std::int32_t> further_labels;
  TextShape shape;
  MaskingSettings masking;  // read where tokens are masked
};

// Working memory of one thread: a tokenizer's, and the labels, or numbers of words, of one text.
class TextScratch {
 public:
  // A multiple of 64.
  static std::size_t bytes(std::size_t tokenizer_bytes, std::int64_t longest_text) noexcept;
  // Requires `bytes` of memory, 64-byte aligned.
  TextScratch(Span<std::byte> memory, std::int64_t longest_text) noexcept;

  Span<std::byte> tokenizer;
  Span<std::int32_t> labels;
};

// A row's texts, as the tokenizer takes them. kSecond: the row has one.
inline Texts texts_of(const ManifestRow& row, RowTexts which) noexcept {
  if (which == RowTexts::kSecond) return {*row.second_text};
  return {row.text, which == RowTexts::kAll ? row.second_text : std::nullopt};
}
// The special tokens of such a text.
std::int64_t special_tokens(const TextSettings& settings, const Manifest& manifest) noexcept;

// Working memory to encode texts of at most this many bytes.
std::size_t encode_scratch_bytes(const TextSettings& settings, std::size_t longest_text_bytes) noexcept;
// Tokenizer::encode_into() of a row's text, behind its prefix. Of a text of a corpus, or of words, nothing is to be
// encoded.
Status encode_text(const Manifest& manifest, const TextSettings& settings, std::int64_t row, Span<std::int32_t> ids,
                   Encoded* encoded, Span<std::byte> scratch) noexcept;

// The tokens of a row's text, at most ids.size().
Span<std::int32_t> tokens_of(const Manifest& manifest, const TextSettings& settings, std::int64_t row,
                             Span<std::int32_t> ids, TextScratch& scratch) noexcept;

// Most masked tokens of a batch of `samples` of the manifest.
std::int64_t max_masked_tokens(const TextSettings& settings, const Manifest& manifest, std::int64_t samples,
                               std::int64_t longest) noexcept;

// A sample of a batch, as the writer of its texts needs to know it.
struct TextSample {
  std::int64_t b = 0;         // its number in the batch
  std::int64_t row = 0;       // of the manifest
  std::int64_t text_row = 0;  // the row whose text it has; another one for an exchanged caption
  std::uint64_t number = 0;   // in the run's global order
};

// Appends the sample's text to slot->texts[text] and counts its rows in slot->batch. Samples are written in order of
// their numbers. kLongText: it has more tokens than any was to have. Allocates nothing.
Status write_text(Slot* slot, int text, const TextSample& sample, const Manifest& manifest,
                  const TextSettings& settings, TextScratch& scratch) noexcept;

}  // namespace bascule
