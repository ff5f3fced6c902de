// SPDX-License-Identifier: Apache-2.0
// Calls of attention with random inputs, and the bounds of their rounding, derived from the reference's sums.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/dropout.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/kernel_test.h"

namespace bascule::test {

inline constexpr std::int64_t kQueryPosition = 3;

// Extents of one call; slack is what every stride exceeds the head size by.
struct Shape {
  std::int64_t query_rows, key_rows, head_size;
  std::int64_t slack = 0;
  bool drops = false;
  bool biased = false;
  bool causal = false;
  float own_scale = 0.0f;

  std::int64_t stride() const { return head_size + slack; }
  std::int64_t extent(std::int64_t rows) const { return (rows - 1) * stride() + head_size; }
  std::string text() const {
    return std::to_string(query_rows) + " queries, " + std::to_string(key_rows) + " keys of " +
           std::to_string(head_size) + ", slack " + std::to_string(slack) + (drops ? ", dropout" : "") +
           (biased ? ", bias" : "") + (causal ? ", causal" : "") + ", scale " + std::to_string(scale());
  }
  DropoutStream dropout() const {
    if (!drops) return {};
    return {0x40000000u, 4.0f / 3.0f, {17u, 23u}, 5u};  // a quarter is dropped
  }
  float scale() const { return own_scale > 0.0f ? own_scale : 1.0f / std::sqrt(static_cast<float>(head_size)); }
  // Of the bias: how many, and where distance 0 stands.
  std::int64_t distances() const { return kQueryPosition + query_rows - 1 + key_rows; }
  std::int64_t middle() const { return kQueryPosition + query_rows - 1; }
  // Keys that a query sees.
  std::int64_t keys(std::int64_t q) const { return causal ? std::min(key_rows, kQueryPosition + q + 1) : key_rows; }
};

struct Inputs {
  std::vector<float> query, key, value, d_out, logsumexp;
  std::vector<float> bias;  // empty: none
};

// Where distance 0 stands among the values of a bias; null where there are none.
template <typename Number>
Number* at_distance_zero(Number* values, const Shape& s) {
  return s.biased ? values + s.middle() : nullptr;
}

// What the calls of both directions have.
template <typename Arguments>
Arguments call(const Shape& s) {
  Arguments a{};
  a.query_stride = a.key_stride = a.value_stride = s.stride();
  a.query_rows = s.query_rows;
  a.key_rows = s.key_rows;
  a.head_size = s.head_size;
  a.scale = s.scale();
  a.dropout = s.dropout();
  a.sample = 9;
  a.query_position = kQueryPosition;
  a.causal = s.causal;
  a.head = 2;
  return a;
}

inline AttentionForward forward_call(const Shape& s) {
  AttentionForward a = call<AttentionForward>(s);
  a.out_stride = s.stride();
  return a;
}

inline AttentionBackward backward_call(const Shape& s) {
  AttentionBackward a = call<AttentionBackward>(s);
  a.d_query_stride = a.d_key_stride = a.d_value_stride = a.d_out_stride = s.stride();
  return a;
}

// Random inputs; what backward takes from forward is the reference's, rounded to float.
inline Inputs random_inputs(const Shape& s, Seeded& random) {
  Inputs in;
  in.query = normal(random, s.extent(s.query_rows), 1.5);
  in.key = normal(random, s.extent(s.key_rows), 1.5);
  in.value = normal(random, s.extent(s.key_rows));
  in.d_out = normal(random, s.extent(s.query_rows));
  if (s.biased) in.bias = normal(random, s.distances(), 1.5);
  std::vector<double> out = zeros(s.extent(s.query_rows));
  std::vector<double> logsumexp = zeros(s.query_rows);
  reference::attention_forward(out.data(), logsumexp.data(), widened(in.query).data(), widened(in.key).data(),
                               widened(in.value).data(), at_distance_zero(widened(in.bias).data(), s), forward_call(s));
  in.logsumexp.assign(logsumexp.begin(), logsumexp.end());
  return in;
}

// out, then logsumexp; `a` is forward_call() or that with other extents.
inline std::vector<float> run_forward(const KernelTable& kernels, const Inputs& in, const Shape& s, AttentionForward a,
                                      Place place = Place::kBeforeGuard) {
  Floats out((a.query_rows - 1) * s.stride() + s.head_size, place), logsumexp(a.query_rows, place);
  Floats query(in.query, place), key(in.key, place), value(in.value, place), bias(in.bias, place);
  Floats scratch(attention_forward_scratch_floats(a.key_rows, s.head_size));
  a.out = out.data();
  a.logsumexp = logsumexp.data();
  a.query = query.data();
  a.key = key.data();
  a.value = value.data();
  a.bias = at_distance_zero(bias.data(), s);
  a.scratch = scratch.data();
  kernels.attention_forward(a);
  return joined({out.values(), logsumexp.values()});
}

// d_query, d_key, d_value, d_bias, which is added to that of before, or to zeros.
inline std::vector<float> run_backward(const KernelTable& kernels, const Inputs& in, const Shape& s,
                                       AttentionBackward a, Place place = Place::kBeforeGuard,
                                       std::vector<float> d_bias_before = {}) {
  d_bias_before.resize(in.bias.size());
  Floats d_query((a.query_rows - 1) * s.stride() + s.head_size, place), d_key(s.extent(a.key_rows), place),
      d_value(s.extent(a.key_rows), place), d_bias(d_bias_before, place);
  Floats d_out(in.d_out, place), logsumexp(in.logsumexp, place);
  Floats query(in.query, place), key(in.key, place), value(in.value, place), bias(in.bias, place);
  Floats scratch(attention_backward_scratch_floats(a.key_rows, s.head_size));
  a.d_query = d_query.data();
  a.d_key = d_key.data();
  a.d_value = d_value.data();
  a.d_bias = at_distance_zero(d_bias.data(), s);
  a.d_out = d_out.data();
  a.logsumexp = logsumexp.data();
  a.query = query.data();
  a.key = key.data();
  a.value = value.data();
  a.bias = at_distance_zero(bias.data(), s);
  a.scratch = scratch.data();
  kernels.attention_backward(a);
  return joined({d_query.values(), d_key.values(), d_value.values(), d_bias.values()});
}

inline double magnitude(const std::vector<float>& a, std::int64_t row_a, const std::vector<float>& b,
                        std::int64_t row_b, const Shape& s) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < s.head_size; ++c) {
    sum += std::abs(static_cast<double>(a[static_cast<std::size_t>(row_a * s.stride() + c)]) *
                    static_cast<double>(b[static_cast<std::size_t>(row_b * s.stride() + c)]));
  }
  return sum;
}

inline double score(const Inputs& in, std::int64_t q, std::int64_t k, const Shape& s) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < s.head_size; ++c) {
    sum += static_cast<double>(in.query[static_cast<std::size_t>(q * s.stride() + c)]) *
           static_cast<double>(in.key[static_cast<std::size_t>(k * s.stride() + c)]);
  }
  const double product = static_cast<double>(s.scale()) * sum;
  if (!s.biased) return product;
  return product + static_cast<double>(in.bias[static_cast<std::size_t>(s.middle() + k - kQueryPosition - q)]);
}

// The bound of one score's rounding: a chain of D products of q and the rounded scale k, and the addition of the bias.
inline double score_bound(const Inputs& in, std::int64_t q, std::int64_t k, const Shape& s) {
  const double product = static_cast<double>(s.head_size + 1) * kEpsilon * static_cast<double>(s.scale()) *
                         magnitude(in.query, q, in.key, k, s);
  return s.biased ? product + kEpsilon * std::abs(score(in, q, k, s)) : product;
}

inline double dropped(double x, const Shape& s, std::int64_t q, std::int64_t k) {
  return reference::attention_dropout(x, forward_call(s), q, k);
}

inline constexpr double kSecondOrder = 1.01;  // products of two errors: each is below a hundredth of the other

struct ForwardBounds {
  std::vector<double> out, logsumexp;
};

// p[k] = e[k] / sum. e[k] errs relatively by r[k]: its score's error, the rounding of the subtracted maximum, 1 ulp of
// exp. The sum errs by the p-weighted mean of r and its own additions. out is then a chain of K products, and two more
// roundings for the factor. Of several blocks of keys, K is that of one, and each block beyond the first adds to p the
// errors of the factor and of the addition; the subtractions of one maximum after the other err by no more than that of
// the last.
inline ForwardBounds forward_bounds(const Inputs& in, const Shape& s) {
  ForwardBounds bounds{zeros(s.extent(s.query_rows)), zeros(s.query_rows)};
  const auto keys = static_cast<double>(std::min(s.key_rows, kAttentionKeyBlock));
  const auto more_blocks = static_cast<double>((s.key_rows - 1) / kAttentionKeyBlock);
  for (std::int64_t q = 0; q < s.query_rows; ++q) {
    std::vector<double> p;
    std::vector<double> r;
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < s.keys(q); ++k) top = std::max(top, score(in, q, k, s));
    double sum = 0.0;
    for (std::int64_t k = 0; k < s.keys(q); ++k) {
      const double x = score(in, q, k, s);
      p.push_back(std::exp(x - top));
      sum += p.back();
      r.push_back(score_bound(in, q, k, s) + kEpsilon * (top - x) + (2.0 + 4.0 * more_blocks) * kEpsilon);
    }
    double mean = 0.0;
    for (std::size_t k = 0; k < p.size(); ++k) mean += p[k] / sum * r[k];
    const double of_sum = mean + (keys / 16.0 + 5.0) * kEpsilon;
    const double log_sum = std::log(sum);
    bounds.logsumexp[static_cast<std::size_t>(q)] =
        kSecondOrder *
        (of_sum + score_bound(in, q, 0, s) + 2.0 * kEpsilon * log_sum + kEpsilon * std::abs(top + log_sum));
    for (std::int64_t k = 0; k < s.keys(q); ++k) {
      const double probability = dropped(p[static_cast<std::size_t>(k)] / sum, s, q, k);
      for (std::int64_t c = 0; c < s.head_size; ++c) {
        const double v = std::abs(static_cast<double>(in.value[static_cast<std::size_t>(k * s.stride() + c)]));
        bounds.out[static_cast<std::size_t>(q * s.stride() + c)] +=
            kSecondOrder * probability * v * (r[static_cast<std::size_t>(k)] + of_sum + (keys + 2.0) * kEpsilon);
      }
    }
  }
  return bounds;
}

struct Gradients {
  std::vector<double> query, key, value, bias;

  explicit Gradients(const Shape& s)
      : query(zeros(s.extent(s.query_rows))),
        key(zeros(s.extent(s.key_rows))),
        value(zeros(s.extent(s.key_rows))),
        bias(zeros(s.biased ? s.distances() : 0)) {}
};

// The bounds of rounding in one query row's probabilities and in their gradients. logsumexp is an input; p errs
// relatively by r: score, subtraction, exp, then the division by a sum that errs by the p-weighted mean of that and its
// own additions. d_p errs by a chain of D and the factor of dropout, delta by what p and d_p err by and a sum of K.
struct RowBounds {
  std::vector<double> p, r, d_p, d_p_bound;
  double delta = 0.0, delta_bound = 0.0;
};

inline RowBounds row_bounds(const Inputs& in, std::int64_t q, const Shape& s) {
  RowBounds row;
  const auto width = static_cast<double>(s.head_size), keys = static_cast<double>(s.key_rows);
  const double lse = static_cast<double>(in.logsumexp[static_cast<std::size_t>(q)]);
  double mean_r = 0.0;
  for (std::int64_t k = 0; k < s.keys(q); ++k) {
    const double x = score(in, q, k, s);
    row.p.push_back(std::exp(x - lse));
    row.r.push_back(score_bound(in, q, k, s) + kEpsilon * std::abs(x - lse) + 2.0 * kEpsilon);
    mean_r += row.p.back() * row.r.back();
    double d_p = 0.0;
    for (std::int64_t c = 0; c < s.head_size; ++c) {
      d_p += static_cast<double>(in.d_out[static_cast<std::size_t>(q * s.stride() + c)]) *
             static_cast<double>(in.value[static_cast<std::size_t>(k * s.stride() + c)]);
    }
    row.d_p.push_back(dropped(d_p, s, q, k));
    row.d_p_bound.push_back((width + 1.0) * kEpsilon * dropped(magnitude(in.d_out, q, in.value, k, s), s, q, k));
  }
  for (std::size_t k = 0; k < row.p.size(); ++k) {
    row.r[k] += mean_r + (keys + 2.0) * kEpsilon;
    row.delta += row.p[k] * row.d_p[k];
    row.delta_bound += row.p[k] * (row.d_p_bound[k] + std::abs(row.d_p[k]) * (row.r[k] + (keys + 2.0) * kEpsilon));
  }
  return row;
}

// ds = p (d_p - delta) collects them; then chains over keys or queries, and the factor scale.
inline Gradients backward_bounds(const Inputs& in, const Shape& s) {
  Gradients bounds(s);
  const auto at = [&s](std::int64_t row, std::int64_t c) { return static_cast<std::size_t>(row * s.stride() + c); };
  const auto size = [](float x) { return std::abs(static_cast<double>(x)); };
  for (std::int64_t q = 0; q < s.query_rows; ++q) {
    const RowBounds row = row_bounds(in, q, s);
    for (std::int64_t k = 0; k < s.keys(q); ++k) {
      const auto i = static_cast<std::size_t>(k);
      const double p = row.p[i], r = row.r[i];
      const double d_s = p * std::abs(row.d_p[i] - row.delta);
      const double d_s_bound = p * (row.d_p_bound[i] + row.delta_bound) + d_s * (r + 2.0 * kEpsilon);
      const double scale = kSecondOrder * static_cast<double>(s.scale());
      const double over_keys = scale * (d_s_bound + static_cast<double>(s.key_rows + 1) * kEpsilon * d_s);
      const double over_queries = scale * (d_s_bound + static_cast<double>(s.query_rows + 1) * kEpsilon * d_s);
      if (s.biased) {
        bounds.bias[static_cast<std::size_t>(s.middle() + k - kQueryPosition - q)] +=
            kSecondOrder * (d_s_bound + static_cast<double>(s.query_rows) * kEpsilon * d_s);
      }
      const double value_bound =
          kSecondOrder * dropped(p, s, q, k) * (r + static_cast<double>(s.query_rows + 1) * kEpsilon);
      for (std::int64_t c = 0; c < s.head_size; ++c) {
        bounds.query[at(q, c)] += over_keys * size(in.key[at(k, c)]);
        bounds.key[at(k, c)] += over_queries * size(in.query[at(q, c)]);
        bounds.value[at(k, c)] += value_bound * size(in.d_out[at(q, c)]);
      }
    }
  }
  return bounds;
}

}  // namespace bascule::test
