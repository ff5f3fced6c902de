// SPDX-License-Identifier: Apache-2.0
#include "src/loader/augmenting.h"

#include <algorithm>

#include "src/base/align.h"
#include "src/base/check.h"

namespace bascule {
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
