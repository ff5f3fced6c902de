// SPDX-License-Identifier: Apache-2.0
// Pixels in lanes on AVX-512. The same functions with the same bits as lanes_u8_avx2.h; lanes_u8.h chooses and
// explains.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/lanes/lanes_avx512.h"

namespace bascule::BASCULE_ISA {
namespace {

constexpr __mmask32 kEvery32 = 0xffffffff;
constexpr __mmask64 kEvery64 = 0xffffffffffffffff;

struct Pairs {
  __m512i values;
};
// Sums of values 0-3, 8-11, 16-19, 24-27 and of the others, as unpacking two rows leaves them.
struct Columns {
  __m512i low, high;
};

inline __m512i load_bytes_as_words(const std::uint8_t* p) {
  return _mm512_maskz_cvtepu8_epi16(kEvery32,
                                    _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p))));
}

// Eight pixels; the lanes of quarter k hold, channel by channel, pixels 0 and 1, 4 and 5, 2 and 3, 6 and 7 for k = 0
// .. 3. Both halves of the register get all 32 bytes from the load, so that one shuffle widens and pairs them.
inline Pairs pixel_pairs(const std::uint8_t* p) {
  const __m512i first =
      _mm512_maskz_broadcast_i32x4(kEvery16, _mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m512i order = _mm512_mask_add_epi8(first, 0xffffffff00000000, first, _mm512_set1_epi16(8));
  const __m256i bytes = _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
  return {_mm512_maskz_shuffle_epi8(kEvery64, _mm512_maskz_broadcast_i64x4(kEvery8, bytes), order)};
}
// Eight weights, each pair of them in the lanes of its pixels.
inline Pairs weight_pairs(const std::int16_t* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
  const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 3, 3, 3, 3);
  return {_mm512_maskz_permutexvar_epi32(kEvery16, order, _mm512_maskz_broadcast_i32x4(kEvery16, bytes))};
}
inline u32x16 multiply_add(u32x16 sum, Pairs a, Pairs b) {
  return {_mm512_add_epi32(sum.lanes, _mm512_maskz_madd_epi16(kEvery16, a.values, b.values))};
}

inline Columns set_columns(std::int32_t value) { return {_mm512_set1_epi32(value), _mm512_set1_epi32(value)}; }
// sum + first * (bytes of row `a`) + second * (bytes of row `b`)
inline Columns multiply_add(Columns sum, const std::uint8_t* a, const std::uint8_t* b, std::int16_t first,
                            std::int16_t second) {
  const __m512i weights = _mm512_set1_epi32(static_cast<std::int32_t>(
      static_cast<std::uint16_t>(first) | static_cast<std::uint32_t>(static_cast<std::uint16_t>(second)) << 16));
  const __m512i x = load_bytes_as_words(a);
  const __m512i y = load_bytes_as_words(b);
  const __m512i low = _mm512_maskz_unpacklo_epi16(kEvery32, x, y);
  const __m512i high = _mm512_maskz_unpackhi_epi16(kEvery32, x, y);
  return {_mm512_add_epi32(sum.low, _mm512_maskz_madd_epi16(kEvery16, low, weights)),
          _mm512_add_epi32(sum.high, _mm512_maskz_madd_epi16(kEvery16, high, weights))};
}
inline void store_bytes(std::uint8_t* p, Columns sum, int shift) {
  const __m128i count = _mm_cvtsi32_si128(shift);
  const __m512i words = _mm512_maskz_packs_epi32(kEvery32, _mm512_maskz_sra_epi32(kEvery16, sum.low, count),
                                                 _mm512_maskz_sra_epi32(kEvery16, sum.high, count));
  const __m512i positive = _mm512_maskz_max_epi16(kEvery32, words, _mm512_setzero_si512());
  _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(p)), _mm512_maskz_cvtusepi16_epi8(kEvery32, positive));
}

inline u32x16 quarter_sums(u32x16 a, u32x16 b, u32x16 c, u32x16 d) {
  const __m512i ab = _mm512_add_epi32(_mm512_maskz_shuffle_i32x4(kEvery16, a.lanes, b.lanes, 0x44),
                                      _mm512_maskz_shuffle_i32x4(kEvery16, a.lanes, b.lanes, 0xee));
  const __m512i cd = _mm512_add_epi32(_mm512_maskz_shuffle_i32x4(kEvery16, c.lanes, d.lanes, 0x44),
                                      _mm512_maskz_shuffle_i32x4(kEvery16, c.lanes, d.lanes, 0xee));
  return {_mm512_add_epi32(_mm512_maskz_shuffle_i32x4(kEvery16, ab, cd, 0x88),
                           _mm512_maskz_shuffle_i32x4(kEvery16, ab, cd, 0xdd))};
}
// (first + third) + (second + fourth)
inline f32x16 quarter_sums(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  const __m512 ab = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kEvery16, a.lanes, b.lanes, 0x44),
                                  _mm512_maskz_shuffle_f32x4(kEvery16, a.lanes, b.lanes, 0xee));
  const __m512 cd = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(kEvery16, c.lanes, d.lanes, 0x44),
                                  _mm512_maskz_shuffle_f32x4(kEvery16, c.lanes, d.lanes, 0xee));
  return {_mm512_add_ps(_mm512_maskz_shuffle_f32x4(kEvery16, ab, cd, 0x88),
                        _mm512_maskz_shuffle_f32x4(kEvery16, ab, cd, 0xdd))};
}

// One pixel of each of four rows in each argument, shifted and clipped to bytes: quarter k of all four goes to p[k].
inline void store_pixels(std::uint8_t* const p[4], u32x16 a, u32x16 b, u32x16 c, u32x16 d, int shift) {
  const __m128i count = _mm_cvtsi32_si128(shift);
  const auto shifted = [&](u32x16 x) { return _mm512_maskz_sra_epi32(kEvery16, x.lanes, count); };
  const __m512i bytes = _mm512_maskz_packus_epi16(kEvery64, _mm512_maskz_packs_epi32(kEvery32, shifted(a), shifted(b)),
                                                  _mm512_maskz_packs_epi32(kEvery32, shifted(c), shifted(d)));
  const auto to = [&](int k) { return static_cast<__m128i*>(static_cast<void*>(p[k])); };
  _mm_storeu_si128(to(0), _mm512_maskz_extracti32x4_epi32(kEvery8, bytes, 0));
  _mm_storeu_si128(to(1), _mm512_maskz_extracti32x4_epi32(kEvery8, bytes, 1));
  _mm_storeu_si128(to(2), _mm512_maskz_extracti32x4_epi32(kEvery8, bytes, 2));
  _mm_storeu_si128(to(3), _mm512_maskz_extracti32x4_epi32(kEvery8, bytes, 3));
}
inline void store_quarters(float* const p[4], f32x16 x) {
  _mm_storeu_ps(p[0], _mm512_maskz_extractf32x4_ps(kEvery8, x.lanes, 0));
  _mm_storeu_ps(p[1], _mm512_maskz_extractf32x4_ps(kEvery8, x.lanes, 1));
  _mm_storeu_ps(p[2], _mm512_maskz_extractf32x4_ps(kEvery8, x.lanes, 2));
  _mm_storeu_ps(p[3], _mm512_maskz_extractf32x4_ps(kEvery8, x.lanes, 3));
}

// Four pixels.
inline f32x16 pixels_to_float(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
  return {_mm512_maskz_cvtepi32_ps(kEvery16, _mm512_maskz_cvtepu8_epi32(kEvery16, bytes))};
}
// Four numbers, each in the four lanes of its quarter.
inline f32x16 spread(const float* p) {
  const __m512i order = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_maskz_permutexvar_ps(kEvery16, order, _mm512_maskz_broadcast_f32x4(kEvery16, _mm_loadu_ps(p)))};
}

// Sixteen pixels, and one channel of them.
inline u32x16 load_pixels(const std::uint8_t* p) { return {_mm512_loadu_si512(p)}; }
template <int kChannel>
inline f32x16 channel(u32x16 pixels) {
  const __m512i low = _mm512_maskz_srli_epi32(kEvery16, pixels.lanes, 8 * kChannel);
  return {_mm512_maskz_cvtepi32_ps(kEvery16, _mm512_and_si512(low, _mm512_set1_epi32(255)))};
}

struct Planes {
  f32x16 channels[3];
};
// Pixels 0-3, 4-7, 8-11, 12-15.
inline Planes deinterleave(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  const __m512i eight = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i third = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 2, 6, 10, 14, 18, 22, 26, 30);
  const __m512 ab01 = _mm512_permutex2var_ps(a.lanes, eight, b.lanes);  // channel 0 of a and b, then channel 1
  const __m512 cd01 = _mm512_permutex2var_ps(c.lanes, eight, d.lanes);
  const __m512 ab2 = _mm512_permutex2var_ps(a.lanes, third, b.lanes);
  const __m512 cd2 = _mm512_permutex2var_ps(c.lanes, third, d.lanes);
  return {{{_mm512_maskz_shuffle_f32x4(kEvery16, ab01, cd01, 0x44)},
           {_mm512_maskz_shuffle_f32x4(kEvery16, ab01, cd01, 0xee)},
           {_mm512_maskz_shuffle_f32x4(kEvery16, ab2, cd2, 0x44)}}};
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
