// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes on AVX2: a pair of registers each. The same functions with the same bits as lanes_avx512.h; lanes.h
// chooses and explains.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace bascule::BASCULE_ISA {
namespace {

struct f32x16 {
  __m256 low, high;
};
struct u32x16 {
  __m256i low, high;
};
struct f64x16 {
  __m256d a, b, c, d;  // lanes 0-3, 4-7, 8-11, 12-15
};
struct Mask16 {
  __m256 low, high;  // all bits of a lane set, or none
};

// The first `count` lanes, 0 <= count <= 16.
inline Mask16 first_lanes(std::int64_t count) {
  const __m256i n = _mm256_set1_epi32(static_cast<int>(count));
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(n, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(n, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)))};
}

inline f32x16 set(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, f32x16 x) {
  _mm256_storeu_ps(p, x.low);
  _mm256_storeu_ps(p + 8, x.high);
}
inline f32x16 select(Mask16 mask, f32x16 yes, f32x16 no) {
  return {_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
}
inline f32x16 load_partial(const float* p, std::int64_t count, float fill) {
  const Mask16 mask = first_lanes(count);
  const f32x16 x = {_mm256_maskload_ps(p, _mm256_castps_si256(mask.low)),
                    _mm256_maskload_ps(p + 8, _mm256_castps_si256(mask.high))};
  return select(mask, x, set(fill));
}
inline void store_partial(float* p, std::int64_t count, f32x16 x) {
  const Mask16 mask = first_lanes(count);
  _mm256_maskstore_ps(p, _mm256_castps_si256(mask.low), x.low);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(mask.high), x.high);
}

inline f32x16 operator+(f32x16 a, f32x16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline f32x16 operator-(f32x16 a, f32x16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline f32x16 operator*(f32x16 a, f32x16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline f32x16 operator/(f32x16 a, f32x16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
inline f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
inline f32x16 max(f32x16 a, f32x16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
inline f32x16 min(f32x16 a, f32x16 b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline f32x16 sqrt(f32x16 x) { return {_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)}; }
inline f32x16 round(f32x16 x) {
  return {_mm256_round_ps(x.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
inline f32x16 abs(f32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.low), _mm256_andnot_ps(sign, x.high)};
}
inline f32x16 copy_sign(f32x16 magnitude, f32x16 sign) {
  const __m256 bit = _mm256_set1_ps(-0.0f);
  return {_mm256_or_ps(_mm256_andnot_ps(bit, magnitude.low), _mm256_and_ps(bit, sign.low)),
          _mm256_or_ps(_mm256_andnot_ps(bit, magnitude.high), _mm256_and_ps(bit, sign.high))};
}

// Comparisons are false where either side is NaN.
inline Mask16 less(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}
inline Mask16 equal(f32x16 a, f32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)};
}

inline bool all_less(f32x16 a, f32x16 b) {
  const Mask16 mask = less(a, b);
  return _mm256_movemask_ps(_mm256_and_ps(mask.low, mask.high)) == 0xff;
}

inline u32x16 set_bits(std::uint32_t value) {
  return {_mm256_set1_epi32(static_cast<int>(value)), _mm256_set1_epi32(static_cast<int>(value))};
}
inline u32x16 load_bits(const std::uint32_t* p) {
  const __m256i* const halves = static_cast<const __m256i*>(static_cast<const void*>(p));
  return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
inline u32x16 lane_numbers() {
  return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
}
inline u32x16 operator+(u32x16 a, u32x16 b) {
  return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
inline u32x16 operator-(u32x16 a, u32x16 b) {
  return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
inline u32x16 operator^(u32x16 a, u32x16 b) {
  return {_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
template <int kBits>
inline u32x16 shift_left(u32x16 x) {
  return {_mm256_slli_epi32(x.low, kBits), _mm256_slli_epi32(x.high, kBits)};
}
template <int kBits>
inline u32x16 shift_right_signed(u32x16 x) {
  return {_mm256_srai_epi32(x.low, kBits), _mm256_srai_epi32(x.high, kBits)};
}
inline Mask16 at_least(u32x16 a, u32x16 b) {
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(a.low, b.low), a.low)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(a.high, b.high), a.high))};
}
inline u32x16 bits_of(f32x16 x) { return {_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)}; }
inline f32x16 from_bits(u32x16 x) { return {_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)}; }
inline f32x16 signed_to_float(u32x16 x) { return {_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)}; }

// x 2^n for an integral n in [-252, 254], rounded once, subnormal results included: the first of two factors cannot
// underflow.
inline f32x16 scale_by_power_of_two(f32x16 x, f32x16 n) {
  const u32x16 whole = {_mm256_cvtps_epi32(n.low), _mm256_cvtps_epi32(n.high)};
  const u32x16 half = shift_right_signed<1>(whole);
  const u32x16 bias = set_bits(127);
  return x * from_bits(shift_left<23>(half + bias)) * from_bits(shift_left<23>(whole - half + bias));
}

// The same for n in [-126, 127].
inline f32x16 scale_by_normal_power_of_two(f32x16 x, f32x16 n) {
  const u32x16 whole = {_mm256_cvtps_epi32(n.low), _mm256_cvtps_epi32(n.high)};
  return x * from_bits(shift_left<23>(whole + set_bits(127)));
}
#define BASCULE_SLOW_POWERS_OF_TWO  // the one is much faster than the other

// As kernels/bf16.h says: the upper halves in the lower ones.
inline __m256i bf16_bits(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, is_nan);
}
inline void store_bf16(std::uint16_t* p, f32x16 x) {
  const __m256i quarters = _mm256_packus_epi32(bf16_bits(x.low), bf16_bits(x.high));
  _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(p)), _mm256_permute4x64_epi64(quarters, 0xd8));
}
inline f32x16 round_to_bf16(f32x16 x) {
  const auto widened = [](__m256 half) { return _mm256_castsi256_ps(_mm256_slli_epi32(bf16_bits(half), 16)); };
  return {widened(x.low), widened(x.high)};
}
inline f32x16 load_bf16(const std::uint16_t* p) {
  const __m128i* const halves = static_cast<const __m128i*>(static_cast<const void*>(p));
  const auto widened = [](__m128i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)); };
  return {widened(_mm_loadu_si128(halves)), widened(_mm_loadu_si128(halves + 1))};
}

// Eight 64-bit products of the even lanes, low word in the even, high word in the odd lane.
inline u32x16 multiply_even(u32x16 a, u32x16 b) {
  return {_mm256_mul_epu32(a.low, b.low), _mm256_mul_epu32(a.high, b.high)};
}
// Odd lanes moved down to the even ones before them; odd lanes become 0.
inline u32x16 odd_to_even(u32x16 x) { return {_mm256_srli_epi64(x.low, 32), _mm256_srli_epi64(x.high, 32)}; }
// Even lanes of `even`, and the even lanes of `odd` moved up to the odd ones.
inline u32x16 interleave_even(u32x16 even, u32x16 odd) {
  return {_mm256_blend_epi32(even.low, _mm256_slli_epi64(odd.low, 32), 0xaa),
          _mm256_blend_epi32(even.high, _mm256_slli_epi64(odd.high, 32), 0xaa)};
}

inline __m256 low_half(f32x16 x) { return x.low; }
inline __m256 high_half(f32x16 x) { return x.high; }

inline f64x16 set_f64(double value) {
  const __m256d x = _mm256_set1_pd(value);
  return {x, x, x, x};
}
inline f64x16 to_f64(f32x16 x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x.low)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.low, 1)),
          _mm256_cvtps_pd(_mm256_castps256_ps128(x.high)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.high, 1))};
}
inline f64x16 operator+(f64x16 x, f64x16 y) {
  return {_mm256_add_pd(x.a, y.a), _mm256_add_pd(x.b, y.b), _mm256_add_pd(x.c, y.c), _mm256_add_pd(x.d, y.d)};
}
inline f64x16 fma(f64x16 x, f64x16 y, f64x16 z) {
  return {_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b), _mm256_fmadd_pd(x.c, y.c, z.c),
          _mm256_fmadd_pd(x.d, y.d, z.d)};
}

// Lanes 0-3, 4-7, 8-11, 12-15 as (first + third) + (second + fourth).
inline __m256d quarter_sum(f64x16 x) { return _mm256_add_pd(_mm256_add_pd(x.a, x.c), _mm256_add_pd(x.b, x.d)); }

// Rows of a product whose sums stay in the 16 registers, two each.
constexpr int kRowsInRegisters = 6;

// A vector of the columns of a product that is read across its rows: one register.
struct ColumnVector {
  __m256 lanes;
};
constexpr std::int64_t kColumnLanes = 8;
inline ColumnVector set_columns(float value) { return {_mm256_set1_ps(value)}; }
inline ColumnVector load_columns(const float* p) { return {_mm256_loadu_ps(p)}; }
inline void store(float* p, ColumnVector x) { _mm256_storeu_ps(p, x.lanes); }
inline ColumnVector operator+(ColumnVector a, ColumnVector b) { return {_mm256_add_ps(a.lanes, b.lanes)}; }
inline ColumnVector fma(ColumnVector a, ColumnVector b, ColumnVector c) {
  return {_mm256_fmadd_ps(a.lanes, b.lanes, c.lanes)};
}

// out[j][i] = x[i,j] for i below 8, j below 4; `load_four(i)` gives the four words of row i.
template <typename Load>
[[gnu::always_inline]] inline void load_four_columns_by(ColumnVector (&out)[4], Load load_four) {
  __m256 row[4], pair[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) row[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(load_four(i)), load_four(i + 4), 1);
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    pair[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
    pair[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    out[2 * i].lanes = _mm256_shuffle_ps(pair[i], pair[i + 2], 0x44);
    out[2 * i + 1].lanes = _mm256_shuffle_ps(pair[i], pair[i + 2], 0xee);
  }
}
inline void load_four_columns(ColumnVector (&out)[4], const float* x, std::int64_t stride) {
  load_four_columns_by(out, [&](std::int64_t i) { return _mm_loadu_ps(x + i * stride); });
}
// The same of sixteen rows.
inline void load_four_columns(f32x16 (&out)[4], const float* x, std::int64_t stride) {
  ColumnVector low[4], high[4];
  load_four_columns(low, x, stride);
  load_four_columns(high, x + 8 * stride, stride);
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) out[j] = {low[j].lanes, high[j].lanes};
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
