// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/watch.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "src/base/clock.h"
#include "src/distributed/shared_memory.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kTimeoutMs = 400;
constexpr std::int64_t kPatienceMs = 30'000;  // however loaded the machine is

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

// systemd's end of the socket.
struct Supervisor {
  TemporaryFolder folder;
  int end = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

  Supervisor() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder.path() + "/notify";
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
    EXPECT_EQ(bind(end, static_cast<sockaddr*>(static_cast<void*>(&address)), sizeof address), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    setenv("WATCHDOG_USEC", "4000", 1);  // a message may come with every look
    const timeval limit{kPatienceMs / 1000, 0};
    EXPECT_EQ(setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  }
  ~Supervisor() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(end);
  }
  // The next message; "" where none comes, or where `flags` do not wait and none is there.
  std::string hear(int flags = 0) const {
    char text[64];
    const ssize_t bytes = recv(end, text, sizeof text, flags);
    return std::string(text, bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  }
};

// A process that computes.
struct Alone : TwoRanks {
  Alone() {
    page.local_size = 1;
    page.slots[0].phase.store(static_cast<std::uint32_t>(RankPhase::kComputing));
  }
};

TEST(Watch, TellsASupervisorOfEachBeatOnceAndNothingWhileTheHeartIsStill) {
  const Supervisor supervisor;
  const NotifySocket notify = NotifySocket::from_environment();
  Alone alone;
  std::atomic<int> looks{0};
  Watch watch(alone.page, 0, {}, kPatienceMs, &note);
  watch.keep_alive(&notify);
  for (int beat = 0; beat < 2; ++beat) {
    alone.page.slots[0].heart.beat();
    EXPECT_EQ(supervisor.hear(), "WATCHDOG=1\n");
  }
  // The watch asks for progress in every look, and here there is never any.
  const auto no_progress = [](void* counted) -> std::uint64_t {
    static_cast<std::atomic<int>*>(counted)->fetch_add(1);
    return 0;
  };
  watch.count_progress(no_progress, nullptr, &looks);
  while (looks.load() < 4) usleep(1000);
  EXPECT_EQ(supervisor.hear(MSG_DONTWAIT), "");
}

TEST(Watch, NoticesThatAProcessAloneStandsStill) {
  Alone alone;
  const Watch watch(alone.page, 0, {}, kTimeoutMs, &note);
  while (seen_ms.load() == 0) usleep(1000);
  EXPECT_EQ(alone.page.failure.kind, FailureKind::kStuck);
}

}  // namespace
}  // namespace bascule::test
