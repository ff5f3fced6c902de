// SPDX-License-Identifier: Apache-2.0
// How long texts are in tokens, which decides how much text a batch may have. Before the seal.
#pragma once

#include <cstdint>

#include "src/index/manifest.h"
#include "src/index/open_manifest.h"
#include "src/loader/write_text.h"

namespace bascule {

// Whether the cache holds what longest_text() is to say, so that it reads no text.
bool has_longest_text(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache);

// Tokens of the longest text, with those of the beginning and the end, at most settings.shape.max_length. Tokenises
// all, unless another run did so with the same texts, tokenizer and max_length and left the answer in the cache;
// manifests of fewer than cache.smallest_rows leave none. Throws Error (kData) naming the row for an id that the model
// has no embedding for, and where the texts that are to be tokenised are those of a damaged index.
std::int64_t longest_text(const Manifest& manifest, const TextSettings& settings, const IndexCache& cache = {});

}  // namespace bascule
