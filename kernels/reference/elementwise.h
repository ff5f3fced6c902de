// SPDX-License-Identifier: Apache-2.0
// Reference for elementwise.h and sampling.h. See dropout.h on references.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/sampling.h"

namespace bascule::reference {

template <typename T>
void copy_rows(T* out, const T* x, const CopyRows& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) {
      T& element = out[r * a.out_stride + c];
      element = a.accumulate ? element + x[r * a.x_stride + c] : x[r * a.x_stride + c];
    }
  }
}

// sum + x[0] + x[stride] + ...: four rows are added to each other before they are added to the sum.
template <typename T>
T sum_of_rows(T sum, const T* x, std::int64_t rows, std::int64_t stride) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T* const x0 = x + r * stride;
    sum += (x0[0] + x0[stride]) + (x0[2 * stride] + x0[3 * stride]);
  }
  for (; r < rows; ++r) sum += x[r * stride];
  return sum;
}

template <typename T>
void column_sums(T* part, const T* x, const ColumnSums& a) {
  for (std::int64_t c = 0; c < a.cols; ++c) part[c] = sum_of_rows(T(0), x + c, a.rows, a.stride);
}

template <typename T>
void add_parts(T* out, const T* parts, const AddParts& a) {
  for (std::int64_t c = 0; c < a.cols; ++c) {
    out[c] = sum_of_rows(a.accumulate ? out[c] : T(0), parts + c, a.count, a.stride);
  }
}

// Element i of terms [begin, end).
template <typename T>
T sum_of_terms(const T* const* terms, std::int64_t begin, std::int64_t end, std::int64_t i) {
  if (end - begin == 1) return terms[begin][i];
  std::int64_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return sum_of_terms(terms, begin, begin + left, i) + sum_of_terms(terms, begin + left, end, i);
}

template <typename T>
void sum_terms(T* out, const T* const* terms, const SumTerms& a) {
  for (std::int64_t i = 0; i < a.count; ++i) out[i] = sum_of_terms(terms, 0, a.term_count, i);
}

// The two weights are numbers of the model (scaled_factor, beta), so they are of type T as well.
template <typename T>
void blend_forward(T* out, const T* a, const T* c, T weight_a, T weight_c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = a[i] * weight_a + c[i] * weight_c;
}

template <typename T>
void blend_backward(T* d_a, T* d_c, T* dot_a, T* dot_c, const T* d_out, const T* a, const T* c,
                    const BlendBackward& args) {
  T sum_a(0);
  T sum_c(0);
  for (std::int64_t i = 0; i < args.count; ++i) {
    const T d = d_out[i];
    sum_a += d * a[i];
    sum_c += d * c[i];
    if (d_a != nullptr) d_a[i] = (args.accumulate_a ? d_a[i] : T(0)) + d * T(static_cast<double>(args.weight_a));
    if (d_c != nullptr) d_c[i] = (args.accumulate_c ? d_c[i] : T(0)) + d * T(static_cast<double>(args.weight_c));
  }
  if (dot_a != nullptr) *dot_a = sum_a;
  if (dot_c != nullptr) *dot_c = sum_c;
}

template <typename T>
void normalize_forward(T* y, T* norm, const T* x, const NormalizeForward& a) {
  using std::sqrt;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T squares(0);
    for (std::int64_t c = 0; c < a.cols; ++c) squares += x[r * a.cols + c] * x[r * a.cols + c];
    norm[r] = squares > T(1e-24) ? sqrt(squares) : T(1e-12);
    for (std::int64_t c = 0; c < a.cols; ++c) y[r * a.cols + c] = x[r * a.cols + c] / norm[r];
  }
}

template <typename T>
void normalize_backward(T* d_x, const T* d_y, const T* y, const T* norm, const NormalizeBackward& a) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T dot(0);
    for (std::int64_t c = 0; c < a.cols; ++c) dot += d_y[r * a.cols + c] * y[r * a.cols + c];
    if (!(norm[r] > T(static_cast<double>(1e-12f)))) dot = T(0);
    for (std::int64_t c = 0; c < a.cols; ++c) {
      const std::int64_t i = r * a.cols + c;
      const T d = (d_y[i] - y[i] * dot) / norm[r];
      d_x[i] = a.accumulate ? d_x[i] + d : d;
    }
  }
}

template <typename T>
T sum_of_squares(const T* x, std::int64_t count) {
  T sum(0);
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}

template <typename T>
void sampling_step(T* slots, const T* output, const T* with_prompt, const T* weights, const SamplingStep& a) {
  for (std::int64_t i = 0; i < a.count; ++i) {
    T e = output[i];
    if (with_prompt != nullptr) e += T(a.guidance) * (with_prompt[i] - output[i]);
    slots[a.output_slot * a.slot_stride + i] = e;
    T sum = T(0);
    for (std::int64_t j = 0; j < a.slot_count; ++j)
      if (weights[j] != T(0)) sum += weights[j] * slots[j * a.slot_stride + i];
    slots[a.next_slot * a.slot_stride + i] = sum;
  }
}

}  // namespace bascule::reference
