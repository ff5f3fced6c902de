// SPDX-License-Identifier: Apache-2.0
#include "src/loader/augmenting.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/base/elementary.h"
#include "src/base/philox.h"
#include "src/loader/byte_picture.h"

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

// The geometric operations of byte_picture.h.

namespace {

constexpr double kRadiansOfDegree = 0x1.1df46a2529d39p-6;  // pi / 180
constexpr double kRoundsDouble = 0x1.8p52;                 // added and taken away: half to even

// Which pixel goes to column x of row y: that at the column column_by_x * x + column_by_y * y + first_column, of the
// row likewise, both rounded. The centre of a picture's first pixel is at 0.
struct Origin {
  double column_by_x, column_by_y, first_column;
  double row_by_x, row_by_y, first_row;
};

double rounded(double value) noexcept { return (value + kRoundsDouble) - kRoundsDouble; }

void move_pixels(const BytePicture& picture, const Origin& from) noexcept {
  const std::int64_t side = picture.side, plane = picture.plane();
  const double last = static_cast<double>(side - 1);
  std::memcpy(picture.copy, picture.pixels, static_cast<std::size_t>(picture.values()));
  for (std::int64_t y = 0; y < side; ++y) {
    const double row_begin = from.first_row + from.row_by_y * static_cast<double>(y);
    const double column_begin = from.first_column + from.column_by_y * static_cast<double>(y);
    for (std::int64_t x = 0; x < side; ++x) {
      const double row = rounded(row_begin + from.row_by_x * static_cast<double>(x));
      const double column = rounded(column_begin + from.column_by_x * static_cast<double>(x));
      const bool is_inside = row >= 0.0 && row <= last && column >= 0.0 && column <= last;
      const std::int64_t source =
          is_inside ? static_cast<std::int64_t>(row) * side + static_cast<std::int64_t>(column) : 0;
      std::uint8_t* const to = picture.pixels + y * side + x;
      for (std::int64_t c = 0; c < 3; ++c)
        to[c * plane] = is_inside ? picture.copy[c * plane + source] : std::uint8_t{0};
    }
  }
}

}  // namespace

// By the middle of a row.
void shear_x(const BytePicture& picture, double share) noexcept {
  move_pixels(picture, {1.0, share, 0.5 * share, 0.0, 1.0, 0.0});
}

void shear_y(const BytePicture& picture, double share) noexcept {
  move_pixels(picture, {1.0, 0.0, 0.0, share, 1.0, 0.5 * share});
}

void translate(const BytePicture& picture, std::int64_t columns, std::int64_t rows) noexcept {
  move_pixels(picture, {1.0, 0.0, -static_cast<double>(columns), 0.0, 1.0, -static_cast<double>(rows)});
}

void rotate(const BytePicture& picture, double degrees) noexcept {
  const double cosine = fixed_cos(degrees * kRadiansOfDegree), sine = fixed_sin(degrees * kRadiansOfDegree);
  const double centre = 0.5 * static_cast<double>(picture.side - 1);
  move_pixels(picture,
              {cosine, -sine, centre - (cosine - sine) * centre, sine, cosine, centre - (sine + cosine) * centre});
}

}  // namespace bascule
