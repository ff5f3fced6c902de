// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes in plain C++: arrays, loops, and fma of the compiler. The same functions with the same bits as
// lanes_avx2.h and lanes_avx512.h; lanes.h chooses and explains. For checking, not for speed: it compiles for any CPU
// whose floats are IEEE's, and shows each function without a register's width in it.
//
// The compiler may turn the loops into vectors, as no sum runs across lanes; it must not contract a product and a sum
// (-ffp-contract=off) or read errno into a square root (-fno-math-errno).
#pragma once

#include <cstdint>

namespace bascule::BASCULE_ISA {
namespace {

struct f32x16 {
  float lane[16];
};
struct u32x16 {
  std::uint32_t lane[16];
};
struct f64x16 {
  double lane[16];
};
struct Mask16 {
  bool lane[16];
};

// The vector whose lane i is f(i).
template <typename Vector, typename Function>
[[gnu::always_inline]] inline Vector each_lane(const Function& f) {
  Vector out;
  for (int i = 0; i < 16; ++i) out.lane[i] = f(i);
  return out;
}

// The first `count` lanes, 0 <= count <= 16.
inline Mask16 first_lanes(std::int64_t count) {
  return each_lane<Mask16>([&](int i) { return i < count; });
}

inline f32x16 set(float value) {
  return each_lane<f32x16>([&](int) { return value; });
}
inline f32x16 load(const float* p) {
  return each_lane<f32x16>([&](int i) { return p[i]; });
}
inline void store(float* p, f32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = x.lane[i];
}
inline f32x16 select(Mask16 mask, f32x16 yes, f32x16 no) {
  return each_lane<f32x16>([&](int i) { return mask.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline f32x16 load_partial(const float* p, std::int64_t count, float fill) {
  return each_lane<f32x16>([&](int i) { return i < count ? p[i] : fill; });
}
inline void store_partial(float* p, std::int64_t count, f32x16 x) {
  for (int i = 0; i < count; ++i) p[i] = x.lane[i];
}

inline f32x16 operator+(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline f32x16 operator-(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline f32x16 operator*(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline f32x16 operator/(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
  return each_lane<f32x16>([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
inline f32x16 fnma(f32x16 a, f32x16 b, f32x16 c) {
  return each_lane<f32x16>([&](int i) { return __builtin_fmaf(-a.lane[i], b.lane[i], c.lane[i]); });
}
// The second argument where either is NaN, and of two zeros.
inline float larger(float a, float b) { return a > b ? a : b; }
inline float smaller(float a, float b) { return a < b ? a : b; }
inline f32x16 max(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return larger(a.lane[i], b.lane[i]); });
}
inline f32x16 min(f32x16 a, f32x16 b) {
  return each_lane<f32x16>([&](int i) { return smaller(a.lane[i], b.lane[i]); });
}
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline f32x16 sqrt(f32x16 x) {
  return each_lane<f32x16>([&](int i) { return square_root(x.lane[i]); });
}
// To the nearest integer, ties to the even one.
inline f32x16 round(f32x16 x) {
  return each_lane<f32x16>([&](int i) { return __builtin_rintf(x.lane[i]); });
}
inline f32x16 abs(f32x16 x) {
  return each_lane<f32x16>([&](int i) { return __builtin_fabsf(x.lane[i]); });
}
inline f32x16 copy_sign(f32x16 magnitude, f32x16 sign) {
  return each_lane<f32x16>([&](int i) { return __builtin_copysignf(magnitude.lane[i], sign.lane[i]); });
}

// Comparisons are false where either side is NaN.
inline Mask16 less(f32x16 a, f32x16 b) {
  return each_lane<Mask16>([&](int i) { return a.lane[i] < b.lane[i]; });
}
inline Mask16 equal(f32x16 a, f32x16 b) {
  return each_lane<Mask16>([&](int i) { return a.lane[i] == b.lane[i]; });
}

inline u32x16 set_bits(std::uint32_t value) {
  return each_lane<u32x16>([&](int) { return value; });
}
inline u32x16 load_bits(const std::uint32_t* p) {
  return each_lane<u32x16>([&](int i) { return p[i]; });
}
inline u32x16 lane_numbers() {
  return each_lane<u32x16>([](int i) { return static_cast<std::uint32_t>(i); });
}
inline u32x16 operator+(u32x16 a, u32x16 b) {
  return each_lane<u32x16>([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline u32x16 operator-(u32x16 a, u32x16 b) {
  return each_lane<u32x16>([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline u32x16 operator^(u32x16 a, u32x16 b) {
  return each_lane<u32x16>([&](int i) { return a.lane[i] ^ b.lane[i]; });
}
template <int kBits>
inline u32x16 shift_left(u32x16 x) {
  return each_lane<u32x16>([&](int i) { return x.lane[i] << kBits; });
}
template <int kBits>
inline u32x16 shift_right_signed(u32x16 x) {
  return each_lane<u32x16>(
      [&](int i) { return static_cast<std::uint32_t>(static_cast<std::int32_t>(x.lane[i]) >> kBits); });
}
inline Mask16 at_least(u32x16 a, u32x16 b) {
  return each_lane<Mask16>([&](int i) { return a.lane[i] >= b.lane[i]; });
}
inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float from_bits(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
inline u32x16 bits_of(f32x16 x) {
  return each_lane<u32x16>([&](int i) { return bits_of(x.lane[i]); });
}
inline f32x16 from_bits(u32x16 x) {
  return each_lane<f32x16>([&](int i) { return from_bits(x.lane[i]); });
}
inline f32x16 signed_to_float(u32x16 x) {
  return each_lane<f32x16>([&](int i) { return static_cast<float>(static_cast<std::int32_t>(x.lane[i])); });
}

// x 2^n for an integral n in [-252, 254], rounded once, subnormal results included: the first of two factors cannot
// underflow. 1.5 2^23 + n has n in its low bits; where n is NaN, so is x.
inline f32x16 scale_by_power_of_two(f32x16 x, f32x16 n) {
  const u32x16 whole = bits_of(n + set(0x1.8p23f)) - set_bits(0x4b400000);
  const u32x16 half = shift_right_signed<1>(whole);
  const u32x16 bias = set_bits(127);
  return x * from_bits(shift_left<23>(half + bias)) * from_bits(shift_left<23>(whole - half + bias));
}

// As kernels/bf16.h says.
inline std::uint16_t bf16_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t upper = bits >> 16;
  const std::uint32_t rounded = (bits + 0x7fffu + (upper & 1u)) >> 16;
  return static_cast<std::uint16_t>(x == x ? rounded : upper | 0x40u);
}
inline void store_bf16(std::uint16_t* p, f32x16 x) {
  for (int i = 0; i < 16; ++i) p[i] = bf16_bits(x.lane[i]);
}
inline f32x16 round_to_bf16(f32x16 x) {
  return each_lane<f32x16>([&](int i) { return from_bits(std::uint32_t{bf16_bits(x.lane[i])} << 16); });
}
inline f32x16 load_bf16(const std::uint16_t* p) {
  return each_lane<f32x16>([&](int i) { return from_bits(std::uint32_t{p[i]} << 16); });
}

// Eight 64-bit products of the even lanes, low word in the even, high word in the odd lane.
inline u32x16 multiply_even(u32x16 a, u32x16 b) {
  return each_lane<u32x16>([&](int i) {
    const std::uint64_t product = std::uint64_t{a.lane[i & ~1]} * b.lane[i & ~1];
    return static_cast<std::uint32_t>(i % 2 == 0 ? product : product >> 32);
  });
}
// Odd lanes moved down to the even ones before them; odd lanes become 0.
inline u32x16 odd_to_even(u32x16 x) {
  return each_lane<u32x16>([&](int i) { return i % 2 == 0 ? x.lane[i + 1] : 0u; });
}
// Even lanes of `even`, and the even lanes of `odd` moved up to the odd ones.
inline u32x16 interleave_even(u32x16 even, u32x16 odd) {
  return each_lane<u32x16>([&](int i) { return i % 2 == 0 ? even.lane[i] : odd.lane[i - 1]; });
}

inline f64x16 set_f64(double value) {
  return each_lane<f64x16>([&](int) { return value; });
}
inline f64x16 to_f64(f32x16 x) {
  return each_lane<f64x16>([&](int i) { return static_cast<double>(x.lane[i]); });
}
inline f64x16 operator+(f64x16 a, f64x16 b) {
  return each_lane<f64x16>([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline f64x16 fma(f64x16 a, f64x16 b, f64x16 c) {
  return each_lane<f64x16>([&](int i) { return __builtin_fma(a.lane[i], b.lane[i], c.lane[i]); });
}

inline float first_lane(f32x16 x) { return x.lane[0]; }

// The one tree of lanes.h.
inline float horizontal_sum(f32x16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.lane[i] = x.lane[i] + x.lane[i + half];
  }
  return x.lane[0];
}
inline float horizontal_max(f32x16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.lane[i] = larger(x.lane[i], x.lane[i + half]);
  }
  return x.lane[0];
}
inline double horizontal_sum(f64x16 x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.lane[i] = x.lane[i] + x.lane[i + half];
  }
  return x.lane[0];
}

// out[j,i] = factor x[i,j] for i, j below 8. Not scaled: the bits of x, whatever they stand for.
template <bool kScaled>
inline void transpose_eight(float* out, std::int64_t out_stride, const float* x, std::int64_t x_stride, float factor) {
  for (int j = 0; j < 8; ++j) {
    for (int i = 0; i < 8; ++i) out[j * out_stride + i] = kScaled ? x[i * x_stride + j] * factor : x[i * x_stride + j];
  }
}

// Rows of a product whose sums stay in registers, a vector each: compilers spill six.
constexpr int kRowsInRegisters = 4;

using ColumnVector = f32x16;
constexpr std::int64_t kColumnLanes = 16;
inline ColumnVector set_columns(float value) { return set(value); }
inline ColumnVector load_columns(const float* p) { return load(p); }
inline void load_four_columns(ColumnVector (&out)[4], const float* x, std::int64_t stride) {
  for (int j = 0; j < 4; ++j) {
    out[j] = each_lane<ColumnVector>([&](int i) { return x[i * stride + j]; });
  }
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
