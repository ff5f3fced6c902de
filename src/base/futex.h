// SPDX-License-Identifier: Apache-2.0
// Sleeping on a word of memory until another thread, or another process that shares the memory, changes it. No call
// allocates; usable after the seal from any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace bascule {

enum class FutexReach { kProcess, kSharedMemory };

// Sleeps if `word` is `value`. Returns when somebody wakes it, after timeout_ns (negative: never), and sometimes for no
// reason: look again afterwards.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, FutexReach reach,
                std::int64_t timeout_ns = -1) noexcept;
// Wakes all that sleep on `word`; call it after the change.
void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexReach reach) noexcept;

}  // namespace bascule
