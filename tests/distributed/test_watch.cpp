// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/watch.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "src/base/clock.h"
#include "src/distributed/shared_memory.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kTimeoutMs = 400;

std::atomic<std::int64_t> seen_ms{0};  // when the watch first told of a failure

void note(ControlPage&) {
  std::int64_t none = 0;
  seen_ms.compare_exchange_strong(none, monotonic_ms());
}

// A page of two ranks; this process watches as rank 0, and rank 1 computes without a beat.
struct TwoRanks {
  SharedMemory memory{ControlPage::bytes(2)};
  ControlPage& page = *static_cast<ControlPage*>(static_cast<void*>(memory.data()));

  TwoRanks() {
    page.local_size = 2;
    page.nodes = 1;
    page.slots[1].phase.store(static_cast<std::uint32_t>(RankPhase::kComputing));
    seen_ms.store(0);
  }
};

std::int64_t milliseconds_until_seen() {
  TwoRanks ranks;
  const std::int64_t began_ms = monotonic_ms();
  const Watch watch(ranks.page, 0, {}, kTimeoutMs, &note);
  while (seen_ms.load() == 0) usleep(1000);
  EXPECT_EQ(ranks.page.failure.kind, FailureKind::kStuck);
  EXPECT_EQ(ranks.page.failure.rank, 1);
  return seen_ms.load() - began_ms;
}

TEST(Watch, SeesASilentRankBetweenOnceAndTwiceTheTimeout) {
  // On a machine that others keep busy a watch may itself be late, and is then asked again; it is never early.
  std::int64_t earliest = 100 * kTimeoutMs;
  for (int attempt = 0; attempt < 5 && earliest >= 2 * kTimeoutMs; ++attempt) {
    const std::int64_t after = milliseconds_until_seen();
    EXPECT_GE(after, kTimeoutMs);
    earliest = std::min(earliest, after);
  }
  EXPECT_LT(earliest, 2 * kTimeoutMs);
}

TEST(Watch, CountsTheTimeoutFromTheLastBeat) {
  TwoRanks ranks;
  const Watch watch(ranks.page, 0, {}, kTimeoutMs, &note);
  std::int64_t last_ms = 0;
  for (const std::int64_t began_ms = monotonic_ms();
       monotonic_ms() < began_ms + 2 * kTimeoutMs && seen_ms.load() == 0;) {
    ranks.page.slots[1].heart.beat();
    last_ms = monotonic_ms();
    usleep(10'000);
  }
  EXPECT_EQ(seen_ms.load(), 0);
  while (seen_ms.load() == 0) usleep(1000);
  // The watch may have read the last beat up to one of its looks after it was made, never before.
  EXPECT_GE(seen_ms.load() - last_ms, kTimeoutMs - 50);
}

}  // namespace
}  // namespace bascule::test
