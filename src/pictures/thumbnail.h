// SPDX-License-Identifier: Apache-2.0
// Small copies of pictures, for pages: squares cut from the middle, as PNG. Not for the sealed phase: allocates, throws
// Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/pictures/picture_decoder.h"

namespace bascule {

inline constexpr std::int64_t kThumbnailSide = 48;

class ThumbnailMaker {
 public:
  explicit ThumbnailMaker(std::int64_t side = kThumbnailSide);
  // Of a file, or a picture in a shard; at most 8 KB with kThumbnailSide. Empty where it cannot be read or is refused.
  // Throws Error kData where the media engine fails.
  std::vector<std::uint8_t> make(const std::string& path);

 private:
  const std::int64_t side_;
  PictureDecoder decoder_;
  std::vector<float> pixels_;  // (3, side, side), 0 to 255
};

}  // namespace bascule
