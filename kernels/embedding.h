// SPDX-License-Identifier: Apache-2.0
// Table look-ups and their gradients: text embeddings, and gathering rows of a tensor.
#pragma once

#include <cstdint>

namespace bascule {

// out[r,:] = word[word_index[r],:] + position[position_index[r],:] + type[type_index[r],:]
// Source: BridgeTowerTextEmbeddings.forward and BertEmbeddings.forward. Shapes: out (rows, cols) dense; tables (any,
// cols). type_index null: 0 of every row. Requires: every index lies in its table (checked at the border, when tokens
// are read).
struct TextEmbeddingForward {
  float* out;
  const float *word, *position, *type;
  const std::int32_t *word_index, *position_index, *type_index;
  std::int64_t rows, cols;
};

// d_table[index[r], c] += d_out[r, c] for r = 0, 1, ... in order, and first_col <= c < last_col; rows with index ==
// skip (a padding row, which torch never updates; -1: none) are left out. Accumulates. Column ranges let threads
// share one table.
struct EmbeddingBackward {
  float* d_table;
  const float* d_out;
  const std::int32_t* index;
  std::int64_t rows, cols;
  std::int64_t first_col, last_col;
  std::int32_t skip;
};

// out[r,:] = x[index[r],:]. Shapes: out (rows, cols) dense; x (any, cols) dense. Overwrites out.
struct GatherRows {
  float* out;
  const float* x;
  const std::int32_t* index;
  std::int64_t rows, cols;
};

// d_x[index[r],:] (+)= d_out[r,:]; no index may come twice. Other rows of d_x are left alone: clear them first where
// needed.
struct ScatterRows {
  float* d_x;
  const float* d_out;
  const std::int32_t* index;
  std::int64_t rows, cols;
  bool accumulate;
};

}  // namespace bascule
