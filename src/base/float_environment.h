// SPDX-License-Identifier: Apache-2.0
// How the CPU rounds, and whether it keeps subnormal numbers, is state of each thread: a new thread inherits it, and a
// shared library that was linked with -ffast-math changes it in the thread that loads it.
#pragma once

namespace bascule {

// In this thread: round to nearest, keep subnormals, no traps. Called when the program starts, after MPI has loaded its
// plugins, and first thing in every thread that computes.
void use_default_float_environment() noexcept;

}  // namespace bascule
