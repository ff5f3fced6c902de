// SPDX-License-Identifier: Apache-2.0
// Attention over blocks of keys, which are packed one after another. Query rows are the lanes: scores lie transposed, a
// row for each key, so that a head of any size fills its registers and a softmax needs no step across lanes. A group of
// query rows keeps its sums from block to block, as a packed block must serve many rows. Where one block has all keys,
// every block of query rows is finished at once.
#include "kernels/attention.h"

#include <cstdint>

#include "kernels/simd/attention_blocks.h"
#include "kernels/simd/attention_over_keys.h"
#include "kernels/simd/column_product.h"
#include "kernels/simd/kernels.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kPieceKeys = kAttentionPieceKeys;
constexpr std::int64_t kCacheLineBytes = 64;
// Query blocks of a group.
constexpr std::int64_t kGroupBlocks = (kAttentionQueryGroup + kQueryBlock - 1) / kQueryBlock;

// For each row of a group, over the keys until now: the largest score, and the sum of e^(score - top).
struct Softmax {
  float top[kGroupBlocks * kQueryBlock], sum[kGroupBlocks * kQueryBlock];
};

// Where things lie in the scratch of a call. A pair of extents is of rows kColumnPitch numbers apart, a triple of
// panels.
struct Places {
  float* keys;     // (panels of keys, head_size, kLanes): scale key
  float* values;   // (panels of the head, keys of a block, kLanes)
  float* scores;   // (keys of a block, queries)
  float* weights;  // (kPieceKeys, queries)
  float* bias;     // of a block of keys and of queries, by distances that fall
  float* query;    // (head_size, queries)
  float* part;     // (width, queries): sums over the keys of a block
  float* rows;     // (kLanes, width): rows before they are transposed
  float* out;      // (width, queries) for each block of a group: sums over the keys until now
  std::int64_t width, block_keys;
};

// Rows of a head lie apart, so the hardware does not see that they come next.
template <bool kAreWritten>
void prefetch_rows(ConstElements x, std::int64_t stride, std::int64_t rows, std::int64_t cols) {
  const std::int64_t bytes = x.is_bf16() ? sizeof(std::uint16_t) : sizeof(float);
  const char* row = static_cast<const char*>(x.data);
  for (std::int64_t r = 0; r < rows; ++r, row += stride * bytes) {
    for (std::int64_t at = 0; at < cols * bytes; at += kCacheLineBytes) __builtin_prefetch(row + at, kAreWritten, 2);
  }
}

// The first of the columns, in whole vectors, that see this key.
std::int64_t first_column(const QueryBlock& block, std::int64_t key) { return block.first_row(key) / kLanes * kLanes; }

// packed[c, r] = factor x[r, c] for sixteen rows r, in rows `pitch` apart.
void pack_lanes(float* packed, std::int64_t pitch, const float* x, std::int64_t stride, std::int64_t cols,
                float factor) {
  std::int64_t c = 0;
  for (; c + 4 <= cols; c += 4) {
    f32x16 columns[4];
    load_four_columns(columns, x + c, stride);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store(packed + (c + j) * pitch, columns[j] * set(factor));
  }
  for (; c < cols; ++c) {
    for (std::int64_t r = 0; r < kLanes; ++r) packed[c * pitch + r] = factor * x[r * stride + c];
  }
}

// Sixteen rows of keys or queries; `rows` holds those that are bf16, or not in order, or fewer.
void pack_lanes(float* packed, std::int64_t pitch, const KeyRows& x, std::int64_t cols, float factor,
                const Places& at) {
  if (!x.x.is_bf16() && x.index == nullptr && x.count == kLanes)
    return pack_lanes(packed, pitch, x.x.float32(), x.stride, cols, factor);
  pack_key_rows(at.rows, at.width, x, cols);
  fill_row(at.rows + x.count * at.width, (kLanes - x.count) * at.width, 0.0f);
  pack_lanes(packed, pitch, at.rows, at.width, cols, factor);
}

void pack(const AttentionForward& a, const KeyBlock& keys, const Places& at) {
  for (std::int64_t first = 0; first < keys.count; first += kLanes) {
    const std::int64_t key = keys.first + first, count = keys.count - first < kLanes ? keys.count - first : kLanes;
    pack_lanes(at.keys + first * a.head_size, kLanes, keys_of(a, a.key, a.key_stride, {key, count}), a.head_size,
               a.scale, at);
  }
  for (std::int64_t k = 0; k < keys.count; ++k) {
    const std::int64_t row = a.key_index == nullptr ? keys.first + k : a.key_index[keys.first + k];
    for_lanes(
        a.head_size, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(at.values + c * at.block_keys + k * kLanes, load(a.value, row * a.value_stride + c, lanes));
        });
  }
}

void pack_query(const AttentionForward& a, const QueryBlock& block, const Places& at) {
  for (std::int64_t r = 0; r < block.rows; r += kLanes) {
    const ConstElements x = a.query + (block.first + r) * a.query_stride;
    pack_lanes(at.query + r, kColumnPitch,
               {x, a.query_stride, nullptr, block.rows - r < kLanes ? block.rows - r : kLanes}, a.head_size, 1.0f, at);
  }
}

// scores (keys from `first` to before `end`, columns of the block)
void multiply_scores(const AttentionForward& a, const QueryBlock& block, std::int64_t first, std::int64_t end,
                     std::int64_t columns, const Places& at) {
  const std::int64_t steps = divided(a.head_size, kMostSteps);
  for (std::int64_t step = 0; step < a.head_size; step += steps) {
    for (std::int64_t key = first; key < end; key += kLanes) {
      add_panel_product(at.scores + key * kColumnPitch, at.keys + key * a.head_size + step * kLanes,
                        at.query + step * kColumnPitch, end - key < kLanes ? end - key : kLanes,
                        a.head_size - step < steps ? a.head_size - step : steps, first_column(block, key), columns,
                        step > 0);
    }
  }
}

// bias[i] is that of distance keys - 1 - i from the first query, so that a key's biases of the queries lie in order.
void reverse_bias(const AttentionForward& a, const QueryBlock& block, std::int64_t keys, float* bias) {
  const float* const last = a.bias + block.first_key + keys - 1 - (a.query_position + block.first);
  for (std::int64_t i = 0; i < keys - 1 + kQueryBlock; ++i) bias[i] = i < keys - 1 + block.rows ? last[-i] : 0.0f;
}
void add_bias_to_columns(float* scores, const float* bias, std::int64_t first, std::int64_t end, std::int64_t keys,
                         std::int64_t columns) {
  for (std::int64_t k = first; k < end; ++k) add_to_row(scores + k * kColumnPitch, bias + keys - 1 - k, columns);
}

// Keys from `first` on that a vector of columns sees: those before `whole` are seen by all of its rows.
struct SeenKeys {
  std::int64_t first, whole, end;
};
SeenKeys keys_of_column(const QueryBlock& block, std::int64_t column, std::int64_t first, std::int64_t end) {
  const std::int64_t all = block.before + column + 1, any = all + kLanes - 1;
  const std::int64_t last = any < end ? any : end;
  return {first, all < last ? (all > first ? all : first) : last, last};
}
// The lanes of a vector of columns that do not see a key.
Mask16 unseen_lanes(const QueryBlock& block, std::int64_t column, std::int64_t key) {
  return first_lanes(block.first_row(key) - column);
}

f32x16 largest_of_columns(const float* scores, const QueryBlock& block, std::int64_t column, const SeenKeys& keys,
                          f32x16 top) {
  const f32x16 lowest = set(-__builtin_inff());
  f32x16 b = lowest, c = lowest, d = lowest;
  std::int64_t k = keys.first;
  for (; k + 4 <= keys.whole; k += 4) {
    const float* const x = scores + k * kColumnPitch + column;
    top = max(top, load(x));
    b = max(b, load(x + kColumnPitch));
    c = max(c, load(x + 2 * kColumnPitch));
    d = max(d, load(x + 3 * kColumnPitch));
  }
  for (; k < keys.whole; ++k) top = max(top, load(scores + k * kColumnPitch + column));
  for (; k < keys.end; ++k)
    top = max(top, select(unseen_lanes(block, column, k), lowest, load(scores + k * kColumnPitch + column)));
  return max(max(top, b), max(c, d));
}

// weights = e^(scores - subtracted) of the keys from `first` to before `end`, added to sums[key % kLanes].
void weigh(const QueryBlock& block, std::int64_t first, std::int64_t end, std::int64_t columns, const float* subtracted,
           float* sums, const Places& at) {
  for (std::int64_t k = first; k < end; ++k) {
    const float* const scores = at.scores + k * kColumnPitch;
    float* const weights = at.weights + (k - first) * kColumnPitch;
    float* const sum = sums + k % kLanes * kColumnPitch;
    const std::int64_t partly = block.first_row(k);
    std::int64_t c = first_column(block, k);
    if (partly > c) {
      // Absent lanes are not those of -infinity: an exp that underflows takes many times as long.
      const Mask16 unseen = first_lanes(partly - c);
      const f32x16 x = select(unseen, set(0.0f), load(scores + c) - load(subtracted + c));
      const f32x16 e = select(unseen, set(0.0f), exp_of_negative(x));
      store(sum + c, load(sum + c) + e);
      store(weights + c, e);
      c += kLanes;
    }
    for (; c < columns; c += kLanes) {
      const f32x16 e = exp_of_negative(load(scores + c) - load(subtracted + c));
      store(sum + c, load(sum + c) + e);
      store(weights + c, e);
    }
  }
}

// Zeros in place of dropped weights of 64 keys or fewer in the columns of a few rows: the random numbers of a row at
// once. weights: those of the first key and row.
void drop_weights_of_few_rows(const AttentionForward& a, std::int64_t query, std::int64_t rows,
                              std::int64_t block_of_64, std::int64_t keys, float* weights) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const KeptColumns kept = kept_columns(a.dropout, query_row_key(a, query + r), block_of_64);
    float is_kept[64];
#pragma GCC unroll 4
    for (std::int64_t part = 0; part < 4; ++part)
      store(is_kept + part * kLanes, select(kept.mask[part], set(1.0f), set(0.0f)));
    for (std::int64_t k = 0; k < keys; ++k) {
      float& weight = weights[k * kColumnPitch + r];
      weight = is_kept[k] != 0.0f ? weight : 0.0f;
    }
  }
}

// Zeros in place of dropped weights of the keys from `first`, a multiple of 64, to before `end`.
void drop_weights(const AttentionForward& a, const QueryBlock& block, std::int64_t first, std::int64_t end,
                  std::int64_t columns, float* weights) {
  constexpr std::int64_t kFewRows = 8;
  std::uint32_t low[kQueryBlock] = {}, high[kQueryBlock] = {};
  for (std::int64_t r = 0; r < block.rows; ++r) {
    const std::uint64_t row_key = query_row_key(a, block.first + r);
    low[r] = row_key_low(row_key);
    high[r] = row_key_high(row_key);
  }
  const f32x16 zero = set(0.0f);
  for (std::int64_t key = first; key < end; key += 64) {
    const std::int64_t block_of_64 = a.head * 1024 + (block.first_key + key) / 64;
    float* const of_keys = weights + (key - first) * kColumnPitch;
    const std::int64_t keys = end - key < 64 ? end - key : 64;
    for (std::int64_t c = first_column(block, key); c < columns; c += kLanes) {
      if (block.rows - c <= kFewRows && block.rows - c <= keys) {
        drop_weights_of_few_rows(a, block.first + c, block.rows - c, block_of_64, keys, of_keys + c);
        continue;
      }
      for (std::int64_t i = 0; i < kLanes && key + i < end; ++i) {
        const KeptColumns kept = kept_of_rows(a.dropout, load_bits(low + c), load_bits(high + c), block_of_64, i);
#pragma GCC unroll 4
        for (std::int64_t part = 0; part < 4; ++part) {
          float* const weight = of_keys + (part * kLanes + i) * kColumnPitch + c;
          store(weight, select(kept.mask[part], load(weight), zero));
        }
      }
    }
  }
}

// out (width, columns) = or += values^T weights over the keys from `first` to before `end`.
void add_values(const AttentionForward& a, const QueryBlock& block, std::int64_t first, std::int64_t end,
                std::int64_t columns, const Places& at, float* out, bool accumulate) {
  for (std::int64_t c = 0; c < a.head_size; c += kLanes) {
    const std::int64_t rows = a.head_size - c < kLanes ? a.head_size - c : kLanes;
    for (std::int64_t key = first; key < end;) {
      const std::int64_t column = first_column(block, key), seen = block.before + column + kLanes;
      const std::int64_t last = seen < end && column + kLanes < columns ? seen : end;
      add_panel_product(out + c * kColumnPitch, at.values + c * at.block_keys + key * kLanes,
                        at.weights + (key - first) * kColumnPitch, rows, last - key, column, columns, accumulate);
      key = last;
    }
  }
}

// Adds a block of keys to the sums of a block of query rows, whose top and sum are these.
void attend(const AttentionForward& a, const QueryBlock& block, const Places& at, float* out, float* top, float* sum) {
  const std::int64_t keys = block.keys(block.rows - 1), columns = whole_vectors(block.rows);
  const bool is_first = block.first_key == 0;
  const f32x16 lowest = set(-__builtin_inff());
  f32x16 own[kQueryBlock / kLanes] = {lowest, lowest, lowest};
  pack_query(a, block, at);
  const std::int64_t next = block.first + block.rows;
  prefetch_rows<false>(a.query + next * a.query_stride, a.query_stride,
                       next + kQueryBlock < a.query_rows ? kQueryBlock : a.query_rows - next, a.head_size);
  if (a.bias != nullptr) reverse_bias(a, block, keys, at.bias);
  for (std::int64_t first = 0; first < keys; first += kPieceKeys) {
    const std::int64_t end = first + kPieceKeys < keys ? first + kPieceKeys : keys;
    multiply_scores(a, block, first, end, columns, at);
    if (a.bias != nullptr) add_bias_to_columns(at.scores, at.bias, first, end, keys, columns);
    for (std::int64_t c = first_column(block, first); c < columns; c += kLanes)
      own[c / kLanes] = largest_of_columns(at.scores, block, c, keys_of_column(block, c, first, end), own[c / kLanes]);
  }
  float factors[kQueryBlock], subtracted[kQueryBlock];
  for (std::int64_t c = 0; c < columns; c += kLanes) {
    const f32x16 before = is_first ? lowest : load(top + c),
                 now = select(less(before, own[c / kLanes]), own[c / kLanes], before);
    // Not of scores that are all -infinity, which later keys may outdo.
    const f32x16 from = select(less(lowest, now), now, set(0.0f));
    store(top + c, now);
    store(subtracted + c, from);
    store(factors + c, exp(before - from));
  }
  prefetch_rows<true>(a.out + block.first * a.out_stride, a.out_stride, block.rows, a.head_size);
  float* const part = is_first ? out : at.part;
  float sums[kLanes * kColumnPitch];
  fill_row(sums, kLanes * kColumnPitch, 0.0f);
  if (a.causal) fill_row(part, at.width * kColumnPitch, 0.0f);  // not every row sees the first key
  for (std::int64_t first = 0; first < keys; first += kPieceKeys) {
    const std::int64_t end = first + kPieceKeys < keys ? first + kPieceKeys : keys;
    weigh(block, first, end, columns, subtracted, sums, at);
    if (a.dropout.threshold != 0) drop_weights(a, block, first, end, columns, at.weights);
    add_values(a, block, first, end, columns, at, part, first > 0 || a.causal);
  }
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {  // the tree of lanes.h
    for (std::int64_t i = 0; i < half; ++i)
      add_to_row(sums + i * kColumnPitch, sums + (i + half) * kColumnPitch, columns);
  }
  for (std::int64_t c = 0; c < columns; c += kLanes)
    store(sum + c, is_first ? load(sums + c) : load(sum + c) * load(factors + c) + load(sums + c));
  for (std::int64_t i = 0; !is_first && i < a.head_size; ++i) {
    float* const row = out + i * kColumnPitch;
    for (std::int64_t c = 0; c < columns; c += kLanes)
      store(row + c, fma(load(factors + c), load(row + c), load(part + i * kColumnPitch + c)));
  }
}

// out and logsumexp of a block of query rows, from its sums.
void finish(const AttentionForward& a, const QueryBlock& block, const float* out, const float* top, const float* sum) {
  const std::int64_t first = block.first, rows = block.rows;
  float factors[kQueryBlock];
  finish_softmax(a, first, rows, top, sum, factors);
  const f32x16 zero = set(added_zero(a.causal));
  for (std::int64_t r = 0; r < rows; r += 4) {
    for_lanes(
        a.head_size, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          f32x16 four[4];
          load_four_columns(four, out + c * kColumnPitch + r, kColumnPitch);
#pragma GCC unroll 4
          for (int j = 0; j < 4; ++j) {
            if (r + j < rows)
              store(a.out, (first + r + j) * a.out_stride + c, lanes, fma(four[j], set(factors[r + j]), zero));
          }
        });
  }
}

// The size of the next block of the rows that are left. Four vectors of rows are two blocks of two.
std::int64_t block_rows(std::int64_t left) {
  return left > 4 * kLanes ? kQueryBlock : left > kQueryBlock ? 2 * kLanes : left;
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  if (has_lanes_over_keys(a)) return attend_over_keys(a);
  const std::int64_t key_rows = seen_keys(a);
  const bool is_one_block = key_rows <= kAttentionKeyBlock;
  const std::int64_t block_keys = is_one_block ? key_rows : kAttentionKeyBlock;
  const std::int64_t group_rows = is_one_block ? a.query_rows : kAttentionQueryGroup;
  const std::int64_t whole_keys = whole_vectors(block_keys);
  Places at{};
  at.block_keys = block_keys;
  at.width = whole_vectors(a.head_size);
  at.keys = a.scratch;
  at.values = at.keys + whole_keys * a.head_size;
  at.scores = at.values + at.width * block_keys;
  at.weights = at.scores + whole_keys * kColumnPitch;
  at.bias = at.weights + kPieceKeys * kColumnPitch;
  at.query = at.bias + whole_keys + kQueryBlock;
  at.part = at.query + a.head_size * kColumnPitch;
  at.rows = at.part + at.width * kColumnPitch;
  at.out = at.rows + at.width * kLanes;
  std::int64_t packed = -1;  // the first key of those that are packed
  Softmax softmax;
  for (std::int64_t group = 0; group < a.query_rows; group += group_rows) {
    const std::int64_t end = group + group_rows < a.query_rows ? group + group_rows : a.query_rows;
    for (std::int64_t key = 0; key < key_rows; key += block_keys) {
      const KeyBlock keys{key, key_rows - key < block_keys ? key_rows - key : block_keys};
      std::int64_t i = 0;  // the number of the block of query rows whose sums are kept
      for (std::int64_t first = group; first < end; first += block_rows(end - first)) {
        const QueryBlock block = query_block(a, first, first + block_rows(end - first), keys);
        float* const out = at.out + i * at.width * kColumnPitch;
        float *const top = softmax.top + i * kQueryBlock, *const sum = softmax.sum + i * kQueryBlock;
        if (block.keys(block.rows - 1) > 0) {
          if (packed != key) pack(a, keys, at);
          packed = key;
          attend(a, block, at, out, top, sum);
        }
        if (key + keys.count == key_rows) finish(a, block, out, top, sum);
        if (!is_one_block) ++i;
      }
    }
  }
}

}  // namespace bascule::BASCULE_ISA
