// SPDX-License-Identifier: Apache-2.0
// One batch as the loader hands it to a step: borrowed from its ring slot, constant, valid until it is released. Text
// is packed: the tokens of all captions one after another, R in all, no padding. The fields that a tape reads have the
// names and meanings of BatchCounts and BatchView.
#pragma once

#include <cstdint>

#include "src/base/row_stream.h"

namespace bascule {

struct BatchSize {
  std::int64_t samples = 0;        // B; 0 where this rank has no share of the epoch's last batch, or all were left out
  std::int64_t text_rows = 0;      // R
  std::int64_t selected_rows = 0;  // M; masked LM only, else 0

  std::int64_t rows_of(int stream) const noexcept {
    return stream == kSampleStream ? samples : stream == kTextRowStream ? text_rows : selected_rows;
  }
};

struct Batch {
  BatchSize counts;
  const float* pixels = nullptr;                  // (B, 3, S, S), normalised
  const std::int32_t* token_ids = nullptr;        // (R), below LoaderSettings::vocabulary_size
  const std::int32_t* position_ids = nullptr;     // (R): pad_id + 1, + 2, ...; pad_id for a token that is pad_id
  const std::int32_t* text_offsets = nullptr;     // (B + 1), first text row of each sample; the last is R
  const std::uint64_t* text_row_keys = nullptr;   // (R), row_key(sample, token)
  const std::uint64_t* image_row_keys = nullptr;  // (B * image_rows), row_key(sample, row); null where not asked for
  const std::uint64_t* sample_keys = nullptr;     // (B), row_key(sample, 0)
  const std::int32_t* selected_rows = nullptr;    // (M), text rows, ascending
  const std::int32_t* labels = nullptr;           // matching: (B), 0 or 1; masked LM: (M), token ids; contrastive: null

  const std::int64_t* rows = nullptr;  // (B), manifest row of each sample's picture
  const std::int64_t* caption_rows =
      nullptr;  // (B), manifest row of its caption; differs from rows for a made negative

  std::int64_t epoch = 0;
  std::int64_t index = 0;  // number of the batch in its epoch, among those that this rank has a share in
  // The positions of the epoch that this rank has of the batch. Sample b has first_position + b, unless bad ones were
  // left out (evaluation only): then the samples are the others, in order, and there are fewer samples than positions.
  std::int64_t first_position = 0;
  std::int64_t positions = 0;
};

// The key of one row of one sample: what dropout_row_key of kernels/dropout.h is, which this room may not include.
// `sample` is the sample's number in the run's global order: epoch * samples of an epoch + position.
constexpr std::uint64_t row_key(std::uint64_t sample, std::uint64_t position) noexcept {
  return (sample << 16) | (position & 0xffffu);
}

}  // namespace bascule
