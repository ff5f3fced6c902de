// SPDX-License-Identifier: Apache-2.0
// What a finished run left to search in (embeddings.safetensors), and ranking by cosine. After a run; throws Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bascule {

// Embeddings are rows of `width` floats of length 1, in the order of the manifest.
struct SearchIndex {
  std::string split;
  std::vector<std::string> paths, captions;  // by row
  std::vector<float> image_embeds, text_embeds;
};

// Throws Error kData where the file is absent, malformed, or of another width than the model's.
SearchIndex read_search_index(const std::string& folder, std::int64_t width);

struct Ranked {
  std::size_t row = 0;
  double score = 0.0;
};

// The `top` rows of `embeds` that are nearest to `query`, best first, by dot product in float64; ties by row. Of rows
// with the same name only the best is ranked; *candidates is how many names there are. Requires rows of query.size()
// floats, as many as names.
std::vector<Ranked> nearest(const std::vector<float>& query, const std::vector<float>& embeds,
                            const std::vector<std::string>& names, std::size_t top, std::size_t* candidates);

}  // namespace bascule
