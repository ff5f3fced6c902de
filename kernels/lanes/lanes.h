// SPDX-License-Identifier: Apache-2.0
// Sixteen lanes of one type: what every vector kernel is written on. One source, compiled once per ISA, gives the same
// bits on all of them: the number of lanes is fixed, every reduction ends in one tree, and a product is fused with a
// sum only by fma().
//
//   f32x16  load store load_partial store_partial set + - * / fma fnma max min sqrt round abs copy_sign less equal
//           select
//   u32x16  bits: set_bits load_bits lane_numbers + - ^ shifts at_least bits_of from_bits, and the products of Philox
//   f64x16  sums in float64: set_f64 to_f64 + fma
//   bf16    store_bf16 load_bf16 round_to_bf16 (and back to float32); load and store of Elements, which are float32 or
//           bf16
//   ColumnVector, of kColumnLanes lanes: set_columns load_columns store + fma load_four_columns
//   float   first_lane horizontal_sum horizontal_max square_root (of one number: the C library's is an inline
//           function, which an ISA unit must not have); transpose_eight (8 x 8)
//
// Every reduction ends in one tree: lanes i and i + 8, then i and i + 4, i and i + 2, i and i + 1.
//
//   f32x16 sum = set(0.0f);
//   for_lanes(cols, [&](auto lanes, std::int64_t c) __attribute__((always_inline)) {
//     sum = sum + load(x + c, lanes);          // absent lanes of the last step: 0, the identity of +
//   });
//   return horizontal_sum(sum);
//
// Only units of the ISA libraries (simd/) include this: everything lies in an unnamed namespace, so that no function
// compiled with wide instructions can be the copy that the linker keeps for everyone. fma(a, b, c) = a b + c, fnma(a,
// b, c) = c - a b, rounded once. max and min return the second argument where either is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/elements.h"

#if defined(BASCULE_SCALAR_LANES) || !defined(__AVX2__)
#include "kernels/lanes/lanes_scalar.h"
#else
#include "kernels/lanes/lanes_x86.h"
#endif

namespace bascule::BASCULE_ISA {
namespace {

constexpr std::int64_t kLanes = 16;

// How many lanes of a step exist: all, or the first few of the last step of a row.
struct AllLanes {};
struct FirstLanes {
  std::int64_t count;  // 1 .. 15
};

inline f32x16 load(const float* p, AllLanes) { return load(p); }
inline f32x16 load(const float* p, FirstLanes lanes) { return load_partial(p, lanes.count, 0.0f); }
inline f32x16 load(const float* p, AllLanes, float) { return load(p); }
inline f32x16 load(const float* p, FirstLanes lanes, float fill) { return load_partial(p, lanes.count, fill); }
inline void store(float* p, AllLanes, f32x16 x) { store(p, x); }
inline void store(float* p, FirstLanes lanes, f32x16 x) { store_partial(p, lanes.count, x); }
inline f32x16 load(const std::uint16_t* p, AllLanes) { return load_bf16(p); }
inline f32x16 load(const std::uint16_t* p, FirstLanes lanes) {
  std::uint16_t numbers[16] = {};
  for (std::int64_t i = 0; i < lanes.count; ++i) numbers[i] = p[i];
  return load_bf16(numbers);
}
inline void store(std::uint16_t* p, AllLanes, f32x16 x) { store_bf16(p, x); }
inline void store(std::uint16_t* p, FirstLanes lanes, f32x16 x) {
  std::uint16_t numbers[16];
  store_bf16(numbers, x);
  for (std::int64_t i = 0; i < lanes.count; ++i) p[i] = numbers[i];
}
// Numbers of either type, from element c on. The branch is the same for all of a tensor.
template <typename Lanes>
[[gnu::always_inline]] inline f32x16 load(ConstElements x, std::int64_t c, Lanes lanes) {
  return x.is_bf16() ? load(x.bf16() + c, lanes) : load(x.float32() + c, lanes);
}
template <typename Lanes>
[[gnu::always_inline]] inline void store(Elements out, std::int64_t c, Lanes lanes, f32x16 x) {
  out.is_bf16() ? store(out.bf16() + c, lanes, x) : store(out.float32() + c, lanes, x);
}
// x where the lane exists, `fill` elsewhere: before a sum whose absent lanes would not be its identity by themselves.
inline f32x16 keep(AllLanes, f32x16 x, float) { return x; }
inline f32x16 keep(FirstLanes lanes, f32x16 x, float fill) { return select(first_lanes(lanes.count), x, set(fill)); }

// step(lanes, c) for c = 0, 16, 32, ... below `count`; only the last may have fewer than all lanes.
template <typename Step>
[[gnu::always_inline]] inline void for_lanes(std::int64_t count, const Step& step) {
  std::int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) step(AllLanes{}, c);
  if (c < count) step(FirstLanes{count - c}, c);
}

// sum = step(lanes, c, sum) over c = 0, 16, 32, ... below `count`, from zero, then down the tree. Two sums in turn:
// each addition would otherwise wait for the one before it.
template <typename Step>
[[gnu::always_inline]] inline float sum_over_lanes(std::int64_t count, const Step& step) {
  f32x16 even = set(0.0f);
  f32x16 odd = set(0.0f);
  std::int64_t c = 0;
  for (; c + 2 * kLanes <= count; c += 2 * kLanes) {
    even = step(AllLanes{}, c, even);
    odd = step(AllLanes{}, c + kLanes, odd);
  }
  for_lanes(
      count - c, [&](auto lanes, std::int64_t rest)
                     __attribute__((always_inline)) { even = step(lanes, c + rest, even); });
  return horizontal_sum(even + odd);
}

}  // namespace
}  // namespace bascule::BASCULE_ISA
