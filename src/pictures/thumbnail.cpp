// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/thumbnail.h"

#include <algorithm>
#include <cstddef>

#include "src/pictures/png_file.h"

namespace bascule {
namespace {

MediaSettings thumbnail_settings() {
  MediaSettings settings = default_media_settings();
  settings.image_side = kThumbnailSide;
  return settings;
}

}  // namespace

ThumbnailMaker::ThumbnailMaker() : decoder_(thumbnail_settings(), true), pixels_(3 * kThumbnailSide * kThumbnailSide) {}

std::vector<std::uint8_t> ThumbnailMaker::make(const std::string& path) {
  if (!decoder_.decode(path, pixels_.data(), nullptr).empty()) return {};
  constexpr std::size_t kPixels = kThumbnailSide * kThumbnailSide;
  std::vector<std::uint8_t> bytes(3 * kPixels);
  for (std::size_t i = 0; i < kPixels; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const float level = std::clamp(pixels_[c * kPixels + i], 0.0f, 255.0f);  // resizing can pass both ends
      bytes[3 * i + c] = static_cast<std::uint8_t>(level + 0.5f);
    }
  }
  const std::string file = png_content({bytes.data(), kThumbnailSide, kThumbnailSide});
  return {file.begin(), file.end()};
}

}  // namespace bascule
