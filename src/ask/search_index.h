// SPDX-License-Identifier: Apache-2.0
// The embeddings of a finished run (embeddings.safetensors), and ranking by cosine. After a run; throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/nearest.h"
#include "src/base/span.h"

namespace bascule {

// Embeddings are rows of `width` floats of length 1, in the order of the manifest.
struct SearchIndex {
  std::string split;
  std::vector<std::string> paths, captions;  // by row
  std::vector<float> image_embeds, text_embeds;
};

// Throws Error kData where the file is absent, malformed, of another width than the model's, or holds NaN.
SearchIndex read_search_index(const std::string& folder, std::int64_t width);

// The `top` rows of `embeds` that are nearest to `query`, best first; ties by row. Only the best of rows with the same
// name is kept; *candidates is how many names there are. Requires rows of query.size() floats, as many as names.
std::vector<Neighbour> nearest_names(const std::vector<float>& query, const std::vector<float>& embeds,
                                     const std::vector<std::string>& names, std::size_t top, std::size_t* candidates);

// Throws Error kData, naming the first row of `width` floats that holds NaN or an infinity.
void refuse_not_finite(Span<const float> embeds, std::int64_t width, const std::string& where);

}  // namespace bascule
