// SPDX-License-Identifier: Apache-2.0
#include "src/draw_run/picture_texts.h"

namespace bascule {

std::vector<PngText> picture_texts(const std::string& prompt, std::uint64_t seed, const std::string& digest) {
  return {{"prompt", prompt}, {"seed", std::to_string(seed)}, {"settings digest", digest}};
}

}  // namespace bascule
