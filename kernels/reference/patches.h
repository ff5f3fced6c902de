// SPDX-License-Identifier: Apache-2.0
// Reference for patches.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/patches.h"

namespace bascule::reference {

template <typename T>
void extract_patches(T* out, const T* pixels, const ExtractPatches& a) {
  const std::int64_t P = a.patch;
  const std::int64_t across = a.width / P;
  const std::int64_t row = a.channels * P * P;
  for (std::int64_t i = 0; i < (a.height / P) * across; ++i) {
    for (std::int64_t k = 0; k < row; ++k) {
      const std::int64_t c = k / (P * P);
      const std::int64_t y = P * (i / across) + k / P % P;
      const std::int64_t x = P * (i % across) + k % P;
      out[i * row + k] = pixels[(c * a.height + y) * a.width + x];
    }
  }
}

template <typename T>
void image_embedding_forward(T* out, const T* patch, const T* class_row, const T* position,
                             const ImageEmbeddingForward& a) {
  const std::int64_t first = a.class_rows;
  for (std::int64_t i = 0; i < a.patches + first; ++i) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const T row = i < first ? class_row[i * a.cols + c] : patch[(i - first) * a.cols + c];
      out[i * a.cols + c] = row + position[i * a.cols + c];
    }
  }
}

template <typename T>
void image_embedding_backward(T* d_patch, T* d_class, T* d_position, const T* d_out, const ImageEmbeddingBackward& a) {
  const std::int64_t first = a.class_rows;
  for (std::int64_t i = a.first_row; i < a.last_row; ++i) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      T sum(0);
      for (std::int64_t b = 0; b < a.samples; ++b) {
        const T d = d_out[(b * (a.patches + first) + i) * a.cols + c];
        sum += d;
        if (i >= first && d_patch != nullptr) d_patch[(b * a.patches + i - first) * a.cols + c] = d;
      }
      if (d_position != nullptr) {
        T& element = d_position[i * a.cols + c];
        element = a.accumulate_position ? element + sum : sum;
      }
      if (i < first && d_class != nullptr) {
        T& element = d_class[i * a.cols + c];
        element = a.accumulate_class ? element + sum : sum;
      }
    }
  }
}

}  // namespace bascule::reference
