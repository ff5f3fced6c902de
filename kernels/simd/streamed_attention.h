// SPDX-License-Identifier: Apache-2.0
// Attention of few queries, as in writing texts: its time is that of reading keys and values, so they are multiplied
// where they lie. Scores lie by query row. The arithmetic is that of attention.cpp.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/simd/attention_blocks.h"
#include "kernels/simd/streamed_product.h"

namespace bascule::BASCULE_ISA {
namespace {

// A scale would have to be multiplied into the keys first, and wide heads would be summed in chunks.
bool has_few_queries(const AttentionForward& a) {
  return a.query_rows <= kMostStreamedRows && a.scale == 1.0f && a.key_index == nullptr && a.head_size % kLanes == 0 &&
         a.head_size <= kGemmChunk && !a.query.is_bf16() && !a.key.is_bf16() && !a.value.is_bf16();
}

// For each query row, over the keys until now.
struct RowSoftmax {
  float top, sum;
};

// scores[k] = dropped e^(scores[k] - top), without the factors of softmax and dropout, where `top` is the largest score
// of these keys and of those before. Returns the factor that gives sums over the keys before that same top.
template <bool kDrops>
float softmax_row(float* scores, std::int64_t first_key, std::int64_t keys, const AttentionForward& a,
                  std::int64_t query, RowSoftmax* softmax) {
  const float lowest = -__builtin_inff();
  const float before = first_key > 0 ? softmax->top : lowest;
  const float own = largest(scores, keys);
  softmax->top = own > before ? own : before;
  // Not of scores that are all -infinity, which later keys may outdo.
  const float subtracted = softmax->top > lowest ? softmax->top : 0.0f;
  f32x16 sums = set(0.0f);
  for_keys<kDrops>(
      a, query, first_key, keys, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        // Absent lanes are not those of -infinity: an exp that underflows takes many times as long.
        const f32x16 e = keep(lanes, exp_of_negative(load(scores + k, lanes, subtracted) - set(subtracted)), 0.0f);
        sums = sums + e;
        store(scores + k, kDrops ? select(kept, e, set(0.0f)) : e);
      });
  const float own_sum = horizontal_sum(sums);
  if (first_key == 0) {
    softmax->sum = own_sum;
    return 0.0f;
  }
  const float factor = exp_of(before - subtracted);
  softmax->sum = softmax->sum * factor + own_sum;
  return factor;
}

// scores (rows, keys of the block), in rows key_stride apart. `packed` has room for the queries, and for the last keys,
// which fill no vector.
inline void stream_scores(float* scores, std::int64_t key_stride, const AttentionForward& a, const KeyBlock& keys,
                          float* packed) {
  const ConstElements key = a.key + keys.first * a.key_stride;
  const std::int64_t whole = keys.count / kLanes * kLanes, left = keys.count - whole;
  multiply_streamed_columns({GemmKind::kForward, scores, a.query, key, nullptr, a.query_stride, a.key_stride,
                             key_stride, a.query_rows, whole, a.head_size, false, nullptr},
                            packed);
  if (left == 0) return;
  pack_transposed(packed, kLanes, key.float32() + whole * a.key_stride, a.key_stride, left, a.head_size);
  multiply({scores + whole, key_stride, a.query.float32(), a.query_stride, 1, packed, kLanes, a.head_size, false},
           a.query_rows, 1);
}

inline void attend_few_queries(const AttentionForward& a) {
  const std::int64_t key_rows = seen_keys(a),
                     block_keys = key_rows < kAttentionKeyBlock ? key_rows : kAttentionKeyBlock;
  const Packing to = packing(block_keys, a.head_size);
  float* const packed = a.scratch;
  float* const scores = packed + kMostStreamedRows * a.head_size;  // (query_rows, key_stride)
  float* const part = scores + kMostStreamedRows * to.key_stride;  // (query_rows, width): sums over the keys of a block
  float* const out = part + kMostStreamedRows * to.width;          // (query_rows, width): sums over the keys until now
  RowSoftmax softmax[kMostStreamedRows];
  for (std::int64_t key = 0; key < key_rows; key += block_keys) {
    const KeyBlock keys{key, key_rows - key < block_keys ? key_rows - key : block_keys};
    const QueryBlock block = query_block(a, 0, a.query_rows, keys);
    if (block.keys(block.rows - 1) == 0) continue;
    stream_scores(scores, to.key_stride, a, keys, packed);
    float factors[kMostStreamedRows];
    for (std::int64_t r = 0; r < block.rows; ++r) {
      float* const row = scores + r * to.key_stride;
      add_bias(row, a, block, r);
      if (block.keys(r) > 0) {
        factors[r] = (a.dropout.threshold != 0 ? softmax_row<true> : softmax_row<false>)(row, key, block.keys(r), a, r,
                                                                                         softmax + r);
      }
      clear_unseen(row, block, r);
    }
    const bool is_first = key == 0;
    multiply_over_keys(is_first ? out : part, to, scores, a.value.float32() + key * a.value_stride, a.value_stride,
                       block);
    for (std::int64_t r = 0; !is_first && r < block.rows; ++r) {
      if (block.keys(r) > 0) scale_and_add_to_row(out + r * to.width, factors[r], part + r * to.width, to.width);
    }
  }
  const float factor = a.dropout.threshold != 0 ? a.dropout.scale : 1.0f;
  for (std::int64_t r = 0; r < a.query_rows; ++r) {
    a.logsumexp[r] = softmax[r].top + log_of(softmax[r].sum);
    unpack_row(a.out + r * a.out_stride, out + r * to.width, a.head_size, factor / softmax[r].sum,
               added_zero(a.causal));
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
