// SPDX-License-Identifier: Apache-2.0
// Attention over blocks of keys, which are packed one after another. A group of query rows keeps its sums from block to
// block, as a packed block must serve many rows. Where one block has all keys, every block of query rows is finished at
// once.
#include "kernels/attention.h"

#include <cstdint>

#include "kernels/simd/attention_blocks.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/streamed_product.h"

namespace bascule::BASCULE_ISA {
namespace {

// For each row of a group, over the keys until now: the largest score, and the sum of e^(score - top).
struct Softmax {
  float top[kAttentionQueryGroup], sum[kAttentionQueryGroup];
};

// scores[k] = dropped e^(scores[k] - top), without the factors of softmax and dropout, where `top` is the largest score
// of these keys and of those before. Returns the factor that gives sums over the keys before that same top.
template <bool kDrops>
float softmax_row(float* scores, std::int64_t next, std::int64_t first_key, std::int64_t keys,
                  const AttentionForward& a, std::int64_t query, float* top, float* sum) {
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
        __builtin_prefetch(scores + next + k);
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

// Few queries take the time of reading keys and values, so they are multiplied where they lie. A scale would have
// to be multiplied into the keys first, and wide heads would be summed in chunks.
bool has_few_queries(const AttentionForward& a) {
  return a.query_rows <= kMostStreamedRows && a.scale == 1.0f && a.key_index == nullptr && a.head_size % kLanes == 0 &&
         a.head_size <= kGemmChunk && !a.query.is_bf16() && !a.key.is_bf16() && !a.value.is_bf16();
}

// The same scores as multiply_scores() for all keys of the block. `packed` has room for the queries, and for the last
// keys, which fill no vector.
void stream_scores(float* scores, const Packing& to, const AttentionForward& a, const KeyBlock& keys, float* packed) {
  const ConstElements key = a.key + keys.first * a.key_stride;
  const std::int64_t whole = keys.count / kLanes * kLanes, left = keys.count - whole;
  multiply_streamed_columns({GemmKind::kForward, scores, a.query, key, nullptr, a.query_stride, a.key_stride,
                             to.key_stride, a.query_rows, whole, a.head_size, false, nullptr},
                            packed);
  if (left == 0) return;
  pack_transposed(packed, kLanes, key.float32() + whole * a.key_stride, a.key_stride, left, a.head_size);
  multiply({scores + whole, to.key_stride, a.query.float32(), a.query_stride, 1, packed, kLanes, a.head_size, false},
           a.query_rows, 1);
}

// Where things lie in the scratch of a call.
struct Places {
  float *keys, *values;  // (head_size, key_stride): scale key^T; (keys of a block, width)
  float* scores;         // (kQueryBlock, key_stride)
  float* query;          // (kQueryBlock, width), of a query in bf16
  float* part;           // (kQueryBlock, width): sums over the keys of a block
  float* out;            // (rows of a group, width): sums over the keys until now
};

void pack(const AttentionForward& a, const KeyBlock& keys, const Packing& to, const Places& at) {
  const auto rows = [&](ConstElements x, std::int64_t stride) {
    return a.key_index == nullptr ? KeyRows{x + keys.first * stride, stride, nullptr, keys.count}
                                  : KeyRows{x, stride, a.key_index + keys.first, keys.count};
  };
  pack_keys(at.keys, to, rows(a.key, a.key_stride), a.head_size, a.scale, at.values);
  pack_key_rows(at.values, to.value_stride, rows(a.value, a.value_stride), a.head_size);
}

// Adds a block of keys to the sums of a block of query rows, whose first one is row `row` of the group.
void attend(const AttentionForward& a, const QueryBlock& block, const Packing& to, const Places& at, bool streams,
            std::int64_t row, Softmax* softmax) {
  const ConstElements query = a.query + block.first * a.query_stride;
  if (streams) {
    stream_scores(at.scores, to, a, {block.first_key, block.all}, at.keys);
  } else if (query.is_bf16()) {
    pack_rows(at.query, to.width, query, a.query_stride, block.rows, a.head_size);
    multiply_scores(at.scores, to, at.query, to.width, at.keys, a.head_size, block);
  } else {
    multiply_scores(at.scores, to, query.float32(), a.query_stride, at.keys, a.head_size, block);
  }
  float factors[kQueryBlock];
  for (std::int64_t r = 0; r < block.rows; ++r) {
    float* const scores = at.scores + r * to.key_stride;
    add_bias(scores, a, block, r);
    if (block.keys(r) > 0) {
      factors[r] = (a.dropout.threshold != 0 ? softmax_row<true>
                                             : softmax_row<false>)(scores, to.key_stride, block.first_key,
                                                                   block.keys(r), a, block.first + r,
                                                                   softmax->top + row + r, softmax->sum + row + r);
    }
    clear_unseen(scores, block, r);
  }
  float* const out = at.out + row * to.width;
  const bool is_first = block.first_key == 0;
  multiply_over_keys(is_first ? out : at.part, to, at.scores,
                     streams ? a.value.float32() + block.first_key * a.value_stride : at.values,
                     streams ? a.value_stride : to.value_stride, block);
  for (std::int64_t r = 0; !is_first && r < block.rows; ++r) {
    if (block.keys(r) > 0) scale_and_add_to_row(out + r * to.width, factors[r], at.part + r * to.width, to.width);
  }
}

// out and logsumexp of `rows` rows of a group from query row `first` on. Overwrites the sums.
void finish(const AttentionForward& a, std::int64_t first, std::int64_t rows, const Packing& to, const float* out,
            Softmax* softmax) {
  const f32x16 factor = set(a.dropout.threshold != 0 ? a.dropout.scale : 1.0f);
  for_lanes(
      rows, [&](auto lanes, std::int64_t r) __attribute__((always_inline)) {
        const f32x16 sum = load(softmax->sum + r, lanes, 1.0f);
        store(a.logsumexp + first + r, lanes, load(softmax->top + r, lanes) + log(sum));
        store(softmax->sum + r, lanes, factor / sum);
      });
  for (std::int64_t r = 0; r < rows; ++r) {
    unpack_row(a.out + (first + r) * a.out_stride, out + r * to.width, a.head_size, softmax->sum[r],
               added_zero(a.causal));
  }
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  const std::int64_t key_rows = seen_keys(a);
  const bool is_one_block = key_rows <= kAttentionKeyBlock;
  const std::int64_t block_keys = is_one_block ? key_rows : kAttentionKeyBlock;
  const std::int64_t group_rows = is_one_block ? kQueryBlock : kAttentionQueryGroup;
  const Packing to = packing(block_keys, a.head_size);
  Places at{};
  at.keys = a.scratch;
  at.values = at.keys + a.head_size * to.key_stride;
  at.scores = at.values + block_keys * to.value_stride;
  at.query = at.scores + kQueryBlock * to.key_stride;
  at.part = at.query + kQueryBlock * to.width;
  at.out = at.part + kQueryBlock * to.width;
  const bool streams = has_few_queries(a);
  std::int64_t packed = -1;  // the first key of those that are packed
  Softmax softmax;
  for (std::int64_t group = 0; group < a.query_rows; group += group_rows) {
    const std::int64_t end = group + group_rows < a.query_rows ? group + group_rows : a.query_rows;
    for (std::int64_t key = 0; key < key_rows; key += block_keys) {
      const KeyBlock keys{key, key_rows - key < block_keys ? key_rows - key : block_keys};
      for (std::int64_t first = group; first < end; first += kQueryBlock) {
        const QueryBlock block = query_block(a, first, end, keys);
        if (block.keys(block.rows - 1) == 0) continue;
        if (!streams && packed != key) pack(a, keys, to, at);
        packed = key;
        attend(a, block, to, at, streams, first - group, &softmax);
      }
    }
    finish(a, group, end - group, to, at.out, &softmax);
  }
}

}  // namespace bascule::BASCULE_ISA
