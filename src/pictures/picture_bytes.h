// SPDX-License-Identifier: Apache-2.0
// Generated pictures as bytes, and small copies of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/pictures/picture_decoder.h"

namespace bascule {

// The pixels of a generated picture as bytes. Usable before and after the seal.

// bytes[i] = 255 clamp(values[i] / 2 + 1/2, 0, 1) rounded half to even, all in float32; a NaN becomes 0. values: a
// decoder's output, -1 black and 1 white, as it lies in memory. Source: VaeImageProcessor.postprocess of diffusers.
void fill_picture_bytes(std::uint8_t* bytes, const float* values, std::int64_t count) noexcept;

// Small square copies of pictures, for pages, as PNG. Not for the sealed phase: allocates, throws Error.

inline constexpr std::int64_t kThumbnailSide = 48;

// kMiddle: the square in the middle. kSqueezed: the whole picture, for a page that shows it in its own proportions.
enum class CopyKind { kMiddle, kSqueezed };

class ThumbnailMaker {
 public:
  explicit ThumbnailMaker(std::int64_t side = kThumbnailSide, CopyKind kind = CopyKind::kMiddle);
  // The thumbnail of a file, or of a picture in a shard; at most 8 KB with kThumbnailSide. Empty where it cannot be
  // read or is refused. Throws Error kData where the media engine fails. size: of the picture; may be null.
  std::vector<std::uint8_t> make(const std::string& path, PictureDecoder::Size* size = nullptr);

 private:
  const std::int64_t side_;
  PictureDecoder decoder_;
  std::vector<float> pixels_;  // (3, side, side), 0 to 255
};

}  // namespace bascule
