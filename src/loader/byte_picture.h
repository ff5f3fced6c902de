// SPDX-License-Identifier: Apache-2.0
// Operations on a picture of bytes, and the blend that they share.
#pragma once

#include <algorithm>
#include <cstdint>

namespace bascule {

// The operations of torchvision's RandAugment and ColorJitter on a picture of bytes, as its tensor path computes them
// (torchvision.transforms._functional_tensor, 0.29): float32 in the same order, cut off to bytes. Equal to the byte,
// but for two: contrast, where torchvision adds up more than 2^24 in float32 and rounds, and the geometric operations,
// which place pixels in float64: of those a pixel may be the neighbour of torchvision's where its place lies within
// 1e-4 pixels of the middle between two. Sealed world.

// Planes R, G, B of side x side bytes, rows from the top, no gaps. `copy`: as much again, for operations that read what
// they replace.
struct BytePicture {
  std::uint8_t *pixels, *copy;
  std::int64_t side;

  std::int64_t plane() const { return side * side; }
  std::int64_t values() const { return 3 * plane(); }
};

// factor: 0 or more; 1 changes nothing.
void adjust_brightness(const BytePicture& picture, double factor) noexcept;
void adjust_contrast(const BytePicture& picture, double factor) noexcept;
void adjust_saturation(const BytePicture& picture, double factor) noexcept;
void adjust_sharpness(const BytePicture& picture, double factor) noexcept;

// bits: how many upper bits of each value are kept, 0..8.
void posterize(const BytePicture& picture, int bits) noexcept;
// Values from the threshold on are inverted.
void solarize(const BytePicture& picture, double threshold) noexcept;
void auto_contrast(const BytePicture& picture) noexcept;
void equalize(const BytePicture& picture) noexcept;

// Pixels from outside are 0; the nearest pixel counts. shear_x moves each row by `share` times the distance of
// its middle from the top, to the left where share is positive; shear_y moves each column by `share` times the distance
// of its middle from the left side, upwards where share is positive.
void shear_x(const BytePicture& picture, double share) noexcept;
void shear_y(const BytePicture& picture, double share) noexcept;
// Pixels, to the right and down.
void translate(const BytePicture& picture, std::int64_t columns, std::int64_t rows) noexcept;
// Counter-clockwise, around the centre.
void rotate(const BytePicture& picture, double degrees) noexcept;

// The arithmetic that the operations of byte_picture.h share: torchvision's blend of two values, and its grey of a
// pixel. Sealed world.

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
