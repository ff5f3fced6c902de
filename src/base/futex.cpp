// SPDX-License-Identifier: Apache-2.0
#include "src/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace bascule {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel compares the word itself");

constexpr std::int64_t kSecondNs = 1'000'000'000;

int flag_of(FutexReach reach) noexcept { return reach == FutexReach::kProcess ? FUTEX_PRIVATE_FLAG : 0; }

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, FutexReach reach,
                std::int64_t timeout_ns) noexcept {
  const timespec timeout{timeout_ns / kSecondNs, timeout_ns % kSecondNs};
  ::syscall(SYS_futex, &word, FUTEX_WAIT | flag_of(reach), value, timeout_ns < 0 ? nullptr : &timeout, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word, FutexReach reach) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE | flag_of(reach), INT_MAX, nullptr, nullptr, 0);
}

}  // namespace bascule
