// SPDX-License-Identifier: Apache-2.0
// Random erasing: with a probability a random box of a normalised picture becomes 0. The draws depend on seed, epoch
// and row alone. With the words w0..w3 of Philox4x32-10 at the counter random_coordinates(epoch, row, index), u(w) = (w
// + 1/2) / 2^32:
//   index 0: the picture is left as it is unless u(w0) is below the probability.
//   index 1..10: a box of the area side^2 (scale[0] + (scale[1] - scale[0]) u(w0)) and the ratio of height to width
//            exp(log ratio[0] + (log ratio[1] - log ratio[0]) u(w1)), its sides rounded half to even; if both are below
//            `side`, its top is the upper half of the product w2 (side - height + 1), its left that of w3 (side -
//            width + 1). After ten that are not, the picture is left as it is.
// Source: Zhong et al. 2017; torchvision.transforms.RandomErasing with value 0. Sealed world.
#pragma once

#include <cstdint>

#include "src/settings/settings.h"

namespace bascule {

struct RandomErasingSettings {
  double probability = 0.0;  // 0: off
  NumberRange scale, ratio;

  bool is_on() const { return probability > 0.0; }
};

struct ErasedBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;  // height and width 0: nothing is erased
};

ErasedBox draw_erased_box(const RandomErasingSettings& settings, std::uint64_t seed, std::int64_t epoch,
                          std::int64_t row, std::int64_t side) noexcept;

// pixels: 3 x side x side.
void erase(float* pixels, std::int64_t side, const ErasedBox& box) noexcept;

}  // namespace bascule
