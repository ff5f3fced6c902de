// SPDX-License-Identifier: Apache-2.0
// The watch over the ranks of a node: a thread in each that sees when another one dies (their connection breaks) or
// falls silent (no heartbeat, and not waiting for others), records it, and ends its own process when a failure is
// recorded. It also counts a heartbeat for its own process while that reads, writes or computes outside the tapes. A
// rank that is alone on its node watches its own heart, and the first rank of a node the other nodes.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "src/base/span.h"
#include "src/base/systemd.h"
#include "src/distributed/control.h"
#include "src/distributed/node_links.h"

namespace bascule {

class Watch : NonCopyable {
 public:
  struct Member {
    int socket = -1;  // readable when the other end is gone
    int local_rank = 0;
  };

  // Before the seal. `page` and the sockets outlive this. on_failure: see GroupOptions.
  Watch(ControlPage& page, int local_rank, std::vector<Member> members, std::int64_t timeout_ms,
        void (*on_failure)(ControlPage&));
  ~Watch();

  // From here to watch_nodes() this rank waits for those of other nodes: where they do not come within the timeout,
  // that is the failure.
  void expect_nodes() { expects_nodes_.store(true); }
  // The first rank of a node watches the other nodes too; `links` outlives this. Null: of another rank.
  void watch_nodes(NodeLinks* links);
  // After the seal: a failure is recorded, and the other nodes shall hear of it before this process ends.
  void wait_until_told() const noexcept;

  // See CountedProgress.
  void count_progress(std::uint64_t (*progress)(void*), std::int64_t (*row)(void*), void* context);
  // systemd is told that this process lives, four times in the time that it waits, where the heart has beaten since.
  // notify: outlives this.
  void keep_alive(const NotifySocket* notify) { notify_.store(notify); }

 private:
  struct Silence {
    std::uint64_t beats = 0;
    std::int64_t ms = 0;
  };
  void run() noexcept;
  void look_at_connections(int timeout_ms) noexcept;
  void look_at_hearts(std::int64_t passed_ms) noexcept;
  void look_for_nodes(std::int64_t passed_ms) noexcept;
  void look_at_record(std::int64_t passed_ms) noexcept;
  void beat_for_own_work() noexcept;
  void tell_alive(std::int64_t now_ms) noexcept;

  ControlPage& page_;
  const int local_rank_;
  std::vector<Member> members_;
  const std::int64_t timeout_ms_;
  void (*const on_failure_)(ControlPage&);
  std::vector<Silence> silence_;
  std::mutex progress_lock_;  // held while it is asked, so that what it asks is not taken away meanwhile
  std::uint64_t (*progress_)(void*) = nullptr;
  std::int64_t (*row_)(void*) = nullptr;
  void* context_ = nullptr;
  std::uint64_t last_progress_ = 0;
  std::int64_t window_cpu_ms_ = 0, window_began_ms_ = 0;  // time on cores at the beginning of a second
  std::int64_t last_io_bytes_ = 0;
  std::uint64_t told_beats_ = 0;  // of the heart, when systemd was last told, and when that was
  std::int64_t told_ms_ = 0;
  std::int64_t expected_ms_ = 0;    // how long other nodes have been waited for
  std::uint32_t unfinished_ = 0;    // state of a failure that is being written
  std::int64_t unfinished_ms_ = 0;  // and for how long
  std::atomic<bool> expects_nodes_{false};
  std::atomic<NodeLinks*> links_{nullptr};
  std::atomic<const NotifySocket*> notify_{nullptr};
  std::atomic<bool> is_told_{false};  // to other nodes
  std::atomic<bool> stop_{false};
  int wake_[2] = {-1, -1};  // a pipe: written to end the thread
  std::thread thread_;
};

// Starts a rank's report to the launcher about a failure on another node, which nobody there may have noticed.
inline constexpr char kSeenFrom[] = "bascule: reported by ";
// A rank that starts alone reports this; the launcher passes it on if no rank says more.
inline constexpr char kMissesFirstRank[] = "the first rank of this machine cannot be reached";

// "rank 1 (process 77) ...": what happened, in words. Into a fixed buffer; no allocation. `how`: what the launcher
// knows of its end ("was killed by signal 9"), or null.
struct FailureText {
  char text[400];
};
FailureText failure_text(const FailureFacts& failure, const char* how) noexcept;

}  // namespace bascule
