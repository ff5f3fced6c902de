// SPDX-License-Identifier: Apache-2.0
// ColumnVectors of bf16 numbers: pairs of them in the bits of a lane, the even number in the lower half, and numbers of
// float32 that are rounded.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

// load_four_columns() of float32 numbers, and of pairs: lane i of out[j] is pair j of row i. The stride counts numbers.
inline void load_four_words(ColumnVector (&out)[4], const float* x, std::int64_t stride) {
  load_four_columns(out, x, stride);
}

#if defined(BASCULE_SCALAR_LANES) || !defined(__AVX2__)

inline ColumnVector even_numbers(ColumnVector pairs) {
  return each_lane<ColumnVector>([&](int i) { return from_bits(bits_of(pairs.lane[i]) << 16); });
}
inline ColumnVector odd_numbers(ColumnVector pairs) {
  return each_lane<ColumnVector>([&](int i) { return from_bits(bits_of(pairs.lane[i]) & 0xffff0000u); });
}
inline void load_four_words(ColumnVector (&out)[4], const std::uint16_t* x, std::int64_t stride) {
  for (int i = 0; i < 16; ++i) {
    float words[4];
    __builtin_memcpy(words, x + i * stride, sizeof words);
    for (int j = 0; j < 4; ++j) out[j].lane[i] = words[j];
  }
}

#else

inline __m128 load_eight_numbers(const std::uint16_t* p) {
  return _mm_castsi128_ps(_mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p))));
}

#if defined(__AVX512F__)

inline ColumnVector even_numbers(ColumnVector pairs) {
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kEvery16, _mm512_castps_si512(pairs.lanes), 16))};
}
inline ColumnVector odd_numbers(ColumnVector pairs) {
  return {_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(pairs.lanes), _mm512_set1_epi32(-0x10000)))};
}

#else

inline ColumnVector even_numbers(ColumnVector pairs) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs.lanes), 16))};
}
inline ColumnVector odd_numbers(ColumnVector pairs) {
  return {_mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(pairs.lanes), _mm256_set1_epi32(-0x10000)))};
}
inline ColumnVector round_to_bf16(ColumnVector x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(x.lanes), 16))};
}
inline void store_bf16(std::uint16_t* p, ColumnVector x) {
  const __m256i bits = bf16_bits(x.lanes);
  _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(p)),
                   _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1)));
}

#endif

inline void load_four_words(ColumnVector (&out)[4], const std::uint16_t* x, std::int64_t stride) {
  load_four_columns_by(out, [&](std::int64_t i) { return load_eight_numbers(x + i * stride); });
}

#endif

inline void store_columns(Elements out, ColumnVector x) {
  out.is_bf16() ? store_bf16(out.bf16(), x) : store(out.float32(), x);
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
