// SPDX-License-Identifier: Apache-2.0
// Table look-ups and their gradients.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void text_embedding_forward(const TextEmbeddingForward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const float* const word = a.word + a.word_index[r] * a.cols;
    const float* const position = a.position + a.position_index[r] * a.cols;
    const float* const type = a.type + (a.type_index == nullptr ? 0 : a.type_index[r]) * a.cols;
    float* const out = a.out + r * a.cols;
    for_lanes(
        a.cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(out + c, lanes, load(word + c, lanes) + load(position + c, lanes) + load(type + c, lanes));
        });
  }
}

void embedding_backward(const EmbeddingBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.index[r] == a.skip) continue;
    float* const row = a.d_table + a.index[r] * a.cols;
    add_to_row(row + a.first_col, a.d_out + r * a.cols + a.first_col, a.last_col - a.first_col);
  }
}

void gather_rows(const GatherRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) copy_row(a.out + r * a.cols, a.x + a.index[r] * a.cols, a.cols);
}

void scatter_rows(const ScatterRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    float* const d_x = a.d_x + a.index[r] * a.cols;
    const float* const d_out = a.d_out + r * a.cols;
    if (a.accumulate) {
      add_to_row(d_x, d_out, a.cols);
    } else {
      copy_row(d_x, d_out, a.cols);
    }
  }
}

}  // namespace bascule::BASCULE_ISA
