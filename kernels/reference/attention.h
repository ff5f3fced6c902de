// SPDX-License-Identifier: Apache-2.0
// Reference for attention.h. See dropout.h on references.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention.h"
#include "kernels/reference/dropout.h"

namespace bascule::reference {

template <typename T>
T dot(const T* a, const T* b, std::int64_t count) {
  T sum(0);
  for (std::int64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

// dropout(x) for the probability of query row q and key row k, or for its gradient.
template <typename T, typename Arguments>
T attention_dropout(T x, const Arguments& a, std::int64_t q, std::int64_t k) {
  const auto position = static_cast<std::uint64_t>(a.query_position + q);
  const std::uint64_t row_key = a.query_keys != nullptr ? a.query_keys[q] : dropout_row_key(a.sample, position);
  return dropout(x, a.dropout, row_key, a.head * 65536 + k);
}

// Keys that query row q sees.
template <typename Arguments>
std::int64_t attention_keys(const Arguments& a, std::int64_t q) {
  return a.causal ? std::min(a.key_rows, a.query_position + q + 1) : a.key_rows;
}

// The bias, which is that of the arguments in numbers of another type: at distance 0; null: none.
template <typename T, typename Arguments>
T attention_score(const T* query, const T* key, const T* bias, const Arguments& a, std::int64_t q, std::int64_t k) {
  const T score =
      T(static_cast<double>(a.scale)) * dot(query + q * a.query_stride, key + k * a.key_stride, a.head_size);
  return bias == nullptr ? score : score + bias[k - (a.query_position + q)];
}

template <typename T>
void attention_forward(T* out, T* logsumexp, const T* query, const T* key, const T* value, const T* bias,
                       const AttentionForward& a) {
  using std::exp;
  using std::log;
  for (std::int64_t q = 0; q < a.query_rows; ++q) {
    const std::int64_t keys = attention_keys(a, q);
    std::vector<T> p(static_cast<std::size_t>(keys));
    for (std::int64_t k = 0; k < keys; ++k) p[static_cast<std::size_t>(k)] = attention_score(query, key, bias, a, q, k);
    T top = p[0];
    for (const T& s : p) top = top < s ? s : top;
    T sum(0);
    for (T& s : p) sum += s = exp(s - top);
    logsumexp[q] = top + log(sum);
    T* const row = out + q * a.out_stride;
    for (std::int64_t c = 0; c < a.head_size; ++c) row[c] = T(0);
    for (std::int64_t k = 0; k < keys; ++k) {
      const T dropped = attention_dropout(p[static_cast<std::size_t>(k)] / sum, a, q, k);
      for (std::int64_t c = 0; c < a.head_size; ++c) row[c] += dropped * value[k * a.value_stride + c];
    }
  }
}

// d_bias, at distance 0, is added to; null: not wanted.
template <typename T>
void attention_backward(T* d_query, T* d_key, T* d_value, T* d_bias, const T* d_out, const T* logsumexp, const T* query,
                        const T* key, const T* value, const T* bias, const AttentionBackward& a) {
  using std::exp;
  for (std::int64_t k = 0; k < a.key_rows; ++k) {
    for (std::int64_t c = 0; c < a.head_size; ++c) {
      d_key[k * a.d_key_stride + c] = d_value[k * a.d_value_stride + c] = T(0);
    }
  }
  for (std::int64_t q = 0; q < a.query_rows; ++q) {
    const std::int64_t keys = attention_keys(a, q);
    std::vector<T> p(static_cast<std::size_t>(keys)), d_p(p);
    const T* const query_row = query + q * a.query_stride;
    const T* const d_out_row = d_out + q * a.d_out_stride;
    T* const d_query_row = d_query + q * a.d_query_stride;
    for (std::int64_t c = 0; c < a.head_size; ++c) d_query_row[c] = T(0);
    T sum(0), delta(0);
    for (std::int64_t k = 0; k < keys; ++k) {
      const auto i = static_cast<std::size_t>(k);
      p[i] = exp(attention_score(query, key, bias, a, q, k) - logsumexp[q]);
      d_p[i] = attention_dropout(dot(d_out_row, value + k * a.value_stride, a.head_size), a, q, k);
      sum += p[i];
      delta += p[i] * d_p[i];
    }
    delta = delta / sum;
    for (std::int64_t k = 0; k < keys; ++k) {
      const auto i = static_cast<std::size_t>(k);
      p[i] = p[i] / sum;
      const T* const key_row = key + k * a.key_stride;
      const T d_score = p[i] * (d_p[i] - delta);
      if (d_bias != nullptr) d_bias[k - (a.query_position + q)] += d_score;
      const T d_s = T(static_cast<double>(a.scale)) * d_score;
      const T dropped = attention_dropout(p[i], a, q, k);
      for (std::int64_t c = 0; c < a.head_size; ++c) {
        d_query_row[c] += d_s * key_row[c];
        d_key[k * a.d_key_stride + c] += d_s * query_row[c];
        d_value[k * a.d_value_stride + c] += dropped * d_out_row[c];
      }
    }
  }
}

}  // namespace bascule::reference
