// SPDX-License-Identifier: Apache-2.0
#include "src/loader/random_erasing.h"

#include <algorithm>
#include <cmath>

#include "src/base/elementary.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

constexpr std::uint32_t kErasingUse = 0x65726173u;  // a key of its own among those derived from the run's seed
constexpr std::uint32_t kTries = 10;

double between(double least, double most, std::uint32_t word) noexcept {
  return least + (most - least) * uniform(word);
}

std::int64_t nearest(double value) noexcept { return static_cast<std::int64_t>(std::nearbyint(value)); }

std::int64_t placed(std::uint32_t word, std::int64_t free) noexcept {
  return bounded(word, static_cast<std::uint32_t>(free + 1));
}

}  // namespace

ErasedBox draw_erased_box(const RandomErasingSettings& settings, std::uint64_t seed, std::int64_t epoch,
                          std::int64_t row, std::int64_t side) noexcept {
  const PhiloxKey key = derive_key(seed, kErasingUse);
  if (uniform(philox4x32(random_coordinates(epoch, row, 0), key).word[0]) >= settings.probability) return {};
  const double log_least = fixed_log(settings.ratio.least), log_most = fixed_log(settings.ratio.most);
  for (std::uint32_t index = 1; index <= kTries; ++index) {
    const PhiloxBlock random = philox4x32(random_coordinates(epoch, row, index), key);
    const double area =
        static_cast<double>(side * side) * between(settings.scale.least, settings.scale.most, random.word[0]);
    const double ratio = fixed_exp(between(log_least, log_most, random.word[1]));
    const std::int64_t height = nearest(std::sqrt(area * ratio)), width = nearest(std::sqrt(area / ratio));
    if (height >= side || width >= side) continue;
    return {placed(random.word[2], side - height), placed(random.word[3], side - width), height, width};
  }
  return {};
}

void erase(float* pixels, std::int64_t side, const ErasedBox& box) noexcept {
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    for (std::int64_t y = box.top; y < box.top + box.height; ++y)
      std::fill_n(pixels + (channel * side + y) * side + box.left, box.width, 0.0F);
  }
}

}  // namespace bascule
