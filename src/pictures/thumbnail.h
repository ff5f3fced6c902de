// SPDX-License-Identifier: Apache-2.0
// Small square copies of pictures, for pages, as PNG. Not for the sealed phase: allocates, throws Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/pictures/picture_decoder.h"

namespace bascule {

inline constexpr std::int64_t kThumbnailSide = 48;

// kMiddle: the square in the middle. kSqueezed: the whole picture, for a page that shows it in its own proportions.
enum class CopyKind { kMiddle, kSqueezed };

class ThumbnailMaker {
 public:
  explicit ThumbnailMaker(std::int64_t side = kThumbnailSide, CopyKind kind = CopyKind::kMiddle);
  // Of a file, or a picture in a shard; at most 8 KB with kThumbnailSide. Empty where it cannot be read or is refused.
  // Throws Error kData where the media engine fails.
  std::vector<std::uint8_t> make(const std::string& path);

 private:
  const std::int64_t side_;
  PictureDecoder decoder_;
  std::vector<float> pixels_;  // (3, side, side), 0 to 255
};

}  // namespace bascule
