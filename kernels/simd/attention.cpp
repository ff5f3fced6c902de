// SPDX-License-Identifier: Apache-2.0
// Attention of one head of one sample, in blocks of query rows whose scores stay in the second-level cache. Keys, and
// for backward values, are packed transposed, so that lanes run over keys; sums over keys have lanes over the head.
#include "kernels/attention.h"

#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/packing.h"
#include "kernels/simd/rows.h"
#include "kernels/simd/small_product.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kQueryBlock = kAttentionQueryBlock;

// Extents of packed matrices, in floats. Rows over keys have an odd number of vectors: rows of a power of two bytes
// would all fall into the same few cache sets.
struct Packing {
  std::int64_t key_vectors, key_stride;
  std::int64_t width_vectors, width;
};
inline Packing packing(std::int64_t key_rows, std::int64_t head_size) {
  const std::int64_t key_vectors = (key_rows + kLanes - 1) / kLanes;
  const std::int64_t width_vectors = (head_size + kLanes - 1) / kLanes;
  return {key_vectors, (key_vectors | 1) * kLanes, width_vectors, width_vectors * kLanes};
}

// step(lanes, k, kept) for k = 0, 16, 32, ... below the keys; `kept` is the dropout mask of those lanes.
template <bool kDrops, typename Arguments, typename Step>
[[gnu::always_inline]] inline void for_keys(const Arguments& a, std::int64_t query, const Step& step) {
  const std::uint64_t row_key =
      a.query_keys != nullptr ? a.query_keys[query]
                              : (a.sample << 16) | (static_cast<std::uint64_t>(a.query_position + query) & 0xffffu);
  for (std::int64_t first = 0; first < a.key_rows; first += 64) {
    KeptColumns kept;
    if constexpr (kDrops) kept = kept_columns(a.dropout, row_key, a.head * 1024 + first / 64);
    const std::int64_t count = a.key_rows - first < 64 ? a.key_rows - first : 64;
    for_lanes(
        count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          step(lanes, first + c, kDrops ? kept.mask[c / kLanes] : first_lanes(kLanes));
        });
  }
}

// out[c] = factor x[c]; out is not packed.
inline void unpack_row(Elements out, const float* x, std::int64_t count, float factor) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { store(out, c, lanes, load(x + c) * set(factor)); });
}

// (head_size, key_stride): factor x^T. `rows` (key_rows, width) is overwritten where x is bf16.
template <typename Arguments>
void pack_keys(float* packed, const Packing& to, ConstElements x, std::int64_t stride, const Arguments& a, float factor,
               float* rows) {
  if (!x.is_bf16()) return pack_transposed(packed, to.key_stride, x.float32(), stride, a.key_rows, a.head_size, factor);
  pack_rows(rows, to.width, x, stride, a.key_rows, a.head_size);
  pack_transposed(packed, to.key_stride, rows, to.width, a.key_rows, a.head_size, factor);
}

// scores[k] = dropped e^(scores[k] - top), without the factors of softmax and dropout, which are returned.
template <bool kDrops>
float softmax_row(float* scores, const AttentionForward& a, std::int64_t query) {
  const float top = largest(scores, a.key_rows);
  f32x16 sums = set(0.0f);
  for_keys<kDrops>(
      a, query, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 e = exp(load(scores + k, lanes, -__builtin_inff()) - set(top));
        sums = sums + e;
        store(scores + k, kDrops ? select(kept, e, set(0.0f)) : e);
      });
  const float sum = horizontal_sum(sums);
  a.logsumexp[query] = top + log_of(sum);
  return (kDrops ? a.dropout.scale : 1.0f) / sum;
}

// From scores[k] and d_dropped[k], the gradient of the dropped probabilities: scores[k] becomes the dropped
// probability, d_dropped[k] the gradient of the score.
template <bool kDrops>
void softmax_row_backward(float* scores, float* d_dropped, const AttentionBackward& a, std::int64_t query) {
  // Scores of rounded operands may be far above the logsumexp of others.
  const bool is_rounded = a.query.is_bf16() || a.key.is_bf16();
  const f32x16 logsumexp = set(is_rounded ? largest(scores, a.key_rows) : a.logsumexp[query]);
  const f32x16 scale = set(a.dropout.scale);
  f32x16 sums = set(0.0f), dots = set(0.0f);
  for_keys<kDrops>(
      a, query, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 e = exp(load(scores + k, lanes, -__builtin_inff()) - logsumexp);
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
      a, query, [&](auto, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 p = load(scores + k) * normalise;
        store(scores + k, kDrops ? drop(kept, p, scale) : p);
        store(d_dropped + k, p * (load(d_dropped + k) - delta));
      });
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  const Packing to = packing(a.key_rows, a.head_size);
  float* const keys = a.scratch;                             // (head_size, key_stride): scale key^T
  float* const values = keys + a.head_size * to.key_stride;  // (key_rows, width)
  float* const scores = values + a.key_rows * to.width;      // (kQueryBlock, key_stride)
  float* const out = scores + kQueryBlock * to.key_stride;   // (kQueryBlock, width)
  float* const packed_query = out + kQueryBlock * to.width;  // (kQueryBlock, width), of a query in bf16
  float factors[kQueryBlock];
  pack_keys(keys, to, a.key, a.key_stride, a, a.scale, values);
  pack_rows(values, to.width, a.value, a.value_stride, a.key_rows, a.head_size);

  for (std::int64_t first = 0; first < a.query_rows; first += kQueryBlock) {
    const std::int64_t rows = a.query_rows - first < kQueryBlock ? a.query_rows - first : kQueryBlock;
    const ConstElements query = a.query + first * a.query_stride;
    const bool is_packed = query.is_bf16();
    if (is_packed) pack_rows(packed_query, to.width, query, a.query_stride, rows, a.head_size);
    multiply({scores, to.key_stride, is_packed ? packed_query : query.float32(), is_packed ? to.width : a.query_stride,
              1, keys, to.key_stride, a.head_size, false},
             rows, to.key_vectors);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = scores + r * to.key_stride;
      factors[r] =
          a.dropout.threshold != 0 ? softmax_row<true>(row, a, first + r) : softmax_row<false>(row, a, first + r);
    }
    multiply({out, to.width, scores, to.key_stride, 1, values, to.width, a.key_rows, false}, rows, to.width_vectors);
    for (std::int64_t r = 0; r < rows; ++r) {
      unpack_row(a.out + (first + r) * a.out_stride, out + r * to.width, a.head_size, factors[r]);
    }
  }
}

void attention_backward(const AttentionBackward& a) {
  const Packing to = packing(a.key_rows, a.head_size);
  float* const keys_transposed = a.scratch;  // (head_size, key_stride): scale key^T
  float* const values_transposed = keys_transposed + a.head_size * to.key_stride;
  float* const keys = values_transposed + a.head_size * to.key_stride;  // (key_rows, width)
  float* const d_keys = keys + a.key_rows * to.width;                   // (key_rows, width), as d_values
  float* const d_values = d_keys + a.key_rows * to.width;
  float* const scores = d_values + a.key_rows * to.width;  // (kQueryBlock, key_stride), as d_scores
  float* const d_scores = scores + kQueryBlock * to.key_stride;
  float* const query = d_scores + kQueryBlock * to.key_stride;  // (kQueryBlock, width), as what follows
  float* const d_out = query + kQueryBlock * to.width;
  float* const d_query = d_out + kQueryBlock * to.width;
  pack_keys(keys_transposed, to, a.key, a.key_stride, a, a.scale, keys);
  pack_keys(values_transposed, to, a.value, a.value_stride, a, 1.0f, keys);
  pack_rows(keys, to.width, a.key, a.key_stride, a.key_rows, a.head_size);

  for (std::int64_t first = 0; first < a.query_rows; first += kQueryBlock) {
    const std::int64_t rows = a.query_rows - first < kQueryBlock ? a.query_rows - first : kQueryBlock;
    const bool later = first > 0;
    pack_rows(query, to.width, a.query + first * a.query_stride, a.query_stride, rows, a.head_size);
    pack_rows(d_out, to.width, a.d_out + first * a.d_out_stride, a.d_out_stride, rows, a.head_size);
    multiply({scores, to.key_stride, query, to.width, 1, keys_transposed, to.key_stride, a.head_size, false}, rows,
             to.key_vectors);
    multiply({d_scores, to.key_stride, d_out, to.width, 1, values_transposed, to.key_stride, a.head_size, false}, rows,
             to.key_vectors);
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = scores + r * to.key_stride;
      float* const d_row = d_scores + r * to.key_stride;
      if (a.dropout.threshold != 0) {
        softmax_row_backward<true>(row, d_row, a, first + r);
      } else {
        softmax_row_backward<false>(row, d_row, a, first + r);
      }
    }
    multiply({d_query, to.width, d_scores, to.key_stride, 1, keys, to.width, a.key_rows, false}, rows,
             to.width_vectors);
    multiply({d_keys, to.width, d_scores, 1, to.key_stride, query, to.width, rows, later}, a.key_rows,
             to.width_vectors);
    multiply({d_values, to.width, scores, 1, to.key_stride, d_out, to.width, rows, later}, a.key_rows,
             to.width_vectors);
    for (std::int64_t r = 0; r < rows; ++r) {
      unpack_row(a.d_query + (first + r) * a.d_query_stride, d_query + r * to.width, a.head_size, a.scale);
    }
  }
  for (std::int64_t k = 0; k < a.key_rows; ++k) {
    unpack_row(a.d_key + k * a.d_key_stride, d_keys + k * to.width, a.head_size, a.scale);
    unpack_row(a.d_value + k * a.d_value_stride, d_values + k * to.width, a.head_size, 1.0f);
  }
}

}  // namespace bascule::BASCULE_ISA
