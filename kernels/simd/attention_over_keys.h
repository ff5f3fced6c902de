// SPDX-License-Identifier: Apache-2.0
// Attention with lanes over keys: scores lie by query row. The arithmetic is that of attention.cpp, which has lanes
// over queries. Where there are few queries, as in writing texts, the time is that of reading keys and values, so they
// are multiplied where they lie.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/simd/attention_blocks.h"
#include "kernels/simd/streamed_product.h"

namespace bascule::BASCULE_ISA {
namespace {

// A scale would have to be multiplied into the keys first, and wide heads would be summed in chunks.
bool reads_keys_where_they_lie(const AttentionForward& a) {
  return a.query_rows <= kMostStreamedRows && a.scale == 1.0f && a.key_index == nullptr && a.head_size % kLanes == 0 &&
         a.head_size <= kGemmChunk && !a.query.is_bf16() && !a.key.is_bf16();
}
bool reads_values_where_they_lie(const AttentionForward& a) {
  return a.key_index == nullptr && a.head_size % kLanes == 0 && !a.value.is_bf16();
}

// A score over queries takes 0.95 of the time of one over keys, whose softmax also sums across lanes.
constexpr std::int64_t kQueryCost = 20, kKeyCost = 21;

// Whether lanes over keys leave fewer lanes idle than lanes over queries. Over queries every product and the softmax
// take whole vectors of queries; over keys, the scores and the softmax take whole vectors of keys. A score costs about
// as much as the product with its value.
bool has_lanes_over_keys(const AttentionForward& a) {
  const std::int64_t keys = seen_keys(a), over_queries = 2 * whole_vectors(a.query_rows) * keys,
                     over_keys = a.query_rows * (whole_vectors(keys) + keys);
  return reads_keys_where_they_lie(a) ||
         (a.query_rows <= kQueryBlock && over_queries * kQueryCost > over_keys * kKeyCost);
}

// scores[k] = dropped e^(scores[k] - top), without the factors of softmax and dropout, where `top` is the largest score
// of these keys and of those before. Returns the factor that gives sums over the keys before that same top.
template <bool kDrops>
float softmax_row(float* scores, std::int64_t first_key, std::int64_t keys, const AttentionForward& a,
                  std::int64_t query, float* top, float* sum) {
  const float lowest = -__builtin_inff();
  const float before = first_key > 0 ? *top : lowest;
  const float own = largest(scores, keys);
  *top = own > before ? own : before;
  // Not of scores that are all -infinity, which later keys may outdo.
  const float subtracted = *top > lowest ? *top : 0.0f;
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
    *sum = own_sum;
    return 0.0f;
  }
  const float factor = exp_of(before - subtracted);
  *sum = *sum * factor + own_sum;
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

// Of at most kQueryBlock rows.
inline void attend_over_keys(const AttentionForward& a) {
  const std::int64_t key_rows = seen_keys(a), rows = a.query_rows,
                     block_keys = key_rows < kAttentionKeyBlock ? key_rows : kAttentionKeyBlock;
  const Packing to = packing(block_keys, a.head_size);
  const bool streams_keys = reads_keys_where_they_lie(a), streams_values = reads_values_where_they_lie(a);
  float* const packed_keys = a.scratch;                                    // (head_size, key_stride)
  float* const packed_values = packed_keys + a.head_size * to.key_stride;  // (keys of a block, width)
  float* const scores = packed_values + block_keys * to.width;             // (rows, key_stride)
  float* const query = scores + rows * to.key_stride;                      // (rows, width), as what follows
  float* const part = query + rows * to.width;                             // sums over the keys of a block
  float* const out = part + rows * to.width;                               // sums over the keys until now
  float top[kQueryBlock], sum[kQueryBlock], factors[kQueryBlock];
  if (!streams_keys) pack_rows(query, to.width, a.query, a.query_stride, rows, a.head_size);
  for (std::int64_t key = 0; key < key_rows; key += block_keys) {
    const KeyBlock keys{key, key_rows - key < block_keys ? key_rows - key : block_keys};
    const QueryBlock block = query_block(a, 0, rows, keys);
    if (block.keys(rows - 1) == 0) continue;
    if (streams_keys) {
      stream_scores(scores, to.key_stride, a, keys, packed_keys);
    } else {
      pack_keys(packed_keys, to, keys_of(a, a.key, a.key_stride, keys), a.head_size, a.scale, packed_values);
      multiply_scores(scores, to, query, to.width, packed_keys, a.head_size, block);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = scores + r * to.key_stride;
      add_bias(row, a, block, r);
      if (block.keys(r) > 0) {
        factors[r] = (a.dropout.threshold != 0 ? softmax_row<true> : softmax_row<false>)(row, key, block.keys(r), a, r,
                                                                                         top + r, sum + r);
      }
      clear_unseen(row, block, r);
    }
    const bool is_first = key == 0;
    float* const sums = is_first ? out : part;
    if (streams_values) {
      multiply_over_keys(sums, to, scores, a.value.float32() + key * a.value_stride, a.value_stride, block);
    } else {
      pack_key_rows(packed_values, to.width, keys_of(a, a.value, a.value_stride, keys), a.head_size);
      multiply_over_keys(sums, to, scores, packed_values, to.width, block);
    }
    for (std::int64_t r = 0; !is_first && r < rows; ++r) {
      if (block.keys(r) > 0) scale_and_add_to_row(out + r * to.width, factors[r], part + r * to.width, to.width);
    }
  }
  finish_softmax(a, 0, rows, top, sum, factors);
  for (std::int64_t r = 0; r < rows; ++r)
    unpack_row(a.out + r * a.out_stride, out + r * to.width, a.head_size, factors[r], added_zero(a.causal));
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
