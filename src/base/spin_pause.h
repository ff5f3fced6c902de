// SPDX-License-Identifier: Apache-2.0
// For the body of a loop that waits for another thread: the core gives its resources to whoever shares it.
#pragma once

namespace bascule {

inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace bascule
