// SPDX-License-Identifier: Apache-2.0
// Arithmetic with the same bits everywhere: elementary functions, normal deviates, and how the CPU rounds.
#pragma once

#include <cstdint>

#include "src/base/philox.h"

namespace bascule {

// Elementary functions in float64 with the same bits everywhere: additions, products and quotients in a fixed order, so
// that no result depends on the C library, its version, or which of its variants it picks for the CPU. Whatever reaches
// weights, schedules, metrics or predictions calls these and not <cmath>, of which only what IEEE 754 defines to the
// bit is used (sqrt, floor, ceil, round, fmod).
//
// Errors are below 0.501 ulp of a normal result: nearly always the correctly rounded number. Kernels have their own
// functions for float (kernels/lanes/lanes_math.h).

// e^x, over all numbers; a subnormal result is rounded twice.
double fixed_exp(double x) noexcept;
// Natural logarithm of x > 0; -infinity of 0, NaN of negative numbers.
double fixed_log(double x) noexcept;
// base^exponent for base >= 0 and 0 <= exponent <= 2^60; 0^0 = 1.
double fixed_power(double base, double exponent) noexcept;
// Cosine and sine of an angle in radians, |x| <= 100,000.
double fixed_cos(double x) noexcept;
double fixed_sin(double x) noexcept;

// Two independent normal deviates from two words (Box & Muller 1958): sqrt(-2 log u) times cosine and sine of 2 pi v,
// where u = (a + 1/2) / 2^32 and v = (b + 1/2) / 2^32. For initial weights: within 4 ulp.
void fixed_normal_pair(std::uint32_t a, std::uint32_t b, double* first, double* second) noexcept;

// Normal deviates by coordinates: initial weights and first latents have one law. Usable before and after the seal.

// destination[i] = deviation * z(first + i) for i < count, where z(e) is deviate e % 4 of the block of four that the
// Philox words at counter (e / 4, stream), 64 bits each, make (elementary.h): N(0, 1), a function of (key, stream, e),
// however a tensor is split. Rounded once, to float32.
void fill_normal(float* destination, std::int64_t first, std::int64_t count, double deviation, PhiloxKey key,
                 std::uint64_t stream) noexcept;

// How the CPU rounds, and whether it keeps subnormal numbers, is state of each thread: a new thread inherits it, and a
// shared library that was linked with -ffast-math changes it in the thread that loads it.

// In this thread: round to nearest, keep subnormals, no traps. Called when the program starts, after MPI has loaded its
// plugins, and first thing in every thread that computes.
void use_default_float_environment() noexcept;

}  // namespace bascule
