// SPDX-License-Identifier: Apache-2.0
// Colour jitter: brightness, contrast, saturation and hue change by random factors, in a random order. The draws depend
// on seed, epoch and row alone. With the words of Philox4x32-10 at the counter random_coordinates(epoch, row, index)
// and u(w) = (w + 1/2) / 2^32:
//   index 0: the order: of the four changes not made yet the one at the upper half of the product w0 4, then w1 3, then
//            w2 2.
//   index 1: w0, w1, w2: the factors max(0, 1 - x) + (1 + x - max(0, 1 - x)) u(w) of brightness, contrast and
//            saturation; w3: the shift of the hue x (2 u(w) - 1), in turns.
// A change whose x is 0 is not made. Source: torchvision.transforms.ColorJitter. Sealed world.
#pragma once

#include <cstdint>

#include "src/loader/byte_picture.h"

namespace bascule {

struct ColorJitterSettings {
  double brightness = 0.0, contrast = 0.0, saturation = 0.0;  // 0: off
  double hue = 0.0;                                           // at most 0.5

  bool is_on() const { return brightness > 0.0 || contrast > 0.0 || saturation > 0.0 || hue > 0.0; }
};

enum class ColorChange { kBrightness, kContrast, kSaturation, kHue };

struct ColorJitter {
  ColorChange order[4];
  double factors[4];  // by ColorChange; of the hue a shift
};

ColorJitter draw_color_jitter(const ColorJitterSettings& settings, std::uint64_t seed, std::int64_t epoch,
                              std::int64_t row) noexcept;

// turns: -0.5..0.5. As torchvision's adjust_hue, to the byte.
void adjust_hue(const BytePicture& picture, double turns) noexcept;

void color_jitter(const ColorJitterSettings& settings, std::uint64_t seed, std::int64_t epoch, std::int64_t row,
                  const BytePicture& picture) noexcept;

}  // namespace bascule
