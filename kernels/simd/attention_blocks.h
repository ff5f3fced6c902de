// SPDX-License-Identifier: Apache-2.0
// The parts of both directions of attention: blocks of query rows whose scores stay in the second-level cache.
// Products of backward, and of forward where lanes over queries would stand idle (attention_over_keys.h), have lanes
// over keys, which are packed transposed, or over the head where they sum over keys. Forward of other rows has lanes
// over queries (attention.cpp).
//
// In causal attention a block's scores are a rectangle whose corner no query sees. Products leave out the vectors of
// scores that lie in it whole, and the steps over what a few rows together do not see; what is left of it is zeros,
// which change no sum but for the sign of a zero: the end of each sum makes that of all zeros plus.
#pragma once

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_philox.h"
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

// Keys that are packed together.
struct KeyBlock {
  std::int64_t first, count;
};

// A block of query rows, those from `first` on, and what they see of a block of keys, whose first key is number 0 here.
struct QueryBlock {
  std::int64_t first, rows;
  std::int64_t first_key;  // of the block of keys
  std::int64_t before;     // keys that all of its rows see, and its first row one more, if there are so many
  std::int64_t all;        // keys that any row of any block sees

  // Keys that row r of the block sees.
  std::int64_t keys(std::int64_t r) const {
    const std::int64_t keys = before + r + 1 < all ? before + r + 1 : all;
    return keys > 0 ? keys : 0;
  }
  // The first row that sees this key.
  std::int64_t first_row(std::int64_t key) const { return key > before ? key - before : 0; }
};

template <typename Arguments>
inline std::int64_t seen_keys(const Arguments& a) {
  const std::int64_t end = a.query_position + a.query_rows;
  return a.causal && end < a.key_rows ? end : a.key_rows;
}

// Takes the rows before `end`, as many as a block holds.
template <typename Arguments>
inline QueryBlock query_block(const Arguments& a, std::int64_t first, std::int64_t end, const KeyBlock& keys) {
  return {first, end - first < kQueryBlock ? end - first : kQueryBlock, keys.first,
          a.causal ? a.query_position + first - keys.first : keys.count, keys.count};
}

// The dropout key of a query row.
template <typename Arguments>
inline std::uint64_t query_row_key(const Arguments& a, std::int64_t query) {
  return a.query_keys != nullptr ? a.query_keys[query]
                                 : (a.sample << 16) | (static_cast<std::uint64_t>(a.query_position + query) & 0xffffu);
}

// step(lanes, k, kept) for k = 0, 16, 32, ... below `keys`; `kept` is the dropout mask of those lanes. Key 0 is number
// first_key, a multiple of 64, of all.
template <bool kDrops, typename Arguments, typename Step>
[[gnu::always_inline]] inline void for_keys(const Arguments& a, std::int64_t query, std::int64_t first_key,
                                            std::int64_t keys, const Step& step) {
  const std::uint64_t row_key = query_row_key(a, query);
  for (std::int64_t first = 0; first < keys; first += 64) {
    KeptColumns kept;
    if constexpr (kDrops) kept = kept_columns(a.dropout, row_key, a.head * 1024 + (first_key + first) / 64);
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

// Keys or values: rows that follow one another, or, where there is an index, those that it names.
struct KeyRows {
  ConstElements x;
  std::int64_t stride;
  const std::int32_t* index;
  std::int64_t count;
};

inline KeyRows keys_of(const AttentionForward& a, ConstElements x, std::int64_t stride, const KeyBlock& keys) {
  if (a.key_index != nullptr) return {x, stride, a.key_index + keys.first, keys.count};
  return {x + keys.first * stride, stride, nullptr, keys.count};
}

// (count, width)
inline void pack_key_rows(float* packed, std::int64_t packed_stride, const KeyRows& rows, std::int64_t head_size) {
  if (rows.index == nullptr) return pack_rows(packed, packed_stride, rows.x, rows.stride, rows.count, head_size);
  for (std::int64_t k = 0; k < rows.count; ++k)
    pack_rows(packed + k * packed_stride, packed_stride, rows.x + rows.index[k] * rows.stride, rows.stride, 1,
              head_size);
}

// (head_size, key_stride): factor x^T. `packed_rows` (count, width) is overwritten where x is bf16 or there is an
// index.
inline void pack_keys(float* packed, const Packing& to, const KeyRows& rows, std::int64_t head_size, float factor,
                      float* packed_rows) {
  if (!rows.x.is_bf16() && rows.index == nullptr)
    return pack_transposed(packed, to.key_stride, rows.x.float32(), rows.stride, rows.count, head_size, factor);
  pack_key_rows(packed_rows, to.width, rows, head_size);
  pack_transposed(packed, to.key_stride, packed_rows, to.width, rows.count, head_size, factor);
}

// Steps for which the rows of B that a block of C needs stay in the first-level cache: of scores, and of sums over
// keys, whose rows are contiguous where the head is narrow, so that they may come from the second-level cache.
constexpr std::int64_t kMostSteps = 96, kMostKeySteps = 384;

// scores (rows, keys) of a block: query keys_transposed, in vectors that some row sees.
inline void multiply_scores(float* scores, const Packing& to, const float* query, std::int64_t query_stride,
                            const float* keys_transposed, std::int64_t head_size, const QueryBlock& block) {
  const std::int64_t vectors = (block.keys(block.rows - 1) + kLanes - 1) / kLanes;
  const std::int64_t together = vectors_of_blocks(vectors);
  const std::int64_t steps = divided(head_size, kMostSteps);
  for (std::int64_t v = 0; v < vectors; v += together) {
    const std::int64_t row = block.first_row(v * kLanes);
    for (std::int64_t step = 0; step < head_size; step += steps) {
      multiply({scores + row * to.key_stride + v * kLanes, to.key_stride, query + row * query_stride + step,
                query_stride, 1, keys_transposed + step * to.key_stride + v * kLanes, to.key_stride,
                head_size - step < steps ? head_size - step : steps, step > 0},
               block.rows - row, vectors - v < together ? vectors - v : together);
    }
  }
}

// out (rows, width) of a block: weights (rows, keys) x, where x (keys, width), whose rows lie x_stride apart.
inline void multiply_over_keys(float* out, const Packing& to, const float* weights, const float* x,
                               std::int64_t x_stride, const QueryBlock& block) {
  const std::int64_t keys = block.keys(block.rows - 1), steps = divided(keys, kMostKeySteps);
  for (std::int64_t step = 0; step < keys; step += steps) {
    multiply({out, to.width, weights, to.key_stride, 1, x, x_stride, 0, step > 0}, block.rows, to.width_vectors,
             [&](std::int64_t, std::int64_t end) {
               const std::int64_t seen = block.keys(end - 1), last = seen < step + steps ? seen : step + steps;
               return Steps{step, last > step ? last : step};
             });
  }
}

template <typename Arguments>
inline void add_bias(float* scores, const Arguments& a, const QueryBlock& block, std::int64_t r) {
  if (a.bias != nullptr)
    add_to_row(scores, a.bias + block.first_key - (a.query_position + block.first + r), block.keys(r));
}

// logsumexp of rows, from the largest scores and the sums over all keys, and the factors that make outputs of sums.
inline void finish_softmax(const AttentionForward& a, std::int64_t first, std::int64_t rows, const float* top,
                           const float* sum, float* factors) {
  const f32x16 factor = set(a.dropout.threshold != 0 ? a.dropout.scale : 1.0f);
  for_lanes(
      rows, [&](auto lanes, std::int64_t r) __attribute__((always_inline)) {
        const f32x16 all = load(sum + r, lanes, 1.0f);
        store(a.logsumexp + first + r, lanes, load(top + r, lanes) + log(all));
        store(factors + r, lanes, factor / all);
      });
}

// Zeros behind the keys that the row sees, for products of several rows.
inline void clear_unseen(float* row, const QueryBlock& block, std::int64_t r) {
  const std::int64_t keys = block.keys(r);
  fill_row(row + keys, block.keys(block.rows - 1) - keys, 0.0f);
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
