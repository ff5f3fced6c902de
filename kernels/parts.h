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

// Moves a block's pointers to what begins at an element, column or row.

inline void advance_to(Fill& a, std::int64_t element) { advance_each(element, a.x); }
inline void advance_to(Add& a, std::int64_t element) { advance_each(element, a.out, a.a, a.b); }
inline void advance_to(Scale& a, std::int64_t element) { advance_each(element, a.out, a.x); }
inline void advance_to(ActivationForward& a, std::int64_t element) { advance_each(element, a.y, a.x); }
inline void advance_to(ToBf16& a, std::int64_t element) { advance_each(element, a.out, a.x); }

inline void advance_to(AddParts& a, std::int64_t column) { advance_each(column, a.out, a.parts); }

inline void advance_to(ActivationBackward& a, std::int64_t row) { advance_each(row * a.cols, a.d_x, a.d_y, a.x); }
inline void advance_to(GateForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.y);
  advance_each(row * 2 * a.cols, a.x);
  advance_each(row, a.row_keys);
}
inline void advance_to(GateBackward& a, std::int64_t row) {
  advance_each(row * a.cols, a.d_y);
  advance_each(row * 2 * a.cols, a.d_x, a.x);
  advance_each(row, a.row_keys);
}
inline void advance_to(RowNormForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.y, a.sum, a.x, a.h);
  advance_each(row, a.mean, a.rstd, a.row_keys);
}
inline void advance_to(RowNormBackward& a, std::int64_t row) {
  advance_each(row * a.cols, a.d_x, a.d_h, a.d_sum, a.d_y, a.sum);
  advance_each(row, a.mean, a.rstd, a.row_keys);
}
inline void advance_to(NormalizeForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.y, a.x);
  advance_each(row, a.norm);
}
inline void advance_to(NormalizeBackward& a, std::int64_t row) {
  advance_each(row * a.cols, a.d_x, a.d_y, a.y);
  advance_each(row, a.norm);
}
inline void advance_to(TextEmbeddingForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.out);
  advance_each(row, a.word_index, a.position_index, a.type_index);
}
inline void advance_to(GatherRows& a, std::int64_t row) {
  advance_each(row * a.cols, a.out);
  advance_each(row, a.index);
}
inline void advance_to(ScatterRows& a, std::int64_t row) {
  advance_each(row * a.cols, a.d_out);
  advance_each(row, a.index);
}
inline void advance_to(DropoutForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.y, a.x);
  advance_each(row, a.row_keys);
}
inline void advance_to(CrossEntropyForward& a, std::int64_t row) {
  advance_each(row * a.cols, a.logits);
  advance_each(row, a.loss, a.top, a.others, a.hit, a.label, a.mixed_label, a.share);
}
inline void advance_to(CrossEntropyBackward& a, std::int64_t row) {
  advance_each(row * a.cols, a.d_logits, a.logits);
  advance_each(row, a.top, a.others, a.label, a.mixed_label, a.share);
}

// The member that says of how many elements, columns or rows a block is.
inline std::int64_t& extent_of(AddParts& a, int) { return a.cols; }
template <typename Block>
auto extent_of(Block& a, int) -> decltype((a.rows)) {
  return a.rows;
}
template <typename Block>
auto extent_of(Block& a, long) -> decltype((a.count)) {
  return a.count;
}

template <typename Block>
Block part_of(Block a, std::int64_t first, std::int64_t count) {
  advance_to(a, first);
  extent_of(a, 0) = count;
  return a;
}

}  // namespace bascule
