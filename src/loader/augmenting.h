// SPDX-License-Identifier: Apache-2.0
// The random changes to training pictures that the loader makes itself.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/loader/byte_picture.h"
#include "src/settings/settings.h"

namespace bascule {

// RandAugment: each of some operations in a row is one of fourteen, drawn uniformly and with replacement, at a strength
// that all share; those that can go either way have a random sign. The draws depend on seed, epoch and row alone:
// with the words w0, w1 of Philox4x32-10 at the counter random_coordinates(epoch, row, i), the i-th operation is the
// upper half of the product 14 w0 in the order below, and its sign is minus if bit 0 of w1 is set. Source: Cubuk et al.
// 2019; magnitudes and operations as torchvision.transforms.RandAugment's (nearest pixel, no fill). Sealed world.

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

// Random erasing: with a probability a random box of a normalised picture becomes 0. The draws depend on seed, epoch
// and row alone. With the words w0..w3 of Philox4x32-10 at the counter random_coordinates(epoch, row, index), u(w) = (w
// + 1/2) / 2^32:
//   index 0: the picture is left as it is unless u(w0) is below the probability.
//   index 1..10: a box of the area side^2 (scale[0] + (scale[1] - scale[0]) u(w0)) and the ratio of height to width
//            exp(log ratio[0] + (log ratio[1] - log ratio[0]) u(w1)), its sides rounded half to even; if both are below
//            `side`, its top is the upper half of the product w2 (side - height + 1), its left that of w3 (side -
//            width + 1). After ten that are not, the picture is left as it is.
// Source: Zhong et al. 2017; torchvision.transforms.RandomErasing with value 0. Sealed world.

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

// Colour jitter: brightness, contrast, saturation and hue change by random factors, in a random order. The draws depend
// on seed, epoch and row alone. With the words of Philox4x32-10 at the counter random_coordinates(epoch, row, index)
// and u(w) = (w + 1/2) / 2^32:
//   index 0: the order: of the four changes not made yet the one at the upper half of the product w0 4, then w1 3, then
//            w2 2.
//   index 1: w0, w1, w2: the factors max(0, 1 - x) + (1 + x - max(0, 1 - x)) u(w) of brightness, contrast and
//            saturation; w3: the shift of the hue x (2 u(w) - 1), in turns.
// A change whose x is 0 is not made. Source: torchvision.transforms.ColorJitter. Sealed world.

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

// The random changes to training pictures that the loader makes itself, once the media engine has decoded, cropped and
// flipped them: rounded to bytes, RandAugment, colour jitter, normalised, random erasing. They depend on seed, epoch
// and row alone. Sealed world.

struct Augmenting {
  RandAugmentSettings rand_augment;
  ColorJitterSettings color_jitter;
  RandomErasingSettings random_erasing;
  double mean[3] = {0.0, 0.0, 0.0}, std[3] = {1.0, 1.0, 1.0};  // that bytes are normalised with, of 0..1
  std::int64_t side = 0;                                       // of pictures, pixels

  // Whether pictures come as they were decoded, 0..255, to be rounded and normalised here.
  bool changes_bytes() const { return rand_augment.is_on() || color_jitter.is_on(); }
};

// A picture of bytes and its copy; 0 where none is made. A multiple of 64.
std::size_t augmenting_scratch_bytes(const Augmenting& augmenting) noexcept;

// pixels: 3 x side x side, values 0..255 where augmenting.changes_bytes(), else normalised; normalised on return.
// scratch: augmenting_scratch_bytes().
void augment_picture(float* pixels, const Augmenting& augmenting, std::uint64_t seed, std::int64_t epoch,
                     std::int64_t row, Span<std::byte> scratch) noexcept;

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
