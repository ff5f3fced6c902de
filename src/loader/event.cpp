// SPDX-License-Identifier: Apache-2.0
#include "src/loader/event.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace bascule {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace

// A waiter announces itself before the kernel compares the count; a raiser changes the count before it looks for
// waiters. All in one total order, so one of the two sees the other.
void Event::raise() noexcept {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) ::syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

void Event::wait_beyond(std::uint32_t seen) noexcept {
  sleepers_.fetch_add(1);
  if (count_.load() == seen) ::syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
  sleepers_.fetch_sub(1);
}

}  // namespace bascule
