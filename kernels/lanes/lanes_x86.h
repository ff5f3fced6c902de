// SPDX-License-Identifier: Apache-2.0
// Shared by the lanes of AVX2 and of AVX-512: single numbers, the tree of a reduction, whose upper half is in 256-bit
// registers on both, and the transposition of an 8 x 8 block. lanes.h includes it after either.
#pragma once

#include <immintrin.h>

#include <cstdint>

#if defined(__AVX512F__)
#include "kernels/lanes/lanes_avx512.h"
#else
#include "kernels/lanes/lanes_avx2.h"
#endif

namespace bascule::BASCULE_ISA {
namespace {

inline float first_lane(f32x16 x) { return _mm256_cvtss_f32(low_half(x)); }
inline float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }

// The one tree of lanes.h.
inline float horizontal_sum(f32x16 x) {
  const __m256 eight = _mm256_add_ps(low_half(x), high_half(x));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float horizontal_max(f32x16 x) {
  const __m256 eight = _mm256_max_ps(low_half(x), high_half(x));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline double horizontal_sum(f64x16 x) {
  const __m256d four = quarter_sum(x);
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

// out[j,i] = factor x[i,j] for i, j below 8. Not scaled: the bits of x, whatever they stand for.
template <bool kScaled>
inline void transpose_eight(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride, float factor) {
  const __m256 factors = _mm256_set1_ps(factor);
  __m256 row[8];
  __m256 pair[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    row[i] = _mm256_loadu_ps(x + i * x_stride);
    if (kScaled) row[i] = _mm256_mul_ps(row[i], factors);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    row[i] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    row[i + 1] = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
    row[i + 2] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0x44);
    row[i + 3] = _mm256_shuffle_ps(pair[i + 1], pair[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(out + i * out_stride, _mm256_permute2f128_ps(row[i], row[i + 4], 0x20));
    _mm256_storeu_ps(out + (i + 4) * out_stride, _mm256_permute2f128_ps(row[i], row[i + 4], 0x31));
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
