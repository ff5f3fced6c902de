// SPDX-License-Identifier: Apache-2.0
// Pixels in lanes in plain C++. The same functions with the same bits as lanes_u8_avx2.h; lanes_u8.h chooses and
// explains.
#pragma once

#include <cstdint>

#include "kernels/lanes/lanes_scalar.h"

namespace bascule::BASCULE_ISA {
namespace {

// Lane i has the pair of channel i % 4 of pixels 2 q and 2 q + 1, where q = i / 4 is its quarter.
struct Pairs {
  std::int32_t first[16], second[16];
};
struct Columns {
  std::int32_t lane[32];
};

inline Pairs pixel_pairs(const std::uint8_t* p) {
  Pairs out;
  for (int i = 0; i < 16; ++i) {
    out.first[i] = p[i / 4 * 8 + i % 4];
    out.second[i] = p[i / 4 * 8 + 4 + i % 4];
  }
  return out;
}
// Eight weights, each pair of them in the lanes of its pixels.
inline Pairs weight_pairs(const std::int16_t* p) {
  Pairs out;
  for (int i = 0; i < 16; ++i) {
    out.first[i] = p[i / 4 * 2];
    out.second[i] = p[i / 4 * 2 + 1];
  }
  return out;
}
inline u32x16 multiply_add(u32x16 sum, Pairs a, Pairs b) {
  return each_lane<u32x16>([&](int i) {
    return sum.lane[i] + static_cast<std::uint32_t>(a.first[i] * b.first[i] + a.second[i] * b.second[i]);
  });
}

inline Columns set_columns(std::int32_t value) {
  Columns out;
  for (std::int32_t& lane : out.lane) lane = value;
  return out;
}
// sum + first * (bytes of row `a`) + second * (bytes of row `b`)
inline Columns multiply_add(Columns sum, const std::uint8_t* a, const std::uint8_t* b, std::int16_t first,
                            std::int16_t second) {
  for (int i = 0; i < 32; ++i) sum.lane[i] += first * a[i] + second * b[i];
  return sum;
}

inline std::uint8_t clipped_to_byte(std::int32_t x) { return static_cast<std::uint8_t>(x < 0 ? 0 : x > 255 ? 255 : x); }
inline void store_bytes(std::uint8_t* p, Columns sum, int shift) {
  for (int i = 0; i < 32; ++i) p[i] = clipped_to_byte(sum.lane[i] >> shift);
}

// Lane 4 k + c: lane c of each quarter of the k-th argument, (first + third) + (second + fourth).
template <typename Vector>
[[gnu::always_inline]] inline Vector sums_of_quarters(const Vector& a, const Vector& b, const Vector& c,
                                                      const Vector& d) {
  const Vector* const from[4] = {&a, &b, &c, &d};
  return each_lane<Vector>([&](int i) {
    const auto* const x = from[i / 4]->lane + i % 4;
    return (x[0] + x[8]) + (x[4] + x[12]);
  });
}
inline u32x16 quarter_sums(u32x16 a, u32x16 b, u32x16 c, u32x16 d) { return sums_of_quarters(a, b, c, d); }
inline f32x16 quarter_sums(f32x16 a, f32x16 b, f32x16 c, f32x16 d) { return sums_of_quarters(a, b, c, d); }

// One pixel of each of four rows in each argument, shifted and clipped to bytes: quarter k of all four goes to p[k].
inline void store_pixels(std::uint8_t* const p[4], u32x16 a, u32x16 b, u32x16 c, u32x16 d, int shift) {
  const u32x16 pixels[4] = {a, b, c, d};
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 16; ++i)
      p[k][i] = clipped_to_byte(static_cast<std::int32_t>(pixels[i / 4].lane[4 * k + i % 4]) >> shift);
  }
}
inline void store_quarters(float* const p[4], f32x16 x) {
  for (int i = 0; i < 16; ++i) p[i / 4][i % 4] = x.lane[i];
}

// Four pixels.
inline f32x16 pixels_to_float(const std::uint8_t* p) {
  return each_lane<f32x16>([&](int i) { return static_cast<float>(p[i]); });
}
// Four numbers, each in the four lanes of its quarter.
inline f32x16 spread(const float* p) {
  return each_lane<f32x16>([&](int i) { return p[i / 4]; });
}

// Sixteen pixels, and one channel of them.
inline u32x16 load_pixels(const std::uint8_t* p) {
  return each_lane<u32x16>([&](int i) {
    return std::uint32_t{p[4 * i]} | std::uint32_t{p[4 * i + 1]} << 8 | std::uint32_t{p[4 * i + 2]} << 16 |
           std::uint32_t{p[4 * i + 3]} << 24;
  });
}
template <int kChannel>
inline f32x16 channel(u32x16 pixels) {
  return each_lane<f32x16>([&](int i) { return static_cast<float>(pixels.lane[i] >> 8 * kChannel & 255u); });
}

struct Planes {
  f32x16 channels[3];
};
// Pixels 0-3, 4-7, 8-11, 12-15.
inline Planes deinterleave(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
  const f32x16* const pixels[4] = {&a, &b, &c, &d};
  Planes out;
  for (int k = 0; k < 3; ++k)
    out.channels[k] = each_lane<f32x16>([&](int i) { return pixels[i / 4]->lane[i % 4 * 4 + k]; });
  return out;
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
