// SPDX-License-Identifier: Apache-2.0
// Products of bf16 numbers, as gemm_tile.h defines them: of pairs in the bits of sixteen floats, the even number in the
// lower half, by the instruction VDPBF16PS where the unit is compiled for it; of widened numbers by fused multiply-adds
// elsewhere.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes.h"

namespace bascule::BASCULE_ISA {
namespace {

#if defined(BASCULE_SCALAR_LANES) || !defined(__AVX2__)

// Plain C++ does not have a mode that replaces subnormal numbers by zeros, and Arm's decides before rounding.
struct SubnormalsAreZeros {
  SubnormalsAreZeros() {}
};

inline float flushed(float x) { return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x; }
// The smallest normal number may be a subnormal sum rounded up. In float64 the sum is exact where it is near that
// number.
inline float fma_flushed(float a, float b, float c) {
  const float sum = __builtin_fmaf(a, b, c);
  if (__builtin_fabsf(sum) != 0x1p-126f) return flushed(sum);
  const double exact = static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c);
  return __builtin_fabs(exact) < 0x1p-126 - 0x1p-151 ? __builtin_copysignf(0.0f, sum) : sum;
}
inline f32x16 fma_flushed(f32x16 a, f32x16 b, f32x16 c) {
  for (int i = 0; i < 16; ++i) c.lane[i] = fma_flushed(flushed(a.lane[i]), flushed(b.lane[i]), c.lane[i]);
  return c;
}
inline f32x16 add_flushed(f32x16 a, f32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] = flushed(flushed(a.lane[i]) + flushed(b.lane[i]));
  return a;
}

#else

// While one lives, instructions take and give zeros in place of subnormal numbers. The arithmetic that it is for must
// be in functions that are not inlined beside it, or the compiler may move it.
class SubnormalsAreZeros {
 public:
  SubnormalsAreZeros() : before_(_mm_getcsr()) { _mm_setcsr(before_ | _MM_FLUSH_ZERO_ON | kDenormalsAreZeros); }
  ~SubnormalsAreZeros() { _mm_setcsr(before_); }
  SubnormalsAreZeros(const SubnormalsAreZeros&) = delete;
  SubnormalsAreZeros& operator=(const SubnormalsAreZeros&) = delete;

 private:
  static constexpr unsigned kDenormalsAreZeros = 0x40;
  unsigned before_;
};
inline f32x16 fma_flushed(f32x16 a, f32x16 b, f32x16 c) { return fma(a, b, c); }
inline f32x16 add_flushed(f32x16 a, f32x16 b) { return a + b; }

#endif

inline float widened(std::uint16_t x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x) << 16;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

#if defined(__AVX512BF16__) && !defined(BASCULE_SCALAR_LANES)
// The numbers are bf16 already.
inline f32x16 pairs_of(f32x16 even, f32x16 odd) {
  const __m512i lower = _mm512_maskz_srli_epi32(kEvery16, _mm512_castps_si512(even.lanes), 16);
  return {_mm512_castsi512_ps(_mm512_or_si512(lower, _mm512_castps_si512(odd.lanes)))};
}
// p + a_odd b_odd, then + a_even b_even. Under SubnormalsAreZeros.
inline f32x16 dot_pairs(f32x16 a, f32x16 b, f32x16 p) {
  return {_mm512_dpbf16_ps(p.lanes, reinterpret_cast<__m512bh>(a.lanes), reinterpret_cast<__m512bh>(b.lanes))};
}
#endif

}  // namespace
}  // namespace bascule::BASCULE_ISA
