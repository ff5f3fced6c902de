// SPDX-License-Identifier: Apache-2.0
// Softmax attention of one head of one sample. Padding is never stored, so there is no mask.
//
//   s[q,k] = scale * query[q,:] . key[k,:] + bias[k - position(q)],  position(q) = query_position + q
//   p = softmax_k(s);  out[q,:] = sum_k dropout(p)[q,k] value[k,:]
// Source: Vaswani et al. 2017, eq. 1; BridgeTowerSelfAttention and nn.MultiheadAttention; the bias: T5Attention.
// Probabilities are never stored: backward recomputes them from logsumexp[q] = log sum_k exp(s[q,k]) (Dao et al. 2022,
// section 3.1).
//
// k runs over all keys; where `causal`, over 0 .. position(q): keys that no query sees are not read.
//
// Shapes: query, out (query_rows, head_size); key, value (key_rows, head_size); rows lie `*_stride` elements apart, as
// heads are column slices of wider rows. logsumexp (query_rows), dense. query_rows, key_rows, head_size >= 1.
// query_position >= 0. bias points to its element at distance 0, and has all distances of these queries and keys.
//
// Dropout of p[q,k]: counter of dropout.h with the row key of (sample, query_position + q), or query_keys[q] where
// there are such, column head * 65536 + k.
//
// Numerics: float32, every sum a chain or a tree of fixed order; the maximum is subtracted; the bias is added to the
// finished product. Forward sums over blocks of kAttentionKeyBlock keys, in order: with m the largest score until now
// and m' that with the next block, a sum x becomes e^(m - m') x + the block's own sum (Milakov & Gimelshein 2018,
// algorithm 3; Dao et al. 2022, algorithm 1). Backward has no such blocks. Forward gives a query row the same bits
// alone and among others, and, where `causal`, whatever finite keys and values follow those that it sees; so does
// backward its d_query. Bounds in test_attention.cpp. Aliasing: none.
//
// Scratch: attention_forward_scratch_floats(key_rows, head_size) floats, or those of backward, 64-byte aligned, one a
// thread.
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/elements.h"

namespace bascule {

struct AttentionForward {
  Elements out;
  float* logsumexp;
  ConstElements query, key, value;
  const std::int32_t* key_index;  // (key_rows): the row of key and value that key k is; null: row k
  std::int64_t out_stride, query_stride, key_stride, value_stride;
  std::int64_t query_rows, key_rows, head_size;
  float scale;
  DropoutStream dropout;
  std::uint64_t sample;
  std::int64_t query_position, head;
  const std::uint64_t* query_keys;  // null: query rows have positions of the sample one after another
  const float* bias;                // of this head; null: none
  bool causal;
  float* scratch;
};

// With dp[q,k] = dropout'(d_out[q,:] . value[k,:]) and delta[q] = sum_k p[q,k] dp[q,k]:
//   ds = p (dp - delta);  d_query = scale ds key;  d_key = scale ds^T query;  d_value = dropout(p)^T d_out
// delta could be had from forward's output (d_out . out), but then ds would not sum to zero over the keys as closely,
// and what the keys have in common would show in d_query. For the same reason p is divided by its own sum once more;
// where query or key is bf16 it is softmax(s) of these scores alone, as logsumexp may be that of numbers before they
// were rounded. Overwrites d_query (query_rows, head_size), d_key and d_value (key_rows, head_size): zeros for keys
// that no query sees. d_bias[k - position(q)] += ds[q,k] for q = 0, 1, ... in order; laid out as bias.
struct AttentionBackward {
  Elements d_query, d_key, d_value;
  float* d_bias;  // null: not wanted
  ConstElements d_out;
  const float* logsumexp;
  ConstElements query, key, value;
  std::int64_t d_query_stride, d_key_stride, d_value_stride, d_out_stride;
  std::int64_t query_stride, key_stride, value_stride;
  std::int64_t query_rows, key_rows, head_size;
  float scale;
  DropoutStream dropout;
  std::uint64_t sample;
  std::int64_t query_position, head;
  const std::uint64_t* query_keys;  // null: query rows have positions of the sample one after another
  const float* bias;                // of this head; null: none
  bool causal;
  float* scratch;
};

// Query rows whose scores are held at a time.
constexpr std::int64_t kAttentionQueryBlock = 48;
// Keys in a block of forward's, a multiple of 64.
constexpr std::int64_t kAttentionKeyBlock = 1024;
// Keys whose weights forward keeps in the first-level cache while it multiplies them with values, a multiple of 64.
constexpr std::int64_t kAttentionPieceKeys = 128;
// Query rows for which forward packs a block of keys once. Calls that have so many each pack no more often than one
// call of all rows would, where there are several blocks of keys.
constexpr std::int64_t kAttentionQueryGroup = 1024;

// Enough on every ISA. Forward: 76,000 for 325 keys of 64, 304 KB, and 262,000, 1 MB, for any number beyond
// kAttentionKeyBlock. Backward: 147,000, 588 KB, for 325 keys of 64, and more with every key.
std::int64_t attention_forward_scratch_floats(std::int64_t key_rows, std::int64_t head_size);
std::int64_t attention_backward_scratch_floats(std::int64_t key_rows, std::int64_t head_size);

}  // namespace bascule
