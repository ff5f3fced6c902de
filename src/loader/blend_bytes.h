// SPDX-License-Identifier: Apache-2.0
// The arithmetic that the operations of byte_picture.h share: torchvision's blend of two values, and its grey of a
// pixel. Sealed world.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/loader/byte_picture.h"

namespace bascule {

// Cut off, not rounded.
inline std::uint8_t byte_of(float value) noexcept {
  return static_cast<std::uint8_t>(std::min(std::max(value, 0.0F), 255.0F));
}

// factor times a value and 1 - factor times another.
class ByteBlend {
 public:
  explicit ByteBlend(double factor) noexcept
      : own_(static_cast<float>(factor)), other_(static_cast<float>(1.0 - factor)) {}
  std::uint8_t operator()(std::uint8_t value, float other) const noexcept {
    return byte_of(own_ * static_cast<float>(value) + other_ * other);
  }

 private:
  float own_, other_;
};

// The grey of the pixel at that place of the planes.
inline std::uint8_t gray_of(const BytePicture& picture, std::int64_t at) noexcept {
  const std::int64_t plane = picture.plane();
  const float red = picture.pixels[at], green = picture.pixels[plane + at], blue = picture.pixels[2 * plane + at];
  return byte_of(0.2989F * red + 0.587F * green + 0.114F * blue);
}

}  // namespace bascule
