// SPDX-License-Identifier: Apache-2.0
#include "src/base/clock.h"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(Clock, SecondsMillisecondsAndNanosecondsAreOfOneClock) {
  const std::int64_t first = monotonic_ns();
  const double seconds = monotonic_seconds();
  const std::int64_t milliseconds = monotonic_ms(), last = monotonic_ns();
  EXPECT_LE(1e-9 * static_cast<double>(first) - 1e-6, seconds);
  EXPECT_LE(seconds, 1e-9 * static_cast<double>(last) + 1e-6);
  EXPECT_LE(first / 1'000'000, milliseconds);
  EXPECT_LE(milliseconds, last / 1'000'000);
}

TEST(Clock, SleepsUntilAMomentAndNotAtAllUntilOneThatIsPast) {
  const double when = monotonic_seconds() + 1e-3;
  sleep_until(when);
  EXPECT_GE(monotonic_seconds(), when - 1e-6);
  sleep_until(when - 1.0);
}

TEST(Clock, TimeOnACoreIsOfTheThreadAndOfTheProcess) {
  const std::int64_t thread = thread_cpu_ns();
  EXPECT_GT(thread, 0);
  EXPECT_LE(thread, process_cpu_ns());
}

}  // namespace
}  // namespace bascule
