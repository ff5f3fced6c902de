// SPDX-License-Identifier: Apache-2.0
#include "src/pictures/picture_bytes.h"

#include <algorithm>
#include <cstddef>

#include "src/pictures/png_file.h"

namespace bascule {

void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept {
  // Added to a number from 0 to 2^22, this leaves it no bits behind the point: the addition rounds it.
  constexpr float kRounds = 12582912.0f;  // 1.5 * 2^23
  for (std::int64_t i = 0; i < count; ++i) {
    const float share = values[i] * 0.5f + 0.5f;
    const float clamped = share > 0.0f ? (share < 1.0f ? share : 1.0f) : 0.0f;
    bytes[i] = static_cast<std::uint8_t>((clamped * 255.0f + kRounds) - kRounds);
  }
}

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

std::vector<std::uint8_t> ThumbnailMaker::make(const std::string& path, PictureDecoder::Size* size) {
  if (!decoder_.decode(path, pixels_.data(), size).empty()) return {};
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
