// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes on AVX-512: one register each. The same functions with the same bits as lanes_avx2.h; lanes.h chooses
// and explains.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace bascule::BASCULE_ISA {
namespace {

struct f32x16 {
  __m512 lanes;
};
struct u32x16 {
  __m512i lanes;
};
struct f64x16 {
  __m512d low, high;
};
struct Mask16 {
  __mmask16 lanes;
};

// GCC 12 declares the plain form of many intrinsics with an undefined pass-through operand, and warns of it (its bug
// 105593). With a constant mask of ones the zeroing form compiles to the same instruction.
constexpr __mmask16 kEvery16 = 0xffff;
constexpr __mmask8 kEvery8 = 0xff;

// The first `count` lanes, 0 <= count <= 16.
inline Mask16 first_lanes(std::int64_t count) { return {static_cast<__mmask16>((1u << count) - 1u)}; }

inline f32x16 set(float value) { return {_mm512_set1_ps(value)}; }
inline f32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, f32x16 x) { _mm512_storeu_ps(p, x.lanes); }
inline f32x16 load_partial(const float* p, std::int64_t count, float fill) {
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(fill), first_lanes(count).lanes, p)};
}
inline void store_partial(float* p, std::int64_t count, f32x16 x) {
  _mm512_mask_storeu_ps(p, first_lanes(count).lanes, x.lanes);
}

inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm512_add_ps(a.lanes, b.lanes)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm512_sub_ps(a.lanes, b.lanes)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm512_mul_ps(a.lanes, b.lanes)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm512_div_ps(a.lanes, b.lanes)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fmadd_ps(a.lanes, b.lanes, c.lanes)}; }
inline f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) { return {_mm512_fnmadd_ps(a.lanes, b.lanes, c.lanes)}; }
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm512_maskz_max_ps(kEvery16, a.lanes, b.lanes)}; }
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm512_maskz_min_ps(kEvery16, a.lanes, b.lanes)}; }
inline f32x16 sqrt(f32x16 x) { return {_mm512_maskz_sqrt_ps(kEvery16, x.lanes)}; }
inline f32x16 round(f32x16 x) {
  return {_mm512_maskz_roundscale_ps(kEvery16, x.lanes, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline f32x16 abs(f32x16 x) { return {_mm512_andnot_ps(_mm512_set1_ps(-0.0f), x.lanes)}; }
inline f32x16 copy_sign(f32x16 magnitude, f32x16 sign) {
  return {_mm512_or_ps(_mm512_andnot_ps(_mm512_set1_ps(-0.0f), magnitude.lanes),
                       _mm512_and_ps(_mm512_set1_ps(-0.0f), sign.lanes))};
}

// x 2^n for an integral n in [-252, 254], rounded once, subnormal results included.
inline f32x16 scale_by_power_of_two(f32x16 x, f32x16 n) { return {_mm512_maskz_scalef_ps(kEvery16, x.lanes, n.lanes)}; }

// Comparisons are false where either side is NaN.
inline Mask16 less(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_LT_OQ)}; }
inline Mask16 equal(f32x16 a, f32x16 b) { return {_mm512_cmp_ps_mask(a.lanes, b.lanes, _CMP_EQ_OQ)}; }
inline f32x16 select(Mask16 mask, f32x16 yes, f32x16 no) {
  return {_mm512_mask_blend_ps(mask.lanes, no.lanes, yes.lanes)};
}

inline u32x16 set_bits(std::uint32_t value) { return {_mm512_set1_epi32(static_cast<int>(value))}; }
inline u32x16 load_bits(const std::uint32_t* p) { return {_mm512_loadu_si512(p)}; }
inline u32x16 lane_numbers() { return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)}; }
inline u32x16 operator+(u32x16 a, u32x16 b) { return {_mm512_add_epi32(a.lanes, b.lanes)}; }
inline u32x16 operator-(u32x16 a, u32x16 b) { return {_mm512_sub_epi32(a.lanes, b.lanes)}; }
inline u32x16 operator^(u32x16 a, u32x16 b) { return {_mm512_xor_si512(a.lanes, b.lanes)}; }
template <int kBits>
inline u32x16 shift_left(u32x16 x) {
  return {_mm512_maskz_slli_epi32(kEvery16, x.lanes, kBits)};
}
template <int kBits>
inline u32x16 shift_right_signed(u32x16 x) {
  return {_mm512_maskz_srai_epi32(kEvery16, x.lanes, kBits)};
}
inline Mask16 at_least(u32x16 a, u32x16 b) { return {_mm512_cmpge_epu32_mask(a.lanes, b.lanes)}; }
inline u32x16 bits_of(f32x16 x) { return {_mm512_castps_si512(x.lanes)}; }
inline f32x16 from_bits(u32x16 x) { return {_mm512_castsi512_ps(x.lanes)}; }
inline f32x16 signed_to_float(u32x16 x) { return {_mm512_maskz_cvtepi32_ps(kEvery16, x.lanes)}; }

// As kernels/bf16.h says: the upper halves in the lower ones.
inline __m512i bf16_bits(f32x16 x) {
  const __m512i bits = _mm512_castps_si512(x.lanes);
  const __m512i upper = _mm512_maskz_srli_epi32(kEvery16, bits, 16);
  const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i rounded = _mm512_maskz_srli_epi32(kEvery16, sum, 16);
  const __m512i quiet = _mm512_or_si512(upper, _mm512_set1_epi32(0x40));
  const __mmask16 is_nan = _mm512_cmp_ps_mask(x.lanes, x.lanes, _CMP_UNORD_Q);
  return _mm512_mask_blend_epi32(is_nan, rounded, quiet);
}
inline void store_bf16(std::uint16_t* p, f32x16 x) {
  _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(p)),
                      _mm512_maskz_cvtepi32_epi16(kEvery16, bf16_bits(x)));
}
inline f32x16 round_to_bf16(f32x16 x) {
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kEvery16, bf16_bits(x), 16))};
}
inline f32x16 load_bf16(const std::uint16_t* p) {
  const __m256i halves = _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
  return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kEvery16, _mm512_maskz_cvtepu16_epi32(kEvery16, halves), 16))};
}

// Eight 64-bit products of the even lanes, low word in the even, high word in the odd lane.
inline u32x16 multiply_even(u32x16 a, u32x16 b) { return {_mm512_maskz_mul_epu32(kEvery8, a.lanes, b.lanes)}; }
// Odd lanes moved down to the even ones before them; odd lanes become 0.
inline u32x16 odd_to_even(u32x16 x) { return {_mm512_maskz_srli_epi64(kEvery8, x.lanes, 32)}; }
// Even lanes of `even`, and the even lanes of `odd` moved up to the odd ones.
inline u32x16 interleave_even(u32x16 even, u32x16 odd) {
  return {_mm512_mask_blend_epi32(0xaaaa, even.lanes, _mm512_maskz_slli_epi64(kEvery8, odd.lanes, 32))};
}

inline f64x16 set_f64(double value) { return {_mm512_set1_pd(value), _mm512_set1_pd(value)}; }
inline __m256 low_half(f32x16 x) { return _mm512_maskz_extractf32x8_ps(kEvery8, x.lanes, 0); }
inline __m256 high_half(f32x16 x) { return _mm512_maskz_extractf32x8_ps(kEvery8, x.lanes, 1); }
inline f64x16 to_f64(f32x16 x) {
  return {_mm512_maskz_cvtps_pd(kEvery8, low_half(x)), _mm512_maskz_cvtps_pd(kEvery8, high_half(x))};
}
inline f64x16 operator+(f64x16 a, f64x16 b) { return {_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)}; }
inline f64x16 fma(f64x16 a, f64x16 b, f64x16 c) {
  return {_mm512_fmadd_pd(a.low, b.low, c.low), _mm512_fmadd_pd(a.high, b.high, c.high)};
}

// Lanes 0-3, 4-7, 8-11, 12-15 as (first + third) + (second + fourth).
inline __m256d quarter_sum(f64x16 x) {
  const __m512d half = _mm512_add_pd(x.low, x.high);
  return _mm256_add_pd(_mm512_maskz_extractf64x4_pd(kEvery8, half, 0), _mm512_maskz_extractf64x4_pd(kEvery8, half, 1));
}

// A vector of the columns of a product that is read across its rows.
using ColumnVector = f32x16;
constexpr std::int64_t kColumnLanes = 16;
inline ColumnVector set_columns(float value) { return set(value); }
inline ColumnVector load_columns(const float* p) { return load(p); }

// out[j][i] = x[i,j] for i below 16, j below 4; `load_four(i)` gives the four words of row i. Loads put pieces of four
// rows beside each other, so half of the usual moves between lanes are left.
template <typename Load>
[[gnu::always_inline]] inline void load_four_columns_by(ColumnVector (&out)[4], Load load_four) {
  __m512 row[4], pair[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    __m512 four = _mm512_castps128_ps512(load_four(i));
    four = _mm512_maskz_insertf32x4(kEvery16, four, load_four(i + 4), 1);
    four = _mm512_maskz_insertf32x4(kEvery16, four, load_four(i + 8), 2);
    row[i] = _mm512_maskz_insertf32x4(kEvery16, four, load_four(i + 12), 3);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    pair[i] = _mm512_maskz_unpacklo_ps(kEvery16, row[i], row[i + 1]);
    pair[i + 1] = _mm512_maskz_unpackhi_ps(kEvery16, row[i], row[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    out[2 * i].lanes = _mm512_maskz_shuffle_ps(kEvery16, pair[i], pair[i + 2], 0x44);
    out[2 * i + 1].lanes = _mm512_maskz_shuffle_ps(kEvery16, pair[i], pair[i + 2], 0xee);
  }
}
inline void load_four_columns(ColumnVector (&out)[4], const float* x, std::int64_t stride) {
  load_four_columns_by(out, [&](std::int64_t i) { return _mm_loadu_ps(x + i * stride); });
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
