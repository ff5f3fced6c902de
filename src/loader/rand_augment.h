// SPDX-License-Identifier: Apache-2.0
// RandAugment: each of some operations in a row is one of fourteen, drawn uniformly and with replacement, at a strength
// that all share; those that can go either way have a random sign. The draws depend on seed, epoch and row alone:
// with the words w0, w1 of Philox4x32-10 at the counter random_coordinates(epoch, row, i), the i-th operation is the
// upper half of the product 14 w0 in the order below, and its sign is minus if bit 0 of w1 is set. Source: Cubuk et al.
// 2019; magnitudes and operations as torchvision.transforms.RandAugment's (nearest pixel, no fill). Sealed world.
#pragma once

#include <cstdint>

#include "src/loader/byte_picture.h"

namespace bascule {

struct RandAugmentSettings {
  std::int64_t num_ops = 0;    // 0: off
  std::int64_t magnitude = 9;  // bin, counted from 0
  std::int64_t num_magnitude_bins = 31;

  bool is_on() const { return num_ops > 0; }
};

// In torchvision's order, which the draws count in.
enum class PictureOperation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize
};
constexpr std::uint32_t kPictureOperations = 14;

// The magnitude of an operation: a share, pixels, degrees, bits or a threshold; 0 where it has none. side: pixels.
double magnitude_of(PictureOperation operation, const RandAugmentSettings& settings, std::int64_t side) noexcept;
// Those whose magnitude is given a random sign.
bool is_signed(PictureOperation operation) noexcept;
void apply_operation(PictureOperation operation, double magnitude, const BytePicture& picture) noexcept;

// seed: the run's.
void rand_augment(const RandAugmentSettings& settings, std::uint64_t seed, std::int64_t epoch, std::int64_t row,
                  const BytePicture& picture) noexcept;

}  // namespace bascule
