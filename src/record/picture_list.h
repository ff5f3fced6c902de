// SPDX-License-Identifier: Apache-2.0
// The pictures of a run that draws, in order: each prompt num_images_per_prompt times. Before the seal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/generate/pipeline.h"
#include "src/settings/settings.h"

namespace bascule {

// A text, tokenised once wherever it is used.
struct DrawnText {
  std::string text;
  std::vector<std::int32_t> ids;
};

// The largest number of a picture alone or first in its row: the numbers of all that may follow are integers too.
inline constexpr std::int64_t kLargestNoise = (std::int64_t{1} << 62) - 1;

struct ListedPicture {
  std::int32_t prompt = 0, negative = 0;  // numbers of texts; negative: "" without guidance
  std::uint64_t seed = 0;
  std::int64_t noise = 0;  // the number of its noise under that seed
};

struct PictureList {
  std::vector<DrawnText> texts;  // different ones
  std::vector<ListedPicture> pictures;
  std::vector<std::string> notes;  // for people: texts that were cut
};

// A picture's noise is that of (seed, its number in the list), or, where its row of prompts_file has a seed of its own,
// of (that seed, its number among the row's pictures): it then does not depend on its place in the list. A row that has
// a number of the noise counts from that one.
// Throws Error kSettings for the settings, kData naming the file and the line.
PictureList list_pictures(const Settings& settings, const PromptTokenizer& tokenizer);

}  // namespace bascule
