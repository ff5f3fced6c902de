// SPDX-License-Identifier: Apache-2.0
// Argument blocks speak of whole tensors; part_of() cuts out what one task computes: `count` rows from `first` on, or
// elements where the block counts elements. Null pointers stay null. Results do not depend on how a tensor is cut.
#pragma once

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/bf16.h"
#include "kernels/dropout.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/layer_norm.h"
#include "kernels/loss.h"

namespace bascule {

template <typename Element>
constexpr Element* advance(Element* from, std::int64_t elements) {
  return from == nullptr ? nullptr : from + elements;
}

// By elements.

inline Fill part_of(Fill a, std::int64_t first, std::int64_t count) {
  a.x += first;
  a.count = count;
  return a;
}

inline Add part_of(Add a, std::int64_t first, std::int64_t count) {
  a.out += first;
  a.a += first;
  a.b += first;
  a.count = count;
  return a;
}

inline ActivationForward part_of(ActivationForward a, std::int64_t first, std::int64_t count) {
  a.y += first;
  a.x += first;
  a.count = count;
  return a;
}

inline ToBf16 part_of(ToBf16 a, std::int64_t first, std::int64_t count) {
  a.out += first;
  a.x += first;
  a.count = count;
  return a;
}

// By columns of the sum.

inline AddParts part_of(AddParts a, std::int64_t first, std::int64_t count) {
  a.out += first;
  a.parts += first;
  a.cols = count;
  return a;
}

// By rows.

inline ActivationBackward part_of(ActivationBackward a, std::int64_t first, std::int64_t count) {
  a.d_x += first * a.cols;
  a.d_y += first * a.cols;
  a.x += first * a.cols;
  a.rows = count;
  return a;
}

inline LayerNormForward part_of(LayerNormForward a, std::int64_t first, std::int64_t count) {
  a.y += first * a.cols;
  a.sum = advance(a.sum, first * a.cols);
  a.mean += first;
  a.rstd += first;
  a.x += first * a.cols;
  a.h = advance(a.h, first * a.cols);
  a.row_keys = advance(a.row_keys, first);
  a.rows = count;
  return a;
}

inline LayerNormBackward part_of(LayerNormBackward a, std::int64_t first, std::int64_t count) {
  a.d_x = advance(a.d_x, first * a.cols);
  a.d_h = advance(a.d_h, first * a.cols);
  a.d_sum = advance(a.d_sum, first * a.cols);
  a.d_y += first * a.cols;
  a.sum += first * a.cols;
  a.mean += first;
  a.rstd += first;
  a.row_keys = advance(a.row_keys, first);
  a.rows = count;
  return a;
}

inline NormalizeForward part_of(NormalizeForward a, std::int64_t first, std::int64_t count) {
  a.y += first * a.cols;
  a.norm += first;
  a.x += first * a.cols;
  a.rows = count;
  return a;
}

inline NormalizeBackward part_of(NormalizeBackward a, std::int64_t first, std::int64_t count) {
  a.d_x += first * a.cols;
  a.d_y += first * a.cols;
  a.y += first * a.cols;
  a.norm += first;
  a.rows = count;
  return a;
}

inline TextEmbeddingForward part_of(TextEmbeddingForward a, std::int64_t first, std::int64_t count) {
  a.out += first * a.cols;
  a.word_index += first;
  a.position_index += first;
  if (a.type_index != nullptr) a.type_index += first;
  a.rows = count;
  return a;
}

inline DropoutForward part_of(DropoutForward a, std::int64_t first, std::int64_t count) {
  a.y += first * a.cols;
  a.x += first * a.cols;
  a.row_keys += first;
  a.rows = count;
  return a;
}

inline CrossEntropyForward part_of(CrossEntropyForward a, std::int64_t first, std::int64_t count) {
  a.loss += first;
  a.top += first;
  a.others += first;
  a.hit += first;
  a.logits += first * a.cols;
  a.label += first;
  if (a.mixed_label != nullptr) {
    a.mixed_label += first;
    a.share += first;
  }
  a.rows = count;
  return a;
}

inline CrossEntropyBackward part_of(CrossEntropyBackward a, std::int64_t first, std::int64_t count) {
  a.d_logits += first * a.cols;
  a.logits += first * a.cols;
  a.top += first;
  a.others += first;
  a.label += first;
  if (a.mixed_label != nullptr) {
    a.mixed_label += first;
    a.share += first;
  }
  a.rows = count;
  return a;
}

}  // namespace bascule
