// SPDX-License-Identifier: Apache-2.0
// Waiting for other threads and processes: a futex, a pause while spinning, a heartbeat.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/span.h"

namespace bascule {

// Sleeping on a word of memory until another thread, or another process that shares the memory, changes it. No call
// allocates; usable after the seal from any thread.

enum class FutexReach { kProcess, kSharedMemory };

// Sleeps if `word` is `value`. Returns when somebody wakes it, after timeout_ns (negative: never), and sometimes for no
// reason: look again afterwards.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, FutexReach reach,
                std::int64_t timeout_ns = -1) noexcept;
// Wakes all that sleep on `word`; call it after the change.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexReach reach) noexcept;

// A heartbeat: a sign that a process is alive, counted where the work is done and read by whoever watches it, in
// another thread or, where it lies in shared memory, another process. Writing it is one plain store. It says nothing of
// how far the process has come: that is TapePosition.

struct alignas(kCacheLine) Heartbeat {
  std::atomic<std::uint64_t> beats{0};  // grows with every piece of work done

  void beat() noexcept { beats.fetch_add(1, std::memory_order_relaxed); }
};

// For the body of a loop that waits for another thread: the core gives its resources to whoever shares it.

inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace bascule
