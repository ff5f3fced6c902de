// SPDX-License-Identifier: Apache-2.0
// Counts of texts ahead of their batches: labelled tokens, and lengths.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/loader/sample.h"
#include "src/loader/sampler.h"
#include "src/loader/write_text.h"

namespace bascule {

// Counts the labelled tokens of batches that are not loaded yet, by masking their texts as a worker will. For losses
// that add a mean over them to a mean over something else: how such an update's batches weigh must be known before the
// first of them is computed.

class LabelCount {
 public:
  // worker_scratch: of a TextScratch. A multiple of 64.
  static std::size_t bytes(std::size_t worker_scratch, std::int64_t longest_text) noexcept;
  // Requires `bytes` of memory, 64-byte aligned.
  LabelCount(Span<std::byte> memory, std::int64_t longest_text) noexcept;

  // Those of this rank's batches [first, end) of a stream whose samples are texts alone, so that none is replaced.
  // Allocates nothing.
  std::int64_t of(const Manifest& manifest, const SampleSettings& settings, const BatchOrder& order, std::int64_t first,
                  std::int64_t end) noexcept;

 private:
  Span<std::int32_t> ids_;
  TextScratch scratch_;
};

// How long texts are in tokens, which decides how much text a batch may have. Before the seal.

struct TextLengths {
  std::int64_t longest = 0;  // tokens of the longest text, with those of the beginning and the end, and the prefix
  std::int64_t cut = 0;      // texts that have more than settings.shape.max_length, but no pairs; or words behind that
};

// Whether the cache holds what text_lengths() is to say, so that it reads no text.
bool has_text_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache);

// Lengths are at most settings.shape.max_length. Tokenises all texts but those of rows with an empty one, unless
// another run did so with the same texts, tokenizer, prefix and max_length and left the answer in the cache; manifests
// of fewer than cache.smallest_rows leave none. Throws Error (kData) naming the row for an id that the model has no
// embedding for, and where the texts that are to be tokenised are those of a damaged index.
TextLengths text_lengths(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache = {});

}  // namespace bascule
