// SPDX-License-Identifier: Apache-2.0
#include "src/loader/color_jitter.h"

#include <algorithm>
#include <cmath>

#include "src/base/philox.h"

namespace bascule {
namespace {

constexpr std::uint32_t kJitterUse = 0x6a697474u;  // a key of its own among those derived from the run's seed
constexpr std::uint32_t kOrderIndex = 0, kFactorIndex = 1;
constexpr int kChanges = 4;
constexpr float kByteLevels = 255.999F;  // of torchvision's way back to bytes: 255 + 1 - 1e-3

double factor_of(double most, std::uint32_t word) noexcept {
  const double least = std::max(0.0, 1.0 - most);
  return least + (1.0 + most - least) * uniform(word);
}

struct Hsv {
  float hue, saturation, value;
};

Hsv hsv_of(float red, float green, float blue) noexcept {
  const float most = std::max({red, green, blue}), least = std::min({red, green, blue});
  if (most == least) return {0.0F, 0.0F, most};
  const float range = most - least;
  const float red_share = (most - red) / range, green_share = (most - green) / range,
              blue_share = (most - blue) / range;
  const float sixths = most == red     ? blue_share - green_share
                       : most == green ? 2.0F + red_share - blue_share
                                       : 4.0F + green_share - red_share;
  const float turns = sixths / 6.0F + 1.0F;  // below 2
  return {turns >= 1.0F ? turns - 1.0F : turns, range / most, most};
}

void put(const BytePicture& picture, std::int64_t at, float red, float green, float blue) noexcept {
  const auto byte = [](float share) { return static_cast<std::uint8_t>(share * kByteLevels); };
  picture.pixels[at] = byte(red);
  picture.pixels[picture.plane() + at] = byte(green);
  picture.pixels[2 * picture.plane() + at] = byte(blue);
}

void put_hsv(const BytePicture& picture, std::int64_t at, const Hsv& color) noexcept {
  const auto clamped = [](float share) { return std::min(std::max(share, 0.0F), 1.0F); };
  const float sixths = color.hue * 6.0F;
  const float sector = std::floor(sixths), within = sixths - sector;
  const float v = color.value, s = color.saturation;
  const float p = clamped(v * (1.0F - s)), q = clamped(v * (1.0F - s * within)),
              t = clamped(v * (1.0F - s * (1.0F - within)));
  switch (static_cast<int>(sector) % 6) {
    case 0: return put(picture, at, v, t, p);
    case 1: return put(picture, at, q, v, p);
    case 2: return put(picture, at, p, v, t);
    case 3: return put(picture, at, p, q, v);
    case 4: return put(picture, at, t, p, v);
    default: return put(picture, at, v, p, q);
  }
}

void change(const BytePicture& picture, ColorChange kind, double factor) noexcept {
  switch (kind) {
    case ColorChange::kBrightness: return adjust_brightness(picture, factor);
    case ColorChange::kContrast: return adjust_contrast(picture, factor);
    case ColorChange::kSaturation: return adjust_saturation(picture, factor);
    case ColorChange::kHue: return adjust_hue(picture, factor);
  }
}

}  // namespace

ColorJitter draw_color_jitter(const ColorJitterSettings& settings, std::uint64_t seed, std::int64_t epoch,
                              std::int64_t row) noexcept {
  const PhiloxKey key = derive_key(seed, kJitterUse);
  const PhiloxBlock order = philox4x32(random_coordinates(epoch, row, kOrderIndex), key);
  const PhiloxBlock factors = philox4x32(random_coordinates(epoch, row, kFactorIndex), key);
  ColorJitter jitter = {{ColorChange::kBrightness, ColorChange::kContrast, ColorChange::kSaturation, ColorChange::kHue},
                        {}};
  for (std::uint32_t made = 0; made + 1 < kChanges; ++made) {
    const std::uint32_t next = made + bounded(order.word[made], kChanges - made);
    std::rotate(jitter.order + made, jitter.order + next, jitter.order + next + 1);
  }
  jitter.factors[0] = factor_of(settings.brightness, factors.word[0]);
  jitter.factors[1] = factor_of(settings.contrast, factors.word[1]);
  jitter.factors[2] = factor_of(settings.saturation, factors.word[2]);
  jitter.factors[3] = settings.hue * (2.0 * uniform(factors.word[3]) - 1.0);
  return jitter;
}

void adjust_hue(const BytePicture& picture, double turns) noexcept {
  const float shift = static_cast<float>(turns);
  const std::int64_t plane = picture.plane();
  for (std::int64_t i = 0; i < plane; ++i) {
    Hsv color =
        hsv_of(static_cast<float>(picture.pixels[i]) / 255.0F, static_cast<float>(picture.pixels[plane + i]) / 255.0F,
               static_cast<float>(picture.pixels[2 * plane + i]) / 255.0F);
    const float moved = std::fmod(color.hue + shift, 1.0F);
    color.hue = moved < 0.0F ? moved + 1.0F : moved;
    put_hsv(picture, i, color);
  }
}

void color_jitter(const ColorJitterSettings& settings, std::uint64_t seed, std::int64_t epoch, std::int64_t row,
                  const BytePicture& picture) noexcept {
  const double most[kChanges] = {settings.brightness, settings.contrast, settings.saturation, settings.hue};
  const ColorJitter jitter = draw_color_jitter(settings, seed, epoch, row);
  for (const ColorChange kind : jitter.order) {
    const auto number = static_cast<std::size_t>(kind);
    if (most[number] > 0.0) change(picture, kind, jitter.factors[number]);
  }
}

}  // namespace bascule
