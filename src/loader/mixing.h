// SPDX-License-Identifier: Apache-2.0
// Mixup and cutmix of the samples of a training batch, in pairs: those at the positions 2k and 2k + 1 of the epoch's
// order. The draws for a pair are by its number k and the epoch, so that nothing depends on how the epoch is cut into
// batches. Sealed world.
//
// With the words w0..w3 of Philox4x32-10 at the counter random_coordinates(epoch, k, index), u(w) = (w + 1/2) / 2^32:
//   index 0: where both are on, bit 0 of w0 chooses cutmix; the centre of its box is at column w1 side / 2^32 and row
//            w2 side / 2^32, rounded down.
//   index 1, 2, ...: the share, from Beta(alpha, alpha), by Joehnk's method: x = u(w0)^(1/alpha), y = u(w1)^(1/alpha),
//            the first with x + y <= 1 gives x / (x + y); alpha = 1: u(w0) at index 1.
// Mixup: each picture becomes share times itself and 1 - share times the other. Cutmix: the box of floor(side
// sqrt(1 - share)) pixels around the centre, cut off at the borders, is exchanged; the share becomes 1 - the box's area
// / side^2. Source: Zhang et al. 2018; Yun et al. 2019; in pairs as timm's "pair" mode.
#pragma once

#include <cstdint>

namespace bascule {

struct MixSettings {
  std::uint64_t seed = 0;
  double mixup_alpha = 0.0, cutmix_alpha = 0.0;  // 0: off
  std::int64_t side = 0;                         // of pictures, pixels

  bool is_on() const { return mixup_alpha > 0.0 || cutmix_alpha > 0.0; }
};

struct PairMix {
  double share = 1.0;  // of a sample's own label
  bool cuts = false;
  std::int64_t x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;  // the box, where it cuts
};

// Requires settings.is_on().
PairMix draw_mix(const MixSettings& settings, std::int64_t epoch, std::int64_t pair) noexcept;

// a, b: pictures of 3 side x side floats.
void mix_pictures(float* a, float* b, std::int64_t side, const PairMix& mix) noexcept;

}  // namespace bascule
