// SPDX-License-Identifier: Apache-2.0
// The texts of samples, written into a batch one behind the other: tokens, positions, types, keys, masks. After the
// seal, but for what bounds them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/span.h"
#include "src/base/status.h"
#include "src/corpus/corpus.h"
#include "src/index/manifest.h"
#include "src/loader/masking.h"
#include "src/loader/ring.h"
#include "src/text/tokenizer.h"

namespace bascule {

// The texts of a row that make one text of a sample: the one in this place among them, or all, of which a pair becomes
// one sequence.
inline constexpr int kAllTexts = -1;

// One of the texts of a sample.
struct TextSettings {
  const Tokenizer* tokenizer = nullptr;
  const Corpus* corpus = nullptr;  // has the samples' tokens; null: their texts are tokenised
  int of_row = kAllTexts;
  std::int64_t longest = 0;  // the most tokens that such a text has, by the plan
  std::string prefix;        // put before the text; none where it is a pair
  std::string column;        // of the row's text, for messages
  bool pads = false;         // a text is padded to its maximal length, with tokens like any other
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

// A row's texts, as the tokenizer takes them.
inline Texts texts_of(const Manifest& manifest, std::int64_t row, int which) noexcept {
  if (which != kAllTexts) return {manifest.text(row, static_cast<std::size_t>(which))};
  const ManifestRow whole = manifest.row(row);
  return {whole.text, whole.second_text};
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
  std::int64_t text = 0;       // the number of this text in the batch: of its sample, or of one of a sample's several
  std::int64_t first_row = 0;  // the batch's first row of the sample's texts of that number
  std::int64_t row = 0;        // of the manifest
  std::int64_t text_row = 0;   // the row whose text it has; another one for an exchanged caption
  std::uint64_t number = 0;    // in the run's global order
};

// Appends the sample's text to slot->texts[text] and counts its rows in slot->batch. Texts are written in order of
// their numbers in the batch. kLongText: it has more tokens than any was to have. Allocates nothing.
Status write_text(Slot* slot, int text, const TextSample& sample, const Manifest& manifest,
                  const TextSettings& settings, TextScratch& scratch) noexcept;

}  // namespace bascule
