// SPDX-License-Identifier: Apache-2.0
// Preloaded into a program: leaves the thread that loads it as a library would that was linked with -ffast-math, which
// flushes subnormals, and rounds upwards besides, so that every sum would show it.
#include <fenv.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

__attribute__((constructor)) static void change_arithmetic(void) {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
  fesetround(FE_UPWARD);
}
