// SPDX-License-Identifier: Apache-2.0
#include "src/loader/event.h"

#include "src/base/futex.h"

namespace bascule {

// A waiter announces itself before the kernel compares the count; a raiser changes the count before it looks for
// waiters. All in one total order, so one of the two sees the other.
void Event::raise() noexcept {
  count_.fetch_add(1);
  if (sleepers_.load() > 0) futex_wake_all(count_, FutexReach::kProcess);
}

void Event::wait_beyond(std::uint32_t seen) noexcept {
  sleepers_.fetch_add(1);
  if (count_.load() == seen) futex_wait(count_, seen, FutexReach::kProcess);
  sleepers_.fetch_sub(1);
}

}  // namespace bascule
