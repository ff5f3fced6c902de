// SPDX-License-Identifier: Apache-2.0
// Pixels in lanes on AVX2. The same functions with the same bits as lanes_u8_avx512.h; lanes_u8.h chooses and explains.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/lanes/lanes_avx2.h"

namespace bascule::BASCULE_ISA {
namespace {

struct Pairs {
  __m256i low, high;
};
// Sums of values 0-3 and 8-11, of 4-7 and 12-15, and the same from 16 on, as unpacking two rows leaves them.
struct Columns {
  __m256i low[2], high[2];
};

inline __m256i load_bytes_as_words(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p))));
}

// Eight pixels; the lanes of quarter k hold, channel by channel, pixels 0 and 1, 4 and 5, 2 and 3, 6 and 7 for k = 0
// .. 3.
inline Pairs pixel_pairs(const std::uint8_t* p) {
  const __m256i first =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1));
  const __m256i second =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1));
  const __m256i bytes = _mm256_loadu_si256(static_cast<const __m256i*>(static_cast<const void*>(p)));
  return {_mm256_shuffle_epi8(bytes, first), _mm256_shuffle_epi8(bytes, second)};
}
// Eight weights, each pair of them in the lanes of its pixels.
inline Pairs weight_pairs(const std::int16_t* p) {
  const __m256i all =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p))));
  return {_mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2)),
          _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3))};
}
inline u32x16 multiply_add(u32x16 sum, Pairs a, Pairs b) {
  return {_mm256_add_epi32(sum.low, _mm256_madd_epi16(a.low, b.low)),
          _mm256_add_epi32(sum.high, _mm256_madd_epi16(a.high, b.high))};
}

inline Columns set_columns(std::int32_t value) {
  const __m256i all = _mm256_set1_epi32(value);
  return {{all, all}, {all, all}};
}
// sum + first * (bytes of row `a`) + second * (bytes of row `b`)
inline Columns multiply_add(Columns sum, const std::uint8_t* a, const std::uint8_t* b, std::int16_t first,
                            std::int16_t second) {
  const __m256i weights = _mm256_set1_epi32(static_cast<std::int32_t>(
      static_cast<std::uint16_t>(first) | static_cast<std::uint32_t>(static_cast<std::uint16_t>(second)) << 16));
  for (int half = 0; half < 2; ++half) {
    const __m256i x = load_bytes_as_words(a + 16 * half);
    const __m256i y = load_bytes_as_words(b + 16 * half);
    sum.low[half] = _mm256_add_epi32(sum.low[half], _mm256_madd_epi16(_mm256_unpacklo_epi16(x, y), weights));
    sum.high[half] = _mm256_add_epi32(sum.high[half], _mm256_madd_epi16(_mm256_unpackhi_epi16(x, y), weights));
  }
  return sum;
}
inline void store_bytes(std::uint8_t* p, Columns sum, int shift) {
  const __m128i count = _mm_cvtsi32_si128(shift);
  const __m256i words0 = _mm256_packs_epi32(_mm256_sra_epi32(sum.low[0], count), _mm256_sra_epi32(sum.high[0], count));
  const __m256i words1 = _mm256_packs_epi32(_mm256_sra_epi32(sum.low[1], count), _mm256_sra_epi32(sum.high[1], count));
  const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words0, words1), 0xd8);
  _mm256_storeu_si256(static_cast<__m256i*>(static_cast<void*>(p)), bytes);
}

// Quarters 0, 2 and 1, 3 of the first, then of the second.
inline __m256i half_sums(__m256i a_low, __m256i a_high, __m256i b_low, __m256i b_high) {
  const __m256i a = _mm256_add_epi32(a_low, a_high);
  const __m256i b = _mm256_add_epi32(b_low, b_high);
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}
inline __m256 half_sums(__m256 a_low, __m256 a_high, __m256 b_low, __m256 b_high) {
  const __m256 a = _mm256_add_ps(a_low, a_high);
  const __m256 b = _mm256_add_ps(b_low, b_high);
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
inline u32x16 quarter_sums(u32x16 a, u32x16 b, u32x16 c, u32x16 d) {
  return {half_sums(a.low, a.high, b.low, b.high), half_sums(c.low, c.high, d.low, d.high)};
}
// (first + third) + (second + fourth)
inline f32x16 quarter_sums(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  return {half_sums(a.low, a.high, b.low, b.high), half_sums(c.low, c.high, d.low, d.high)};
}

// One pixel of each of four rows in each argument, shifted and clipped to bytes: quarter k of all four goes to p[k].
inline void store_pixels(std::uint8_t* const p[4], u32x16 a, u32x16 b, u32x16 c, u32x16 d, int shift) {
  const __m128i count = _mm_cvtsi32_si128(shift);
  const auto bytes_of = [&](__m256i w, __m256i x, __m256i y, __m256i z) __attribute__((always_inline)) {
    return _mm256_packus_epi16(_mm256_packs_epi32(_mm256_sra_epi32(w, count), _mm256_sra_epi32(x, count)),
                               _mm256_packs_epi32(_mm256_sra_epi32(y, count), _mm256_sra_epi32(z, count)));
  };
  const __m256i low = bytes_of(a.low, b.low, c.low, d.low);
  const __m256i high = bytes_of(a.high, b.high, c.high, d.high);
  const auto to = [&](int k) { return static_cast<__m128i*>(static_cast<void*>(p[k])); };
  _mm_storeu_si128(to(0), _mm256_castsi256_si128(low));
  _mm_storeu_si128(to(1), _mm256_extracti128_si256(low, 1));
  _mm_storeu_si128(to(2), _mm256_castsi256_si128(high));
  _mm_storeu_si128(to(3), _mm256_extracti128_si256(high, 1));
}
inline void store_quarters(float* const p[4], f32x16 x) {
  _mm_storeu_ps(p[0], _mm256_castps256_ps128(x.low));
  _mm_storeu_ps(p[1], _mm256_extractf128_ps(x.low, 1));
  _mm_storeu_ps(p[2], _mm256_castps256_ps128(x.high));
  _mm_storeu_ps(p[3], _mm256_extractf128_ps(x.high, 1));
}

// Four pixels.
inline f32x16 pixels_to_float(const std::uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(static_cast<const __m128i*>(static_cast<const void*>(p)));
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
          _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
// Four numbers, each in the four lanes of its quarter.
inline f32x16 spread(const float* p) {
  const __m256 all = _mm256_broadcast_ps(static_cast<const __m128*>(static_cast<const void*>(p)));
  return {_mm256_permutevar8x32_ps(all, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
          _mm256_permutevar8x32_ps(all, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))};
}

// Sixteen pixels, and one channel of them.
inline u32x16 load_pixels(const std::uint8_t* p) {
  const auto* const from = static_cast<const __m256i*>(static_cast<const void*>(p));
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
template <int kChannel>
inline f32x16 channel(u32x16 pixels) {
  const __m256i byte = _mm256_set1_epi32(255);
  return {_mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(pixels.low, 8 * kChannel), byte)),
          _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(pixels.high, 8 * kChannel), byte))};
}

struct Planes {
  f32x16 channels[3];
};
struct HalfPlanes {
  __m256 channels[3];
};
// Eight pixels, two in each argument.
inline HalfPlanes deinterleave_half(__m256 p01, __m256 p23, __m256 p45, __m256 p67) {
  const __m256 p04 = _mm256_permute2f128_ps(p01, p45, 0x20);
  const __m256 p15 = _mm256_permute2f128_ps(p01, p45, 0x31);
  const __m256 p26 = _mm256_permute2f128_ps(p23, p67, 0x20);
  const __m256 p37 = _mm256_permute2f128_ps(p23, p67, 0x31);
  const __m256 low = _mm256_unpacklo_ps(p04, p15);  // channels 0, 0, 1, 1 of pixels 0, 1 and of 4, 5
  const __m256 high = _mm256_unpacklo_ps(p26, p37);
  return {{_mm256_shuffle_ps(low, high, 0x44), _mm256_shuffle_ps(low, high, 0xee),
           _mm256_shuffle_ps(_mm256_unpackhi_ps(p04, p15), _mm256_unpackhi_ps(p26, p37), 0x44)}};
}
// Pixels 0-3, 4-7, 8-11, 12-15.
inline Planes deinterleave(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  const HalfPlanes low = deinterleave_half(a.low, a.high, b.low, b.high);
  const HalfPlanes high = deinterleave_half(c.low, c.high, d.low, d.high);
  return {
      {{low.channels[0], high.channels[0]}, {low.channels[1], high.channels[1]}, {low.channels[2], high.channels[2]}}};
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
