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
#include "kernels/loss.h"
#include "kernels/norms.h"

namespace bascule {

template <typename Element>
constexpr Element* advance(Element* from, std::int64_t elements) {
  return from == nullptr ? nullptr : from + elements;
}
// Pointers or Elements.
template <typename... Places>
constexpr void advance_each(std::int64_t elements, Places&... places) {
  ((places ? void(places += elements) : void()), ...);
}

// By elements.

inline Fill part_of(Fill a, std::int64_t first, std::int64_t count) {
  a.x += first;
  a.count = count;
  return a;
}

inline Add part_of(Add a, std::int64_t first, std::int64_t count) {
  advance_each(first, a.out, a.a, a.b);
  a.count = count;
  return a;
}

inline Scale part_of(Scale a, std::int64_t first, std::int64_t count) {
  advance_each(first, a.out, a.x);
  a.count = count;
  return a;
}

inline ActivationForward part_of(ActivationForward a, std::int64_t first, std::int64_t count) {
  advance_each(first, a.y, a.x);
  a.count = count;
  return a;
}

inline ToBf16 part_of(ToBf16 a, std::int64_t first, std::int64_t count) {
  advance_each(first, a.out, a.x);
  a.count = count;
  return a;
}

// By columns of the sum.

inline AddParts part_of(AddParts a, std::int64_t first, std::int64_t count) {
  advance_each(first, a.out, a.parts);
  a.cols = count;
  return a;
}

// By rows.

inline ActivationBackward part_of(ActivationBackward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.d_x, a.d_y, a.x);
  a.rows = count;
  return a;
}

inline GateForward part_of(GateForward a, std::int64_t first, std::int64_t count) {
  a.y += first * a.cols;
  a.x += first * 2 * a.cols;
  advance_each(first, a.row_keys);
  a.rows = count;
  return a;
}

inline GateBackward part_of(GateBackward a, std::int64_t first, std::int64_t count) {
  advance_each(first * 2 * a.cols, a.d_x, a.x);
  a.d_y += first * a.cols;
  advance_each(first, a.row_keys);
  a.rows = count;
  return a;
}

inline RowNormForward part_of(RowNormForward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.y, a.sum, a.x, a.h);
  advance_each(first, a.mean, a.rstd, a.row_keys);
  a.rows = count;
  return a;
}

inline RowNormBackward part_of(RowNormBackward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.d_x, a.d_h, a.d_sum, a.d_y, a.sum);
  advance_each(first, a.mean, a.rstd, a.row_keys);
  a.rows = count;
  return a;
}

inline NormalizeForward part_of(NormalizeForward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.y, a.x);
  a.norm += first;
  a.rows = count;
  return a;
}

inline NormalizeBackward part_of(NormalizeBackward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.d_x, a.d_y, a.y);
  a.norm += first;
  a.rows = count;
  return a;
}

inline TextEmbeddingForward part_of(TextEmbeddingForward a, std::int64_t first, std::int64_t count) {
  a.out += first * a.cols;
  advance_each(first, a.word_index, a.position_index, a.type_index);
  a.rows = count;
  return a;
}

inline GatherRows part_of(GatherRows a, std::int64_t first, std::int64_t count) {
  a.out += first * a.cols;
  a.index += first;
  a.rows = count;
  return a;
}

inline DropoutForward part_of(DropoutForward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.y, a.x);
  a.row_keys += first;
  a.rows = count;
  return a;
}

inline CrossEntropyForward part_of(CrossEntropyForward a, std::int64_t first, std::int64_t count) {
  a.logits += first * a.cols;
  advance_each(first, a.loss, a.top, a.others, a.hit, a.label, a.mixed_label, a.share);
  a.rows = count;
  return a;
}

inline CrossEntropyBackward part_of(CrossEntropyBackward a, std::int64_t first, std::int64_t count) {
  advance_each(first * a.cols, a.d_logits, a.logits);
  advance_each(first, a.top, a.others, a.label, a.mixed_label, a.share);
  a.rows = count;
  return a;
}

}  // namespace bascule
