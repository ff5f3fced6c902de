// SPDX-License-Identifier: Apache-2.0
// Batches. A batch has streams of rows (its samples, their text tokens, ...) and fields: arrays that the loader fills
// and operations read. A model declares both; nothing else knows what they mean.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/dtype.h"

namespace bascule {

// A stream is a number. Every batch has the first two; a model names its own from kFirstModelStream on.
inline constexpr int kSamples = 0;
inline constexpr int kSamplesOfAllRanks = 1;  // counted only where a loss is made over the samples of all ranks
inline constexpr int kFirstModelStream = 2;
inline constexpr int kMaxStreams = 8;
inline constexpr int kMaxFields = 16;
inline constexpr int kMaxLossTerms = 2;
inline constexpr int kMaxTexts = 2;                         // of a sample, by number from 0 on
inline constexpr std::int64_t kMaxTokensOfTexts = 1 << 16;  // together, where a sample has several; see text_row_key()

// Rows by stream: of one batch, or the most that any batch may have.
struct BatchCounts {
  std::int64_t rows[kMaxStreams] = {};
  std::int64_t longest[kMaxStreams] = {};  // in bounds: the most rows of one sample, or of one of its texts; 0: unknown

  constexpr BatchCounts() {}  // so {3, 40} does not compile: it would not say which streams it counts
  constexpr std::int64_t& operator[](int stream) { return rows[stream]; }
  constexpr std::int64_t operator[](int stream) const { return rows[stream]; }
  constexpr std::int64_t samples() const { return rows[kSamples]; }
};

// per_row * rows of the stream + fixed: every row count of a model is such an expression.
struct Extent {
  int stream = kSamples;
  std::int64_t per_row = 0;
  std::int64_t fixed = 0;

  constexpr std::int64_t at(const BatchCounts& counts) const { return per_row * counts[stream] + fixed; }
  // `count` times as many rows.
  constexpr Extent times(std::int64_t count) const { return {stream, per_row * count, fixed * count}; }
  constexpr bool operator==(const Extent& other) const {
    return per_row == other.per_row && fixed == other.fixed && (stream == other.stream || per_row == 0);
  }
};

constexpr Extent rows_of_stream(int stream, std::int64_t per_row = 1) { return Extent{stream, per_row, 0}; }
constexpr Extent rows_per_sample(std::int64_t count) { return Extent{kSamples, count, 0}; }
constexpr Extent fixed_rows(std::int64_t count) { return Extent{kSamples, 0, count}; }

// The content that a loader fills a field with.
enum class FieldSource : std::uint8_t {
  kPixels,        // float32 (samples, 3 side side): the picture, normalised
  kTokenIds,      // int32 (tokens): the texts of that number, packed end to end; a pair of texts is one sequence
  kTokenTypes,    // int32 (tokens): 0, or the tokenizer's type for the second text of a pair
  kPositionIds,   // int32 (tokens): the place of each token in its text, by the model's PositionRule
  kTextOffsets,   // int32 (samples + 1): first token of each sample; the last is the number of tokens. Of several
                  // texts a sample (ModelInputs::texts_in_a_row) first token of each text
  kTextRowKeys,   // int64 (tokens): text_row_key(sample, text, token)
  kImageRowKeys,  // int64 (samples x rows): row_key(sample, row)
  kSampleKeys,    // int64 (samples): row_key(sample, 0); of several texts a sample, of each text:
                  // row_key(sample * texts + text, 0)
  kMaskedRows,    // int32 (masked tokens): their numbers among the tokens, ascending; the tokens are masked
  kMaskedLabels,  // int32 (masked tokens): the token that was there
  kReadRows,      // int32 (read rows): numbers among the tokens of each text's first one and its masked ones, ascending
  kReadOffsets,   // int32 (samples + 1): first read row of each sample; the last is their number
  kReadRowKeys,   // int64 (read rows): text_row_key(sample, text, token)
  kMaskedAmongRead,  // int32 (masked tokens): their numbers among the read rows
  kDecoderIds,       // int32 (tokens): what a decoder reads of the text: TextShape::start_id, then all its tokens but
                     // the last
  kLabelledRows,     // int32 (labelled tokens): their numbers among the tokens, ascending
  kTokenLabels,      // int32 (labelled tokens): the token there, which the decoder predicts; of words the tag
  kLabelledWords,    // int32 (labelled tokens): the number of the token's word in its text
  kMatchLabels,      // int32 (samples): 1 if the caption belongs to the picture, else 0; where rows have no labels,
                     // captions of some samples are exchanged
  kClassLabels,      // int32 (samples): the number of the row's class
  kLabelValues,      // float32 (samples): the row's label, where labels are values
  kMixedLabels,      // int32 (samples): the class of the sample that it is mixed with
  kLabelShares,      // float32 (samples): the share of its own class, in [0, 1]
  kGenerator,        // no loader: a generator, which knows the field by its name
};

// Whether the content is of one of a sample's texts, which Field::text tells.
constexpr bool is_of_text(FieldSource source) {
  switch (source) {
    case FieldSource::kTokenIds:
    case FieldSource::kTokenTypes:
    case FieldSource::kPositionIds:
    case FieldSource::kTextOffsets:
    case FieldSource::kTextRowKeys:
    case FieldSource::kMaskedRows:
    case FieldSource::kMaskedLabels:
    case FieldSource::kReadRows:
    case FieldSource::kReadOffsets:
    case FieldSource::kReadRowKeys:
    case FieldSource::kMaskedAmongRead:
    case FieldSource::kDecoderIds:
    case FieldSource::kLabelledRows:
    case FieldSource::kTokenLabels:
    case FieldSource::kLabelledWords: return true;
    default: return false;
  }
}

// How a model numbers the tokens of a text: from `first` on. Where it skips a token, that token has its own id as its
// position, and the tokens behind it are numbered as if it were not there.
struct PositionRule {
  std::int32_t first = 0;
  std::int32_t skipped_id = -1;  // of such a token; -1: there is none

  // The position of a token behind `counted` others, which it is added to if it counts.
  std::int32_t next(std::int32_t id, std::int32_t* counted) const {
    return id == skipped_id ? skipped_id : first + (*counted)++;
  }
};

// One of the texts of a sample, as a model reads it.
struct TextShape {
  std::int64_t vocabulary_size = 0;  // ids are below it; 0: the model reads no such text
  std::int64_t max_length = 0;       // of its tokens, special ones too
  std::int64_t max_positions = 0;    // rows of the table of positions; 0: there is none, and any place will do
  PositionRule positions;
  std::int64_t token_types = 1;  // types of tokens are below it; 0: the model reads none, and any will do
  std::int32_t start_id = 0;     // what a decoder reads before the first token
  std::int32_t pad_id = 0;       // what a target is padded with, where its padding counts
};

struct Field {
  std::string name;
  DType dtype = DType::kFloat32;
  Extent rows;
  std::int64_t cols = 1;
  FieldSource source = FieldSource::kPixels;
  std::uint8_t text = 0;  // the number of the text that it is of; 0 where it is of none

  std::int64_t elements(const BatchCounts& counts) const { return rows.at(counts) * cols; }
};

using Fields = std::vector<Field>;  // at most kMaxFields

// The number of the field with this name, or from this source and text; -1: none is declared.
inline int field_named(const Fields& fields, std::string_view name) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return static_cast<int>(i);
  }
  return -1;
}
inline int field_from(const Fields& fields, FieldSource source, int text = 0) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].source == source && fields[i].text == text) return static_cast<int>(i);
  }
  return -1;
}

// One batch: borrowed from its ring slot, constant, valid until it is released. Text is packed: the tokens of all
// samples one after another, no padding. Everything in it was checked where it was read: ids lie in the vocabulary,
// offsets grow, labels are classes.
struct Batch {
  BatchCounts counts;  // no samples where this rank has no share of the epoch's last batch, or all were left out
  const void* fields[kMaxFields] = {};  // in the order of the model's declaration; null: not filled

  const std::int64_t* rows = nullptr;           // (samples), manifest row of each sample's picture
  const std::int64_t* rows_of_texts = nullptr;  // (samples), that of its texts; another one for an exchanged caption
  std::int64_t epoch = 0;
  std::int64_t index = 0;  // number of the batch in its epoch, among those that this rank has a share in
  // The positions of the epoch that this rank has of the batch. Sample b has first_position + b, unless bad ones were
  // left out (evaluation only): then the samples are the others, in order, and there are fewer samples than positions.
  std::int64_t first_position = 0;
  std::int64_t positions = 0;
  // The same of the batch of all ranks.
  std::int64_t first_position_of_all = 0, positions_of_all = 0;

  // A field of the model's declaration; null for number -1.
  template <typename Element>
  const Element* field(int number) const {
    return number < 0 ? nullptr : static_cast<const Element*>(fields[number]);
  }
};

// Samples that were bad, and those that stand in for them.

// In place of a row: none was taken.
inline constexpr std::int64_t kNoRow = -1;

// The sample at `position` of epoch `epoch` shows the picture of `bad_row`, which is bad; `row` was taken in its place,
// or none was: an evaluation leaves the sample out, and where nothing is skipped it ends the run.
struct ReplacedSample {
  std::int64_t epoch = 0;
  std::int64_t position = 0;
  std::int64_t row = 0;
  std::int64_t bad_row = 0;
  std::int64_t reason = 0;  // picture_reason() of loader/media.h, or a mark of loader/worker.h
};

// The key of one row of one sample, from which its random numbers come: what dropout_row_key of kernels/dropout.h is.
// `sample` is the sample's number in the run's global order: epoch * samples of an epoch + position.
constexpr std::uint64_t row_key(std::uint64_t sample, std::uint64_t position) noexcept {
  return (sample << 16) | (position & 0xffffu);
}

// The key of a token of one of a sample's texts; of several that follow each other as its first one, `token` counts
// through all of them. Those of the second text count down from the last position, so no key
// is one of the first text's while the two have at most kMaxTokensOfTexts together.
inline std::uint64_t text_row_key(std::uint64_t sample, int text, std::uint64_t token) noexcept {
  return row_key(sample, text == 0 ? token : 0xffffu - token);
}

}  // namespace bascule
