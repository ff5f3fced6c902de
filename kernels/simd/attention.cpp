// SPDX-License-Identifier: Apache-2.0
// Attention of one head of one sample, in blocks of query rows whose scores stay in the second-level cache. Keys, and
// for backward values, are packed transposed, so that lanes run over keys; sums over keys have lanes over the head.
//
// Of causal attention a block's scores are a rectangle whose corner no query sees. Products leave out the vectors of
// scores that lie in it whole, and the steps over what a few rows together do not see; what is left of it is zeros,
// which change no sum but for the sign of a zero: the end of each sum makes that of all zeros plus.
#include "kernels/attention.h"

#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/packing.h"
#include "kernels/simd/rows.h"
#include "kernels/simd/small_product.h"
#include "kernels/simd/streamed_product.h"

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

// A block of query rows: those from `first` on.
struct QueryBlock {
  std::int64_t first, rows;
  std::int64_t before;  // keys that all of its rows see, and its first row one more, if there are so many
  std::int64_t all;     // keys that any row of any block sees

  // Keys that row r of the block sees.
  std::int64_t keys(std::int64_t r) const { return before + r + 1 < all ? before + r + 1 : all; }
  // The first row that sees this key.
  std::int64_t first_row(std::int64_t key) const { return key > before ? key - before : 0; }
};

template <typename Arguments>
inline std::int64_t seen_keys(const Arguments& a) {
  const std::int64_t end = a.query_position + a.query_rows;
  return a.causal && end < a.key_rows ? end : a.key_rows;
}

template <typename Arguments>
inline QueryBlock query_block(const Arguments& a, std::int64_t first, std::int64_t all) {
  const std::int64_t left = a.query_rows - first;
  return {first, left < kQueryBlock ? left : kQueryBlock, a.causal ? a.query_position + first : all, all};
}

// step(lanes, k, kept) for k = 0, 16, 32, ... below `keys`; `kept` is the dropout mask of those lanes.
template <bool kDrops, typename Arguments, typename Step>
[[gnu::always_inline]] inline void for_keys(const Arguments& a, std::int64_t query, std::int64_t keys,
                                            const Step& step) {
  const std::uint64_t row_key =
      a.query_keys != nullptr ? a.query_keys[query]
                              : (a.sample << 16) | (static_cast<std::uint64_t>(a.query_position + query) & 0xffffu);
  for (std::int64_t first = 0; first < keys; first += 64) {
    KeptColumns kept;
    if constexpr (kDrops) kept = kept_columns(a.dropout, row_key, a.head * 1024 + first / 64);
    const std::int64_t count = keys - first < 64 ? keys - first : 64;
    for_lanes(
        count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          step(lanes, first + c, kDrops ? kept.mask[c / kLanes] : first_lanes(kLanes));
        });
  }
}

// out[c] = factor x[c] + zero; out is not packed.
inline void unpack_row(Elements out, const float* x, std::int64_t count, float factor, float zero) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { store(out, c, lanes, fma(load(x + c), set(factor), set(zero))); });
}
// The zero that leaves a number as it is, or makes -0 of it 0.
inline float added_zero(bool causal) { return causal ? 0.0f : -0.0f; }

// The gradient of keys or values: that of those seen, and zeros of the others.
inline void unpack_keys(Elements out, std::int64_t stride, float* packed, const Packing& to, const AttentionBackward& a,
                        std::int64_t seen, float factor) {
  for (std::int64_t k = 0; k < seen; ++k)
    unpack_row(out + k * stride, packed + k * to.width, a.head_size, factor, added_zero(a.causal));
  if (seen == a.key_rows) return;
  fill_row(packed, to.width, 0.0f);
  for (std::int64_t k = seen; k < a.key_rows; ++k) unpack_row(out + k * stride, packed, a.head_size, 1.0f, 0.0f);
}

// Keys or values: rows that follow one another, or, where there is an index, those that it names.
struct KeyRows {
  ConstElements x;
  std::int64_t stride;
  const std::int32_t* index;
  std::int64_t count;
};

// (count, width)
inline void pack_key_rows(float* packed, const Packing& to, const KeyRows& rows, std::int64_t head_size) {
  if (rows.index == nullptr) return pack_rows(packed, to.width, rows.x, rows.stride, rows.count, head_size);
  for (std::int64_t k = 0; k < rows.count; ++k)
    pack_rows(packed + k * to.width, to.width, rows.x + rows.index[k] * rows.stride, rows.stride, 1, head_size);
}

// (head_size, key_stride): factor x^T. `packed_rows` (count, width) is overwritten where x is bf16 or there is an
// index.
inline void pack_keys(float* packed, const Packing& to, const KeyRows& rows, std::int64_t head_size, float factor,
                      float* packed_rows) {
  if (!rows.x.is_bf16() && rows.index == nullptr)
    return pack_transposed(packed, to.key_stride, rows.x.float32(), rows.stride, rows.count, head_size, factor);
  pack_key_rows(packed_rows, to, rows, head_size);
  pack_transposed(packed, to.key_stride, packed_rows, to.width, rows.count, head_size, factor);
}

// scores (rows, keys) of a block: query keys_transposed, in vectors that some row sees.
inline void multiply_scores(float* scores, const Packing& to, const float* query, std::int64_t query_stride,
                            const float* keys_transposed, std::int64_t head_size, const QueryBlock& block) {
  const std::int64_t vectors = (block.keys(block.rows - 1) + kLanes - 1) / kLanes;
  for (std::int64_t v = 0; v < vectors; v += kBlockVectors) {
    const std::int64_t row = block.first_row(v * kLanes);
    multiply({scores + row * to.key_stride + v * kLanes, to.key_stride, query + row * query_stride, query_stride, 1,
              keys_transposed + v * kLanes, to.key_stride, head_size, false},
             block.rows - row, vectors - v < kBlockVectors ? vectors - v : kBlockVectors);
  }
}

// out (rows, width) of a block: weights (rows, keys) x, where x (keys, width), whose rows lie x_stride apart.
inline void multiply_over_keys(float* out, const Packing& to, const float* weights, const float* x,
                               std::int64_t x_stride, const QueryBlock& block) {
  multiply({out, to.width, weights, to.key_stride, 1, x, x_stride, 0, false}, block.rows, to.width_vectors,
           [&block](std::int64_t, std::int64_t end) {
             return Steps{0, block.keys(end - 1)};
           });
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

template <typename Arguments>
inline void add_bias(float* scores, const Arguments& a, const QueryBlock& block, std::int64_t r) {
  if (a.bias != nullptr) add_to_row(scores, a.bias - (a.query_position + block.first + r), block.keys(r));
}

// Zeros behind the keys that the row sees, for products of several rows.
inline void clear_unseen(float* row, const QueryBlock& block, std::int64_t r) {
  const std::int64_t keys = block.keys(r);
  fill_row(row + keys, block.keys(block.rows - 1) - keys, 0.0f);
}

// scores[k] = dropped e^(scores[k] - top), without the factors of softmax and dropout, which are returned.
template <bool kDrops>
float softmax_row(float* scores, std::int64_t keys, const AttentionForward& a, std::int64_t query) {
  const float top = largest(scores, keys);
  f32x16 sums = set(0.0f);
  for_keys<kDrops>(
      a, query, keys, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
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
void softmax_row_backward(float* scores, float* d_dropped, std::int64_t keys, const AttentionBackward& a,
                          std::int64_t query) {
  // Scores of rounded operands may be far above the logsumexp of others.
  const bool is_rounded = a.query.is_bf16() || a.key.is_bf16();
  const f32x16 logsumexp = set(is_rounded ? largest(scores, keys) : a.logsumexp[query]);
  const f32x16 scale = set(a.dropout.scale);
  f32x16 sums = set(0.0f), dots = set(0.0f);
  for_keys<kDrops>(
      a, query, keys, [&](auto lanes, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
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
      a, query, keys, [&](auto, std::int64_t k, Mask16 kept) __attribute__((always_inline)) {
        const f32x16 p = load(scores + k) * normalise;
        store(scores + k, kDrops ? drop(kept, p, scale) : p);
        store(d_dropped + k, p * (load(d_dropped + k) - delta));
      });
}

// Of few queries the time is that of reading keys and values, so they are multiplied where they lie. A scale would have
// to be multiplied into the keys first, and wide heads would be summed in chunks.
bool has_few_queries(const AttentionForward& a) {
  return a.query_rows <= kMostStreamedRows && a.scale == 1.0f && a.key_index == nullptr && a.head_size % kLanes == 0 &&
         a.head_size <= kGemmChunk && !a.query.is_bf16() && !a.key.is_bf16() && !a.value.is_bf16();
}

// The same scores as multiply_scores() for all keys. `packed` has room for the queries, and for the last keys, which
// fill no vector.
void stream_scores(float* scores, const Packing& to, const AttentionForward& a, std::int64_t key_rows, float* packed) {
  const std::int64_t whole = key_rows / kLanes * kLanes, left = key_rows - whole;
  multiply_streamed_columns({GemmKind::kForward, scores, a.query, a.key, nullptr, a.query_stride, a.key_stride,
                             to.key_stride, a.query_rows, whole, a.head_size, false, nullptr},
                            packed);
  if (left == 0) return;
  pack_transposed(packed, kLanes, a.key.float32() + whole * a.key_stride, a.key_stride, left, a.head_size);
  multiply({scores + whole, to.key_stride, a.query.float32(), a.query_stride, 1, packed, kLanes, a.head_size, false},
           a.query_rows, 1);
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  const std::int64_t key_rows = seen_keys(a);
  const Packing to = packing(key_rows, a.head_size);
  float* const keys = a.scratch;                             // (head_size, key_stride): scale key^T
  float* const values = keys + a.head_size * to.key_stride;  // (key_rows, width)
  float* const scores = values + key_rows * to.width;        // (kQueryBlock, key_stride)
  float* const out = scores + kQueryBlock * to.key_stride;   // (kQueryBlock, width)
  float* const packed_query = out + kQueryBlock * to.width;  // (kQueryBlock, width), of a query in bf16
  float factors[kQueryBlock];
  const bool streams = has_few_queries(a);
  if (!streams) {
    pack_keys(keys, to, {a.key, a.key_stride, a.key_index, key_rows}, a.head_size, a.scale, values);
    pack_key_rows(values, to, {a.value, a.value_stride, a.key_index, key_rows}, a.head_size);
  }

  for (std::int64_t first = 0; first < a.query_rows; first += kQueryBlock) {
    const QueryBlock block = query_block(a, first, key_rows);
    const ConstElements query = a.query + first * a.query_stride;
    const bool is_packed = query.is_bf16();
    if (is_packed) pack_rows(packed_query, to.width, query, a.query_stride, block.rows, a.head_size);
    if (streams) {
      stream_scores(scores, to, a, key_rows, keys);
    } else {
      multiply_scores(scores, to, is_packed ? packed_query : query.float32(), is_packed ? to.width : a.query_stride,
                      keys, a.head_size, block);
    }
    for (std::int64_t r = 0; r < block.rows; ++r) {
      float* const row = scores + r * to.key_stride;
      add_bias(row, a, block, r);
      factors[r] = a.dropout.threshold != 0 ? softmax_row<true>(row, block.keys(r), a, first + r)
                                            : softmax_row<false>(row, block.keys(r), a, first + r);
      clear_unseen(row, block, r);
    }
    multiply_over_keys(out, to, scores, streams ? a.value.float32() : values, streams ? a.value_stride : to.width,
                       block);
    for (std::int64_t r = 0; r < block.rows; ++r) {
      unpack_row(a.out + (first + r) * a.out_stride, out + r * to.width, a.head_size, factors[r], added_zero(a.causal));
    }
  }
}

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
    const QueryBlock block = query_block(a, first, key_rows);
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
