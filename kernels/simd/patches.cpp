// SPDX-License-Identifier: Apache-2.0
// From pixels to image rows, and back from image rows to the tables they were made of.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

namespace {

// Writes run through `out` from end to end; the patch's pixel rows come from lines that its neighbours across use next.
template <typename Number>
void extract_patches_to(Number* out, const ExtractPatches& a) {
  const std::int64_t down = a.height / a.patch;
  const std::int64_t across = a.width / a.patch;
  for (std::int64_t i = 0; i < down * across; ++i) {
    const float* const corner = a.pixels + (i / across) * a.patch * a.width + (i % across) * a.patch;
    for (std::int64_t c = 0; c < a.channels; ++c) {
      for (std::int64_t y = 0; y < a.patch; ++y) {
        copy_row(out, corner + (c * a.height + y) * a.width, a.patch);
        out += a.patch;
      }
    }
  }
}

}  // namespace

void extract_patches(const ExtractPatches& a) {
  a.out.is_bf16() ? extract_patches_to(a.out.bf16(), a) : extract_patches_to(a.out.float32(), a);
}

void image_embedding_forward(const ImageEmbeddingForward& a) {
  for (std::int64_t i = 0; i < a.patches + a.class_rows; ++i) {
    const float* const row = i < a.class_rows ? a.class_row + i * a.cols : a.patch + (i - a.class_rows) * a.cols;
    const float* const position = a.position + i * a.cols;
    float* const out = a.out + i * a.cols;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(out + c, lanes, load(row + c, lanes) + load(position + c, lanes));
        });
  }
}

namespace {

// out (+)= the sum over the samples of row i.
inline void sum_over_samples(float* out, const ImageEmbeddingBackward& a, std::int64_t i, bool accumulate) {
  if (!accumulate) fill_row(out, a.cols, 0.0f);
  add_rows(out, a.d_out + i * a.cols, a.samples, a.cols, (a.patches + a.class_rows) * a.cols);
}

}  // namespace

void image_embedding_backward(const ImageEmbeddingBackward& a) {
  for (std::int64_t i = a.first_row; i < a.last_row; ++i) {
    if (a.d_position != nullptr) sum_over_samples(a.d_position + i * a.cols, a, i, a.accumulate_position);
    if (i < a.class_rows) {
      if (a.d_class != nullptr) sum_over_samples(a.d_class + i * a.cols, a, i, a.accumulate_class);
      continue;
    }
    if (a.d_patch == nullptr) continue;
    for (std::int64_t b = 0; b < a.samples; ++b) {
      copy_row(a.d_patch + (b * a.patches + i - a.class_rows) * a.cols,
               a.d_out + (b * (a.patches + a.class_rows) + i) * a.cols, a.cols);
    }
  }
}

}  // namespace bascule::BASCULE_ISA
