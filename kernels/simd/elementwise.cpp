// SPDX-License-Identifier: Apache-2.0
// Filling, adding, copying, sums down columns, blending.
#include <cstdint>

#include "kernels/simd/kernels.h"
#include "kernels/simd/rows.h"

namespace bascule::BASCULE_ISA {

void fill(const Fill& a) { fill_row(a.x, a.count, a.value); }

void add(const Add& a) {
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        store(a.out + i, lanes, load(a.a + i, lanes) + load(a.b + i, lanes));
      });
}

void copy_rows(const CopyRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.accumulate) {
      add_to_row(a.out + r * a.out_stride, a.x + r * a.x_stride, a.cols);
    } else {
      copy_row(a.out + r * a.out_stride, a.x + r * a.x_stride, a.cols);
    }
  }
}

void column_sums(const ColumnSums& a) {
  fill_row(a.part, a.cols, 0.0f);
  add_rows_in_order(a.part, a.x, a.rows, a.cols, a.stride);
}

void add_parts(const AddParts& a) {
  if (!a.accumulate) fill_row(a.out, a.cols, 0.0f);
  add_rows_in_order(a.out, a.parts, a.count, a.cols, a.stride);
}

// Four cache lines at a time: so many loads of one term are under way at once. All terms of an element are read before
// it is written, so that `out` may be one of them.
void sum_terms(const SumTerms& a) {
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= a.count; i += 4 * kLanes) {
    const float* term = a.terms[0] + i;
    f32x16 s0 = load(term), s1 = load(term + kLanes), s2 = load(term + 2 * kLanes), s3 = load(term + 3 * kLanes);
    for (std::int64_t t = 1; t < a.term_count; ++t) {
      term = a.terms[t] + i;
      s0 = s0 + load(term);
      s1 = s1 + load(term + kLanes);
      s2 = s2 + load(term + 2 * kLanes);
      s3 = s3 + load(term + 3 * kLanes);
    }
    store(a.out + i, s0);
    store(a.out + i + kLanes, s1);
    store(a.out + i + 2 * kLanes, s2);
    store(a.out + i + 3 * kLanes, s3);
  }
  for_lanes(
      a.count - i, [&](auto lanes, std::int64_t rest) __attribute__((always_inline)) {
        f32x16 sum = load(a.terms[0] + i + rest, lanes);
        for (std::int64_t t = 1; t < a.term_count; ++t) sum = sum + load(a.terms[t] + i + rest, lanes);
        store(a.out + i + rest, lanes, sum);
      });
}

void blend_forward(const BlendForward& a) {
  const f32x16 weight_a = set(a.weight_a);
  const f32x16 weight_c = set(a.weight_c);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        store(a.out + i, lanes, fma(load(a.a + i, lanes), weight_a, load(a.c + i, lanes) * weight_c));
      });
}

namespace {

// out (+)= d * weight
template <typename Lanes>
inline void blend_gradient(float* out, Lanes lanes, f32x16 d, float weight, bool accumulate) {
  store(out, lanes, accumulate ? fma(d, set(weight), load(out, lanes)) : d * set(weight));
}

}  // namespace

// The dots run over a whole tensor: in float32 their error would grow with its size, and float64 lanes cost nothing
// here.
void blend_backward(const BlendBackward& a) {
  f64x16 dot_a = set_f64(0.0);
  f64x16 dot_c = set_f64(0.0);
  for_lanes(
      a.count, [&](auto lanes, std::int64_t i) __attribute__((always_inline)) {
        const f32x16 d = load(a.d_out + i, lanes);
        if (a.dot_a != nullptr) dot_a = fma(to_f64(d), to_f64(load(a.a + i, lanes)), dot_a);
        if (a.dot_c != nullptr) dot_c = fma(to_f64(d), to_f64(load(a.c + i, lanes)), dot_c);
        if (a.d_a != nullptr) blend_gradient(a.d_a + i, lanes, d, a.weight_a, a.accumulate_a);
        if (a.d_c != nullptr) blend_gradient(a.d_c + i, lanes, d, a.weight_c, a.accumulate_c);
      });
  if (a.dot_a != nullptr) *a.dot_a = static_cast<float>(horizontal_sum(dot_a));
  if (a.dot_c != nullptr) *a.dot_c = static_cast<float>(horizontal_sum(dot_c));
}

}  // namespace bascule::BASCULE_ISA
