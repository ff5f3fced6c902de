// SPDX-License-Identifier: Apache-2.0
#include "src/loader/rand_augment.h"

#include <cmath>

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

}  // namespace bascule
