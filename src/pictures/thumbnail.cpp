// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/thumbnail.h"

#include <algorithm>
#include <cstddef>

#include "src/pictures/png_file.h"

namespace bascule {
namespace {

MediaSettings thumbnail_settings(std::int64_t side, CopyKind kind) {
  MediaSettings settings = default_media_settings();
  settings.image_side = side;
  if (kind == CopyKind::kMiddle) return settings;
  settings.driver = media_engine_host();
  settings.preprocessing = Preprocessing::kProcessor;
  settings.processor.makes_squares = true;
  settings.interpolation = settings.processor.interpolation = Interpolation::kBilinear;
  return settings;
}

}  // namespace

ThumbnailMaker::ThumbnailMaker(std::int64_t side, CopyKind kind)
    : side_(side), decoder_(thumbnail_settings(side, kind), true), pixels_(static_cast<std::size_t>(3 * side * side)) {}

std::vector<std::uint8_t> ThumbnailMaker::make(const std::string& path) {
  if (!decoder_.decode(path, pixels_.data(), nullptr).empty()) return {};
  const std::size_t pixels = pixels_.size() / 3;
  std::vector<std::uint8_t> bytes(pixels_.size());
  for (std::size_t i = 0; i < pixels; ++i) {
    for (std::size_t c = 0; c < 3; ++c) {
      const float level = std::clamp(pixels_[c * pixels + i], 0.0f, 255.0f);  // resizing can pass both ends
      bytes[3 * i + c] = static_cast<std::uint8_t>(level + 0.5f);
    }
  }
  const std::string file = png_content({bytes.data(), side_, side_});
  return {file.begin(), file.end()};
}

}  // namespace bascule
