// SPDX-License-Identifier: Apache-2.0
// The gradients of attention, with all keys packed at once. See attention_blocks.h.
#include <cstdint>

#include "kernels/simd/attention_blocks.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {
namespace {

// The gradient of keys or values: that of those seen, and zeros of the others.
inline void unpack_keys(Elements out, std::int64_t stride, float* packed, const Packing& to, const AttentionBackward& a,
                        std::int64_t seen, float factor) {
  for (std::int64_t k = 0; k < seen; ++k)
    unpack_row(out + k * stride, packed + k * to.width, a.head_size, factor, added_zero(a.causal));
  if (seen == a.key_rows) return;
  fill_row(packed, to.width, 0.0f);
  for (std::int64_t k = seen; k < a.key_rows; ++k) unpack_row(out + k * stride, packed, a.head_size, 1.0f, 0.0f);
}

// out (keys, width) = or, of keys that an earlier block has seen, += weights^T x, where x (rows, width).
inline void add_over_queries(float* out, const Packing& to, const float* weights, const float* x,
                             const QueryBlock& block) {
  const std::int64_t keys = block.keys(block.rows - 1);
  const std::int64_t earlier = block.first == 0 ? 0 : block.before < keys ? block.before : keys;
  multiply({out, to.width, weights, 1, to.key_stride, x, to.width, block.rows, true}, earlier, to.width_vectors);
  multiply({out + earlier * to.width, to.width, weights + earlier, 1, to.key_stride, x, to.width, 0, false},
           keys - earlier, to.width_vectors, [&](std::int64_t first, std::int64_t) {
             return Steps{block.first_row(earlier + first), block.rows};
           });
}

// From scores[k] and d_dropped[k], the gradient of the dropped probabilities: scores[k] becomes the dropped
// probability, d_dropped[k] the gradient of the score.
template <bool kDrops>
void softmax_row_backward(float* scores, float* d_dropped, std::int64_t keys, const AttentionBackward& a,
                          std::int64_t query) {
  // Scores of rounded operands may be far above the logsumexp of others.
  const bool is_rounded = a.query.is_bf16() || a.key.is_bf16();
  const float subtracted = is_rounded ? largest(scores, keys) : a.logsumexp[query];
  const f32x16 logsumexp = set(subtracted);
  const f32x16 scale = set(a.dropout.scale);
  f32x16 sums = set(0.0f), dots = set(0.0f);
  for_keys<kDrops>(
      a, query, 0, keys, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 e = keep(lanes, exp(load(scores + k, lanes, subtracted) - logsumexp), 0.0f);
        const f32x16 d_p = kDrops ? drop(kept, load(d_dropped + k), scale) : load(d_dropped + k);
        sums = sums + e;
        dots = fma(e, d_p, dots);
        store(scores + k, e);
        store(d_dropped + k, d_p);
      });
  const float inverse = 1.0f / horizontal_sum(sums);
  const f32x16 delta = set(horizontal_sum(dots) * inverse);
  const f32x16 normalise = set(inverse);
  for_keys<kDrops>(
      a, query, 0, keys, [&](auto, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 p = load(scores + k) * normalise;
        store(scores + k, kDrops ? drop(kept, p, scale) : p);
        store(d_dropped + k, p * (load(d_dropped + k) - delta));
      });
}

}  // namespace

void attention_backward(const AttentionBackward& a) {
  const std::int64_t key_rows = seen_keys(a);
  const Packing to = packing(key_rows, a.head_size);
  float* const keys_transposed = a.scratch;  // (head_size, key_stride): scale key^T
  float* const values_transposed = keys_transposed + a.head_size * to.key_stride;
  float* const keys = values_transposed + a.head_size * to.key_stride;  // (key_rows, width)
  float* const d_keys = keys + key_rows * to.width;                     // (key_rows, width), as d_values
  float* const d_values = d_keys + key_rows * to.width;
  float* const scores = d_values + key_rows * to.width;  // (kQueryBlock, key_stride), as d_scores
  float* const d_scores = scores + kQueryBlock * to.key_stride;
  float* const query = d_scores + kQueryBlock * to.key_stride;  // (kQueryBlock, width), as what follows
  float* const d_out = query + kQueryBlock * to.width;
  float* const d_query = d_out + kQueryBlock * to.width;
  pack_keys(keys_transposed, to, {a.key, a.key_stride, nullptr, key_rows}, a.head_size, a.scale, keys);
  pack_keys(values_transposed, to, {a.value, a.value_stride, nullptr, key_rows}, a.head_size, 1.0f, keys);
  pack_rows(keys, to.width, a.key, a.key_stride, key_rows, a.head_size);

  for (std::int64_t first = 0; first < a.query_rows; first += kQueryBlock) {
    const QueryBlock block = query_block(a, first, a.query_rows, {0, key_rows});
    pack_rows(query, to.width, a.query + first * a.query_stride, a.query_stride, block.rows, a.head_size);
    pack_rows(d_out, to.width, a.d_out + first * a.d_out_stride, a.d_out_stride, block.rows, a.head_size);
    multiply_scores(scores, to, query, to.width, keys_transposed, a.head_size, block);
    multiply_scores(d_scores, to, d_out, to.width, values_transposed, a.head_size, block);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      float* const row = scores + r * to.key_stride;
      float* const d_row = d_scores + r * to.key_stride;
      add_bias(row, a, block, r);
      if (a.dropout.threshold != 0) {
        softmax_row_backward<true>(row, d_row, block.keys(r), a, first + r);
      } else {
        softmax_row_backward<false>(row, d_row, block.keys(r), a, first + r);
      }
      clear_unseen(row, block, r);
      clear_unseen(d_row, block, r);
      if (a.d_bias != nullptr) add_to_row(a.d_bias - (a.query_position + first + r), d_row, block.keys(r));
    }
    multiply_over_keys(d_query, to, d_scores, keys, to.width, block);
    add_over_queries(d_keys, to, d_scores, query, block);
    add_over_queries(d_values, to, scores, d_out, block);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      unpack_row(a.d_query + (first + r) * a.d_query_stride, d_query + r * to.width, a.head_size, a.scale,
                 added_zero(a.causal));
    }
  }
  unpack_keys(a.d_key, a.d_key_stride, d_keys, to, a, key_rows, a.scale);
  unpack_keys(a.d_value, a.d_value_stride, d_values, to, a, key_rows, 1.0f);
}

}  // namespace bascule::BASCULE_ISA
