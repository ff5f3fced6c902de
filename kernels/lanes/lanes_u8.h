// SPDX-License-Identifier: Apache-2.0
// Pixels of four bytes in lanes: four pixels are the sixteen values of an f32x16, eight are the sixteen pairs that an
// integer multiply-add takes at once. Everything here is exact but quarter_sums of floats, which has one tree.
//
//   Pairs        thirty-two 16-bit values, in sixteen pairs: pixel_pairs weight_pairs row_pairs
//   Columns      the sums of thirty-two neighbouring values: multiply_add store_bytes
//   u32x16 multiply_add(sum, Pairs, Pairs)       sum + first product + second product, lane by lane
//   quarter_sums(a, b, c, d)                     quarter k: the four quarters of the k-th argument added up
//   Four pixels: pixels_to_float spread store_quarters;  sixteen pixels: load_pixels channel deinterleave
//
// Only units of the ISA libraries (simd/) include this, after lanes.h.
#pragma once

#include "kernels/lanes/lanes.h"

#if defined(BASCULE_SCALAR_LANES) || !defined(__AVX2__)
#include "kernels/lanes/lanes_u8_scalar.h"
#elif defined(__AVX512F__)
#include "kernels/lanes/lanes_u8_avx512.h"
#else
#include "kernels/lanes/lanes_u8_avx2.h"
#endif
