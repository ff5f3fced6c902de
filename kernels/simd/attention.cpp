// SPDX-License-Identifier: Apache-2.0
// Attention of one head of one sample, row by row of queries.
#include <cstdint>

#include "kernels/lanes/lanes_math.h"
#include "kernels/lanes/lanes_philox.h"
#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {
namespace {

inline float dot(const float* a, const float* b, std::int64_t count) {
  f32x16 sum = set(0.0f);
  for_lanes(
      count, [&](auto lanes, std::int64_t c)
                 __attribute__((always_inline)) { sum = fma(load(a + c, lanes), load(b + c, lanes), sum); });
  return horizontal_sum(sum);
}

inline void add_scaled(float* out, const float* x, std::int64_t count, float factor) {
  for_lanes(
      count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
        store(out + c, lanes, fma(load(x + c, lanes), set(factor), load(out + c, lanes)));
      });
}

// x = dropout(x) for the probabilities, or their gradients, of one query row.
template <typename Arguments>
inline void drop_row(float* x, const Arguments& a, std::int64_t q) {
  if (a.dropout.threshold == 0) return;
  const std::uint64_t row_key = (a.sample << 16) | (static_cast<std::uint64_t>(a.query_position + q) & 0xffffu);
  const f32x16 scale = set(a.dropout.scale);
  for (std::int64_t k = 0; k < a.key_rows; k += 64) {
    const KeptColumns kept = kept_columns(a.dropout, row_key, a.head * 1024 + k / 64);
    const std::int64_t count = a.key_rows - k < 64 ? a.key_rows - k : 64;
    for_lanes(
        count, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
          store(x + k + c, lanes, drop(kept.mask[c / 16], load(x + k + c, lanes), scale));
        });
  }
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  float* const p = a.scratch;
  for (std::int64_t q = 0; q < a.query_rows; ++q) {
    for (std::int64_t k = 0; k < a.key_rows; ++k) {
      p[k] = a.scale * dot(a.query + q * a.query_stride, a.key + k * a.key_stride, a.head_size);
    }
    const float top = largest(p, a.key_rows);
    f32x16 sums = set(0.0f);
    for_lanes(
        a.key_rows, [&](auto lanes, std::int64_t k) __attribute__((always_inline)) {
          const f32x16 e = exp(load(p + k, lanes, -__builtin_inff()) - set(top));
          sums = sums + e;
          store(p + k, lanes, e);
        });
    const float sum = horizontal_sum(sums);
    a.logsumexp[q] = top + log_of(sum);
    for_lanes(
        a.key_rows, [&](auto lanes, std::int64_t k)
                        __attribute__((always_inline)) { store(p + k, lanes, load(p + k, lanes) / set(sum)); });
    drop_row(p, a, q);
    float* const out = a.out + q * a.out_stride;
    fill_row(out, a.head_size, 0.0f);
    for (std::int64_t k = 0; k < a.key_rows; ++k) add_scaled(out, a.value + k * a.value_stride, a.head_size, p[k]);
  }
}

void attention_backward(const AttentionBackward& a) {
  float* const p = a.scratch;
  float* const d_p = a.scratch + a.key_rows;
  for (std::int64_t k = 0; k < a.key_rows; ++k) {
    fill_row(a.d_key + k * a.d_key_stride, a.head_size, 0.0f);
    fill_row(a.d_value + k * a.d_value_stride, a.head_size, 0.0f);
  }
  for (std::int64_t q = 0; q < a.query_rows; ++q) {
    const float* const query = a.query + q * a.query_stride;
    const float* const d_out = a.d_out + q * a.d_out_stride;
    const float delta = dot(d_out, a.out + q * a.out_stride, a.head_size);
    for (std::int64_t k = 0; k < a.key_rows; ++k) {
      p[k] = exp_of(a.scale * dot(query, a.key + k * a.key_stride, a.head_size) - a.logsumexp[q]);
      d_p[k] = dot(d_out, a.value + k * a.value_stride, a.head_size);
    }
    drop_row(d_p, a, q);
    float* const d_query = a.d_query + q * a.d_query_stride;
    fill_row(d_query, a.head_size, 0.0f);
    for (std::int64_t k = 0; k < a.key_rows; ++k) {
      const float d_s = a.scale * p[k] * (d_p[k] - delta);
      add_scaled(d_query, a.key + k * a.key_stride, a.head_size, d_s);
      add_scaled(a.d_key + k * a.d_key_stride, query, a.head_size, d_s);
    }
    drop_row(p, a, q);
    for (std::int64_t k = 0; k < a.key_rows; ++k) {
      add_scaled(a.d_value + k * a.d_value_stride, d_out, a.head_size, p[k]);
    }
  }
}

}  // namespace bascule::BASCULE_ISA
