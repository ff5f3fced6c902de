// SPDX-License-Identifier: Apache-2.0
#include "src/loader/byte_picture.h"

#include <cstring>

namespace bascule {
namespace {

constexpr int kLevels = 256;

// Replaces each value v of `count` by table[v].
void look_up(std::uint8_t* values, std::int64_t count, const std::uint8_t table[kLevels]) noexcept {
  for (std::int64_t i = 0; i < count; ++i) values[i] = table[values[i]];
}

// How many values of a plane each level has.
void count_levels(const std::uint8_t* plane, std::int64_t count, std::int64_t levels[kLevels]) noexcept {
  std::fill_n(levels, kLevels, std::int64_t{0});
  for (std::int64_t i = 0; i < count; ++i) ++levels[plane[i]];
}

// Nine values around one inside the picture, the middle one five times.
int sum_around(const std::uint8_t* at, std::int64_t side) noexcept {
  int sum = 4 * at[0];
  for (std::int64_t row = -1; row <= 1; ++row) {
    const std::uint8_t* const middle = at + row * side;
    sum += middle[-1] + middle[0] + middle[1];
  }
  return sum;
}

}  // namespace

void adjust_brightness(const BytePicture& picture, double factor) noexcept {
  std::uint8_t table[kLevels];
  const ByteBlend blend(factor);
  for (int v = 0; v < kLevels; ++v) table[v] = blend(static_cast<std::uint8_t>(v), 0.0F);
  look_up(picture.pixels, picture.values(), table);
}

void adjust_contrast(const BytePicture& picture, double factor) noexcept {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < picture.plane(); ++i) sum += gray_of(picture, i);
  const float mean = static_cast<float>(sum) / static_cast<float>(picture.plane());
  std::uint8_t table[kLevels];
  const ByteBlend blend(factor);
  for (int v = 0; v < kLevels; ++v) table[v] = blend(static_cast<std::uint8_t>(v), mean);
  look_up(picture.pixels, picture.values(), table);
}

void adjust_saturation(const BytePicture& picture, double factor) noexcept {
  const ByteBlend blend(factor);
  const std::int64_t plane = picture.plane();
  for (std::int64_t i = 0; i < plane; ++i) {
    const float gray = gray_of(picture, i);
    for (std::int64_t c = 0; c < 3; ++c) {
      std::uint8_t& value = picture.pixels[c * plane + i];
      value = blend(value, gray);
    }
  }
}

// A blurred picture has the border of the sharp one. Its sums are multiples of 1/13, never half-way between two bytes.
void adjust_sharpness(const BytePicture& picture, double factor) noexcept {
  const std::int64_t side = picture.side;
  if (side <= 2) return;
  std::memcpy(picture.copy, picture.pixels, static_cast<std::size_t>(picture.values()));
  const ByteBlend blend(factor);
  for (std::int64_t row = 0; row < 3 * side; ++row) {
    const std::int64_t y = row % side;
    for (std::int64_t x = 0; x < side; ++x) {
      const std::uint8_t* const at = picture.copy + row * side + x;
      const bool is_border = y == 0 || y == side - 1 || x == 0 || x == side - 1;
      const int blurred = is_border ? *at : (2 * sum_around(at, side) + 13) / 26;
      picture.pixels[row * side + x] = blend(*at, static_cast<float>(blurred));
    }
  }
}

void posterize(const BytePicture& picture, int bits) noexcept {
  const auto mask = static_cast<std::uint8_t>(0xFF00u >> bits);
  for (std::int64_t i = 0; i < picture.values(); ++i) picture.pixels[i] = picture.pixels[i] & mask;
}

void solarize(const BytePicture& picture, double threshold) noexcept {
  const float least = static_cast<float>(threshold);
  for (std::int64_t i = 0; i < picture.values(); ++i) {
    std::uint8_t& value = picture.pixels[i];
    if (static_cast<float>(value) >= least) value = static_cast<std::uint8_t>(255 - value);
  }
}

void auto_contrast(const BytePicture& picture) noexcept {
  for (std::int64_t c = 0; c < 3; ++c) {
    std::uint8_t* const plane = picture.pixels + c * picture.plane();
    const auto [least, most] = std::minmax_element(plane, plane + picture.plane());
    const int minimum = *least, range = *most - minimum;
    if (range == 0) continue;
    const float scale = 1.0F / static_cast<float>(range) * 255.0F;  // as torch divides a number by a tensor
    std::uint8_t table[kLevels] = {};
    for (int v = minimum; v <= minimum + range; ++v) table[v] = byte_of(static_cast<float>(v - minimum) * scale);
    look_up(plane, picture.plane(), table);
  }
}

void equalize(const BytePicture& picture) noexcept {
  for (std::int64_t c = 0; c < 3; ++c) {
    std::uint8_t* const plane = picture.pixels + c * picture.plane();
    std::int64_t levels[kLevels];
    count_levels(plane, picture.plane(), levels);
    int last = kLevels - 1;
    while (levels[last] == 0) --last;
    const std::int64_t step = (picture.plane() - levels[last]) / 255;
    if (step == 0) continue;
    std::uint8_t table[kLevels];
    std::int64_t below = 0;  // values of lower levels
    for (int v = 0; v < kLevels; ++v) {
      const std::int64_t level = v == 0 ? 0 : (below + step / 2) / step;
      table[v] = static_cast<std::uint8_t>(std::min<std::int64_t>(level, 255));
      below += levels[v];
    }
    look_up(plane, picture.plane(), table);
  }
}

}  // namespace bascule
