// SPDX-License-Identifier: Apache-2.0
// Reference for embedding.h. See dropout.h on references.
#pragma once

#include <cstdint>

#include "kernels/embedding.h"

namespace bascule::reference {

template <typename T>
void text_embedding_forward(T* out, const T* word, const T* position, const T* type, const TextEmbeddingForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const std::int64_t type_row = a.type_index == nullptr ? 0 : a.type_index[r];
    for (std::int64_t c = 0; c < a.cols; ++c) {
      out[r * a.cols + c] =
          word[a.word_index[r] * a.cols + c] + position[a.position_index[r] * a.cols + c] + type[type_row * a.cols + c];
    }
  }
}

template <typename T>
void embedding_backward(T* d_table, const T* d_out, const EmbeddingBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.index[r] == a.skip) continue;
    for (std::int64_t c = a.first_col; c < a.last_col; ++c) {
      d_table[a.index[r] * a.cols + c] += d_out[r * a.cols + c];
    }
  }
}

template <typename T>
void gather_rows(T* out, const T* x, const GatherRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) out[r * a.cols + c] = x[a.index[r] * a.cols + c];
  }
}

template <typename T>
void scatter_rows(T* d_x, const T* d_out, const ScatterRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      T& element = d_x[a.index[r] * a.cols + c];
      element = a.accumulate ? element + d_out[r * a.cols + c] : d_out[r * a.cols + c];
    }
  }
}

}  // namespace bascule::reference
