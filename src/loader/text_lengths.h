// SPDX-License-Identifier: Apache-2.0
// How long texts are in tokens, which decides how much text a batch may have. Before the seal.
#pragma once

#include <cstdint>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/loader/write_text.h"

namespace bascule {

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
