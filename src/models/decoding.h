// SPDX-License-Identifier: Apache-2.0
// What a model that generates reads beside its weights, one token of every row at a time, and how much of it there may
// be. A generator fills these fields, not a loader. Its rows are beams of samples, or, without beams, samples.
#pragma once

#include <cstdint>

#include "src/base/batch.h"

namespace bascule {

// Bounds of what is generated at once; states have these extents.
struct DecodingShape {
  std::int64_t slots = 0;           // rows
  std::int64_t max_length = 0;      // tokens of a row, its start token too
  std::int64_t source_rows = 0;     // tokens of all sources together
  std::int64_t longest_source = 0;  // and of one
};

// A stream of Use::kDecode: the rows that have not ended. Its samples are those of which a row has not.
inline constexpr int kLiveRows = kFirstModelStream;

inline constexpr char kNextTokens[] = "next_tokens";      // (live rows): the token to read
inline constexpr char kNextPlaces[] = "next_places";      // (live rows): the cache's row that keeps its key and value
inline constexpr char kPastPlaces[] = "past_places";      // (live rows, max_length): the cache's rows of all its tokens
inline constexpr char kPastCounts[] = "past_counts";      // (live rows): their number, this token with them
inline constexpr char kLiveOffsets[] = "live_offsets";    // (samples + 1): the first row of each sample
inline constexpr char kSourcePlaces[] = "source_places";  // (samples, longest_source): the source's rows in its cache
inline constexpr char kSourceCounts[] = "source_counts";  // (samples): their number

inline Fields decoding_fields(const DecodingShape& shape) {
  const Extent live = rows_of_stream(kLiveRows), samples = rows_per_sample(1), offsets = {kSamples, 1, 1};
  constexpr FieldSource kSource = FieldSource::kGenerator;
  return {{kNextTokens, DType::kInt32, live, 1, kSource},
          {kNextPlaces, DType::kInt32, live, 1, kSource},
          {kPastPlaces, DType::kInt32, live, shape.max_length, kSource},
          {kPastCounts, DType::kInt32, live, 1, kSource},
          {kLiveOffsets, DType::kInt32, offsets, 1, kSource},
          {kSourcePlaces, DType::kInt32, samples, shape.longest_source, kSource},
          {kSourceCounts, DType::kInt32, samples, 1, kSource}};
}

}  // namespace bascule
