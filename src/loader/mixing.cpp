// SPDX-License-Identifier: Apache-2.0
#include "src/loader/mixing.h"

#include <algorithm>
#include <cmath>

#include "src/base/elementary.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

constexpr std::uint32_t kMixUse = 0x006d6978u;  // a key of its own among those derived from the run's seed
constexpr std::int64_t kChannels = 3;

// Requires alpha of 0.1 at least, so that no power is 0, and few draws are rejected up to the settings' largest.
double draw_share(const PhiloxKey& key, std::int64_t epoch, std::int64_t pair, double alpha) noexcept {
  for (std::uint32_t index = 1;; ++index) {
    const PhiloxBlock random = philox4x32(random_coordinates(epoch, pair, index), key);
    if (alpha == 1.0) return uniform(random.word[0]);
    const double x = fixed_power(uniform(random.word[0]), 1.0 / alpha);
    const double y = fixed_power(uniform(random.word[1]), 1.0 / alpha);
    if (x + y <= 1.0) return x / (x + y);
  }
}

}  // namespace

PairMix draw_mix(const MixSettings& settings, std::int64_t epoch, std::int64_t pair) noexcept {
  const PhiloxKey key = derive_key(settings.seed, kMixUse);
  const PhiloxBlock random = philox4x32(random_coordinates(epoch, pair, 0), key);
  PairMix mix;
  const bool has_both = settings.mixup_alpha > 0.0 && settings.cutmix_alpha > 0.0;
  mix.cuts = has_both ? (random.word[0] & 1U) != 0 : settings.cutmix_alpha > 0.0;
  mix.share = draw_share(key, epoch, pair, mix.cuts ? settings.cutmix_alpha : settings.mixup_alpha);
  if (!mix.cuts) return mix;
  const std::int64_t side = settings.side;
  const double box_side = static_cast<double>(side) * std::sqrt(1.0 - mix.share);
  const std::int64_t half = static_cast<std::int64_t>(box_side) / 2;
  const std::int64_t x = bounded(random.word[1], static_cast<std::uint32_t>(side));
  const std::int64_t y = bounded(random.word[2], static_cast<std::uint32_t>(side));
  mix.x_begin = std::max<std::int64_t>(0, x - half);
  mix.x_end = std::min(side, x + half);
  mix.y_begin = std::max<std::int64_t>(0, y - half);
  mix.y_end = std::min(side, y + half);
  const std::int64_t area = (mix.x_end - mix.x_begin) * (mix.y_end - mix.y_begin);
  mix.share = 1.0 - static_cast<double>(area) / static_cast<double>(side * side);
  return mix;
}

void mix_pictures(float* a, float* b, std::int64_t side, const PairMix& mix) noexcept {
  if (mix.cuts) {
    for (std::int64_t channel = 0; channel < kChannels; ++channel) {
      for (std::int64_t y = mix.y_begin; y < mix.y_end; ++y) {
        const std::int64_t row = (channel * side + y) * side;
        std::swap_ranges(a + row + mix.x_begin, a + row + mix.x_end, b + row + mix.x_begin);
      }
    }
    return;
  }
  const float own = static_cast<float>(mix.share), other = static_cast<float>(1.0 - mix.share);
  for (std::int64_t i = 0; i < kChannels * side * side; ++i) {
    const float first = a[i], second = b[i];
    a[i] = own * first + other * second;
    b[i] = own * second + other * first;
  }
}

}  // namespace bascule
