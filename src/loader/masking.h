// SPDX-License-Identifier: Apache-2.0
// Random draws of masked language modelling and image-text matching: which tokens are masked and into what, which
// samples get a caption that is not theirs. Every draw is a function of (seed, text, epoch, row, position), whoever
// makes it and whenever. The functions marked noexcept allocate nothing and are used after the seal.
#pragma once

#include <cstdint>

#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/settings/settings.h"

namespace bascule {

constexpr std::int32_t kUnlabelled = -100;  // the label of a token that the loss does not count

struct MaskingSettings {
  std::uint64_t seed = 0;
  std::uint32_t text = 0;  // the number of the text: each draws numbers of its own
  Masking rule = Masking::kCounted;
  double probability = 0.15;               // in (0, 1]
  std::int64_t most = kNoPredictionLimit;  // of a sample, at least 1; with kCounted
  bool counts_special = false;             // kCounted takes the fraction of all tokens, special ones too
  std::int32_t mask_id = 0;
  std::int32_t vocabulary_size = 0;      // random tokens are drawn from all but the special ones
  Span<const std::int32_t> special_ids;  // ascending, different, below vocabulary_size; never selected
};

// How many of `candidates` non-special tokens are selected: probability x candidates rounded half up, but at least 1
// and at most all; 0 of 0. It never falls when candidates grows, so masked_count(longest) x samples bounds a batch.
std::int64_t masked_count(std::int64_t candidates, double probability) noexcept;

// How many of a sample's `tokens`, of which `candidates` are not special, kCounted selects: masked_count of the
// candidates, at most settings.most. With counts_special probability x tokens, halves rounded to even, at least 1.
std::int64_t counted_selection(std::int64_t tokens, std::int64_t candidates, const MaskingSettings& settings) noexcept;

// The most that may be selected of `samples` samples of at most `tokens` tokens, `candidates` of them not special.
// With kBernoulli a bound that is exceeded with a chance below 2^-64.
std::int64_t selection_bound(std::int64_t samples, std::int64_t tokens, std::int64_t candidates,
                             const MaskingSettings& settings) noexcept;

// Selects tokens of one sample that are not special: kCounted exactly counted_selection, every such choice equally
// likely; kBernoulli each one independently with the probability. Each selected token independently: 80 % become
// mask_id, 10 % a random token, 10 % stay. labels[i] becomes the token that was there, or kUnlabelled. Evaluation
// passes epoch 0. Returns the number selected. ids and labels have equal sizes and do not overlap.
std::int64_t mask_tokens(Span<std::int32_t> ids, Span<std::int32_t> labels, const MaskingSettings& settings,
                         std::int64_t epoch, std::int64_t row) noexcept;

struct NegativeSettings {
  std::uint64_t seed = 0;
  double fraction = 0.5;  // in [0, 1]: the chance of a sample to get a foreign caption
};

struct MatchingSample {
  std::int64_t caption_row = 0;  // the row whose caption goes with the picture
  int label = 1;                 // 1: its own caption; 0: that of a row with a different picture
};

// Throws Error (kData) if captions are to be exchanged and all rows show the same picture.
void check_negatives(const Manifest& manifest, const NegativeSettings& settings);

// Requires check_negatives. For manifests without labels; evaluation passes epoch 0.
MatchingSample matching_sample(const Manifest& manifest, const NegativeSettings& settings, std::int64_t epoch,
                               std::int64_t row) noexcept;

}  // namespace bascule
