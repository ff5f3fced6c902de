// SPDX-License-Identifier: Apache-2.0
// The streams of rows and the fields of a batch that BridgeTower reads.
#pragma once

#include <cstdint>

#include "src/base/batch.h"
#include "src/models/bridgetower_config.h"

namespace bascule {

inline constexpr int kTextTokens = kFirstModelStream;        // R
inline constexpr int kMaskedTokens = kFirstModelStream + 1;  // M: those that a masked-LM head predicts

constexpr BatchCounts bridgetower_counts(std::int64_t samples, std::int64_t text_tokens,
                                         std::int64_t masked_tokens = 0) {
  BatchCounts counts;
  counts[kSamples] = samples;
  counts[kTextTokens] = text_tokens;
  counts[kMaskedTokens] = masked_tokens;
  return counts;
}

// For pictures of height x width. image_row_keys: where something is dropped.
Fields bridgetower_fields(const BridgeTowerConfig& config, ModelHead head, std::int64_t height, std::int64_t width,
                          bool image_row_keys);

}  // namespace bascule
