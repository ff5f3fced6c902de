// SPDX-License-Identifier: Apache-2.0
// The random changes to training pictures that the loader makes itself, once the media engine has decoded, cropped and
// flipped them: rounded to bytes, RandAugment, colour jitter, normalised, random erasing. They depend on seed, epoch
// and row alone. Sealed world.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/span.h"
#include "src/loader/color_jitter.h"
#include "src/loader/rand_augment.h"
#include "src/loader/random_erasing.h"

namespace bascule {

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

}  // namespace bascule
