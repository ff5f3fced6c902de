// SPDX-License-Identifier: Apache-2.0
#include "src/loader/augmenting.h"

#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/base/philox.h"

namespace bascule {
namespace {

constexpr std::uint32_t kRandAugmentUse = 0x72616e64u;  // a key of its own among those derived from the run's seed

// torch.linspace's element `bin` of `bins` in float32: from both ends towards the middle.
float linspace(double begin, double end, std::int64_t bin, std::int64_t bins) noexcept {
  const float first = static_cast<float>(begin), last = static_cast<float>(end);
  const float step = (last - first) / static_cast<float>(bins - 1);
  return bin < bins / 2 ? first + step * static_cast<float>(bin) : last - step * static_cast<float>(bins - 1 - bin);
}

double bits_left(std::int64_t bin, std::int64_t bins) noexcept {
  const float quarter = static_cast<float>(static_cast<double>(bins - 1) / 4.0);
  return 8.0 - static_cast<double>(std::nearbyint(static_cast<float>(bin) / quarter));
}

}  // namespace

double magnitude_of(PictureOperation operation, const RandAugmentSettings& settings, std::int64_t side) noexcept {
  const std::int64_t bin = settings.magnitude, bins = settings.num_magnitude_bins;
  const auto up_to = [&](double end) { return static_cast<double>(linspace(0.0, end, bin, bins)); };
  switch (operation) {
    case PictureOperation::kShearX:
    case PictureOperation::kShearY: return up_to(0.3);
    case PictureOperation::kTranslateX:
    case PictureOperation::kTranslateY: return up_to(150.0 / 331.0 * static_cast<double>(side));
    case PictureOperation::kRotate: return up_to(30.0);
    case PictureOperation::kBrightness:
    case PictureOperation::kColor:
    case PictureOperation::kContrast:
    case PictureOperation::kSharpness: return up_to(0.9);
    case PictureOperation::kPosterize: return bits_left(bin, bins);
    case PictureOperation::kSolarize: return static_cast<double>(linspace(255.0, 0.0, bin, bins));
    case PictureOperation::kIdentity:
    case PictureOperation::kAutoContrast:
    case PictureOperation::kEqualize: return 0.0;
  }
  return 0.0;
}

bool is_signed(PictureOperation operation) noexcept {
  return operation >= PictureOperation::kShearX && operation <= PictureOperation::kSharpness;
}

void apply_operation(PictureOperation operation, double magnitude, const BytePicture& picture) noexcept {
  switch (operation) {
    case PictureOperation::kIdentity: break;
    case PictureOperation::kShearX: shear_x(picture, magnitude); break;
    case PictureOperation::kShearY: shear_y(picture, magnitude); break;
    case PictureOperation::kTranslateX: translate(picture, static_cast<std::int64_t>(magnitude), 0); break;
    case PictureOperation::kTranslateY: translate(picture, 0, static_cast<std::int64_t>(magnitude)); break;
    case PictureOperation::kRotate: rotate(picture, magnitude); break;
    case PictureOperation::kBrightness: adjust_brightness(picture, 1.0 + magnitude); break;
    case PictureOperation::kColor: adjust_saturation(picture, 1.0 + magnitude); break;
    case PictureOperation::kContrast: adjust_contrast(picture, 1.0 + magnitude); break;
    case PictureOperation::kSharpness: adjust_sharpness(picture, 1.0 + magnitude); break;
    case PictureOperation::kPosterize: posterize(picture, static_cast<int>(magnitude)); break;
    case PictureOperation::kSolarize: solarize(picture, magnitude); break;
    case PictureOperation::kAutoContrast: auto_contrast(picture); break;
    case PictureOperation::kEqualize: equalize(picture); break;
  }
}

void rand_augment(const RandAugmentSettings& settings, std::uint64_t seed, std::int64_t epoch, std::int64_t row,
                  const BytePicture& picture) noexcept {
  const PhiloxKey key = derive_key(seed, kRandAugmentUse);
  for (std::int64_t i = 0; i < settings.num_ops; ++i) {
    const PhiloxBlock random = philox4x32(random_coordinates(epoch, row, static_cast<std::uint32_t>(i)), key);
    const auto operation = static_cast<PictureOperation>(bounded(random.word[0], kPictureOperations));
    const double magnitude = magnitude_of(operation, settings, picture.side);
    const bool is_negative = is_signed(operation) && (random.word[1] & 1U) != 0;
    apply_operation(operation, is_negative ? -magnitude : magnitude, picture);
  }
}

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

namespace {

constexpr int kByteValues = 256;
constexpr float kRoundsFloat = 0x1.8p23F;  // added and taken away: half to even

std::size_t picture_bytes(std::int64_t side) noexcept {
  return align_up(static_cast<std::size_t>(3 * side * side), kCacheLine);
}

void round_to_bytes(const BytePicture& picture, const float* pixels) noexcept {
  for (std::int64_t i = 0; i < picture.values(); ++i) {
    const float clamped = std::min(std::max(pixels[i], 0.0F), 255.0F);
    picture.pixels[i] = static_cast<std::uint8_t>((clamped + kRoundsFloat) - kRoundsFloat);
  }
}

// As torchvision's ConvertImageDtype and Normalize, in float32.
void normalise(float* pixels, const BytePicture& picture, const Augmenting& augmenting) noexcept {
  for (std::int64_t c = 0; c < 3; ++c) {
    const float mean = static_cast<float>(augmenting.mean[c]), std = static_cast<float>(augmenting.std[c]);
    float table[kByteValues];
    for (int v = 0; v < kByteValues; ++v) table[v] = (static_cast<float>(v) / 255.0F - mean) / std;
    const std::int64_t begin = c * picture.plane();
    for (std::int64_t i = begin; i < begin + picture.plane(); ++i) pixels[i] = table[picture.pixels[i]];
  }
}

}  // namespace

std::size_t augmenting_scratch_bytes(const Augmenting& augmenting) noexcept {
  return augmenting.changes_bytes() ? 2 * picture_bytes(augmenting.side) : 0;
}

void augment_picture(float* pixels, const Augmenting& augmenting, std::uint64_t seed, std::int64_t epoch,
                     std::int64_t row, Span<std::byte> scratch) noexcept {
  if (augmenting.changes_bytes()) {
    BASCULE_CHECK(scratch.size() >= augmenting_scratch_bytes(augmenting));
    auto* const bytes = static_cast<std::uint8_t*>(static_cast<void*>(scratch.data()));
    const BytePicture picture{bytes, bytes + picture_bytes(augmenting.side), augmenting.side};
    round_to_bytes(picture, pixels);
    if (augmenting.rand_augment.is_on()) rand_augment(augmenting.rand_augment, seed, epoch, row, picture);
    if (augmenting.color_jitter.is_on()) color_jitter(augmenting.color_jitter, seed, epoch, row, picture);
    normalise(pixels, picture, augmenting);
  }
  if (!augmenting.random_erasing.is_on()) return;
  erase(pixels, augmenting.side, draw_erased_box(augmenting.random_erasing, seed, epoch, row, augmenting.side));
}

}  // namespace bascule
