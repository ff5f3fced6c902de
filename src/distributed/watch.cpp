// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/descriptor.h"

namespace bascule {
namespace {

constexpr int kLookMs = 50;
// A pause of the watch itself (a stopped machine, a debugger) is not the silence of the others.
constexpr std::int64_t kLongestLookMs = 4 * kLookMs;
// Work shows as so much time on a core within so long; less is the trickle of threads that only wait.
constexpr std::int64_t kCpuOfWorkMs = 5, kCpuWindowMs = 1000;
constexpr int kLooksAfterTheFirst = 40;
constexpr long kLineNs = 500'000'000;  // that a line is given to get to the launcher, through MPI's daemon
// In this time the ranks of another machine may find out, and report better, what is wrong there.
constexpr std::int64_t kOthersWordsMs = 1000;
constexpr std::int64_t kLongestRecordMs = 2000;  // a line to standard error, at most

// Bytes that this process has read from and written to disks.
std::int64_t disk_bytes() noexcept {
  char text[512];
  std::int64_t bytes = 0;
  if (!read_small_file("/proc/self/io", text)) return bytes;
  for (const char* key : {"\nread_bytes: ", "\nwrite_bytes: "}) {
    const char* const at = std::strstr(text, key);
    if (at != nullptr) bytes += std::strtoll(at + std::strlen(key), nullptr, 10);
  }
  return bytes;
}

// The line is told once: on node 0, or where that has nobody left on the next one. A launcher reads the page of node 0,
// and is told only what may not have got there.
bool is_ours_to_tell(ControlPage& page) noexcept {
  FailureRecord& failure = page.failure;
  if (failure.kind == FailureKind::kGaveUp || failure.is_told.exchange(1) != 0) return false;
  if (page.has_launcher != 0) return page.node != 0;
  const bool is_node_0_gone =
      failure.kind == FailureKind::kAbsent ? failure.rank <= 0 : failure.rank == 0 && page.local_size == 1;
  return page.node == 0 || (page.node == 1 && is_node_0_gone);
}

bool was_drawing(const FailureFacts& failure) noexcept { return failure.phase == RankPhase::kDrawing; }

void end_process(ControlPage& page) noexcept {
  const FailureRecord& failure = page.failure;
  if (is_ours_to_tell(page)) {
    const bool is_hearsay = page.has_launcher != 0;
    const char* const goes_on = was_drawing(failure) ? "to draw the pictures that are missing"
                                                     : "to resume from the newest complete checkpoint, if any";
    char line[600];
    const int length = std::snprintf(line, sizeof line, "%s%s%s%s%s; run the same command again %s\n",
                                     is_hearsay ? "" : journal_error_mark(),
                                     is_hearsay ? kSeenFrom : "bascule: ", is_hearsay ? page.host : "",
                                     is_hearsay ? ": " : "", failure_text(failure, nullptr).text, goes_on);
    if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) _exit(failure.exit_code);
  }
  // MPI's daemon of this node, which `bascule run` started for this run alone, cannot hear that it is over.
  if (page.is_cut_off.load() != 0 && page.has_launcher != 0 && page.node != 0 && getppid() == page.parent) {
    const timespec line_passes{0, kLineNs};
    nanosleep(&line_passes, nullptr);
    kill(page.parent, SIGKILL);
  }
  // mpirun tells how the first process ended that it sees ending: that shall not be this one. Once it has seen that
  // one, on whichever machine, it ends all others by SIGTERM. On a busy machine that takes long; a pause in pieces also
  // outlasts one in which nothing of the run had a core.
  if (failure.kind == FailureKind::kEnded) {
    signal(SIGTERM, SIG_DFL);
    const timespec pause{0, kLookMs * 1'000'000L};
    for (int look = 0; look < kLooksAfterTheFirst; ++look) nanosleep(&pause, nullptr);
  }
  _exit(failure.exit_code);
}

}  // namespace

Watch::Watch(ControlPage& page, int local_rank, std::vector<Member> members, std::int64_t timeout_ms,
             void (*on_failure)(ControlPage&))
    : page_(page),
      local_rank_(local_rank),
      members_(std::move(members)),
      timeout_ms_(timeout_ms),
      on_failure_(on_failure != nullptr ? on_failure : &end_process),
      silence_(static_cast<std::size_t>(page.local_size)) {
  if (pipe2(wake_, O_CLOEXEC | O_NONBLOCK) != 0) wake_[0] = wake_[1] = -1;
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  stop_.store(true);
  const char byte = 0;
  if (write(wake_[1], &byte, 1) != 1) stop_.store(true);  // it looks by itself soon
  thread_.join();
  close(wake_[0]);
  close(wake_[1]);
}

void Watch::count_progress(std::uint64_t (*progress)(void*), std::int64_t (*row)(void*), void* context) {
  const std::lock_guard<std::mutex> lock(progress_lock_);
  progress_ = progress;
  row_ = row;
  context_ = context;
}

void Watch::wait_until_told() const noexcept {
  const timespec pause{0, 5'000'000};
  for (int i = 0; i < 400 && !is_told_.load(); ++i) nanosleep(&pause, nullptr);
}

void Watch::run() noexcept {
  std::int64_t looked_ms = monotonic_ms();
  while (!stop_.load()) {
    look_at_connections(kLookMs);
    const std::int64_t now_ms = monotonic_ms();
    beat_for_own_work();
    tell_alive(now_ms);
    const std::int64_t passed_ms = std::min(now_ms - looked_ms, kLongestLookMs);
    looked_ms = now_ms;
    look_at_hearts(passed_ms);
    look_for_nodes(passed_ms);
    look_at_record(passed_ms);
    NodeLinks* const links = links_.load();
    if (links != nullptr && !is_told_.load()) links->look(passed_ms);
    const FailureRecord& failure = page_.failure;
    if (failure.state.load(std::memory_order_acquire) != 2 || stop_.load()) continue;
    if (links != nullptr && !is_told_.load()) links->tell();
    is_told_.store(true);
    const bool is_own = failure.rank == page_.first_rank + local_rank_ && failure.kind == FailureKind::kGaveUp;
    if (!is_own) on_failure_(page_);
  }
}

void Watch::look_at_connections(int timeout_ms) noexcept {
  constexpr std::size_t kMost = 1024;
  pollfd polled[kMost];
  const std::size_t count = std::min(members_.size(), kMost - 1);
  for (std::size_t i = 0; i < count; ++i) polled[i] = {members_[i].socket, POLLIN | POLLRDHUP, 0};
  polled[count] = {wake_[0], POLLIN, 0};
  if (poll(polled, count + 1, timeout_ms) <= 0) return;
  for (std::size_t i = 0; i < count; ++i) {
    if (polled[i].revents == 0) continue;
    const int local_rank = members_[i].local_rank;
    members_[i].socket = -1;  // poll passes over it from now on
    if (static_cast<RankPhase>(page_.slots[local_rank].phase.load()) != RankPhase::kDone)
      record_failure(page_, FailureKind::kEnded, local_rank, 5);
  }
}

void Watch::look_at_hearts(std::int64_t passed_ms) noexcept {
  const bool is_alone = page_.local_size == 1;
  for (int other = 0; other < page_.local_size; ++other) {
    const RankSlot& slot = page_.slots[other];
    Silence& silence = silence_[static_cast<std::size_t>(other)];
    const std::uint64_t beats = slot.heart.beats.load(std::memory_order_relaxed);
    const bool is_fine = (other == local_rank_ && !is_alone) || beats != silence.beats || page_.is_waiting(other) ||
                         static_cast<RankPhase>(slot.phase.load()) == RankPhase::kDone;
    silence.beats = beats;
    silence.ms = is_fine ? 0 : silence.ms + passed_ms;
    if (silence.ms < timeout_ms_ || !record_failure(page_, FailureKind::kStuck, other, 5)) continue;
    if (slot.pid.load() > 0 && !is_alone) kill(slot.pid.load(), SIGKILL);  // it may be stopped and deaf to all else
  }
}

void Watch::watch_nodes(NodeLinks* links) {
  links_.store(links);
  expects_nodes_.store(false);
}

// To wait for them is no silence of this rank.
void Watch::look_for_nodes(std::int64_t passed_ms) noexcept {
  if (!expects_nodes_.load()) return;
  page_.slots[local_rank_].heart.beat();
  expected_ms_ += passed_ms;
  if (expected_ms_ < timeout_ms_ + kOthersWordsMs) return;
  FailureFacts facts{};
  facts.kind = FailureKind::kAbsent;
  facts.rank = page_.awaited_rank.load();
  facts.exit_code = 5;
  if (record_failure(page_, facts)) page_.is_cut_off.store(1);
}

// A record that is being written for too long would never be reported: it is completed here.
void Watch::look_at_record(std::int64_t passed_ms) noexcept {
  const std::uint32_t state = page_.failure.state.load(std::memory_order_acquire);
  unfinished_ms_ = state % 2 == 1 && state == unfinished_ ? unfinished_ms_ + passed_ms : 0;
  unfinished_ = state;
  if (unfinished_ms_ > kLongestRecordMs) complete_failure(page_, state, local_rank_);
}

// Outside the tapes work shows as time on a core or bytes of a disk; within them it is the tape that beats, so that an
// endless loop there is seen.
void Watch::beat_for_own_work() noexcept {
  RankSlot& slot = page_.slots[local_rank_];
  bool has_worked = false;
  {
    const std::lock_guard<std::mutex> lock(progress_lock_);
    const std::uint64_t counted = progress_ != nullptr ? progress_(context_) : 0;
    slot.row.store(row_ != nullptr ? row_(context_) + 1 : 0, std::memory_order_relaxed);
    has_worked = counted != last_progress_;
    last_progress_ = counted;
  }
  const RankPhase phase = static_cast<RankPhase>(slot.phase.load());
  const bool is_outside = phase == RankPhase::kStarting || phase == RankPhase::kSealing ||
                          phase == RankPhase::kWaitingForData || phase == RankPhase::kSaving ||
                          phase == RankPhase::kFinishing;
  if (is_outside) {
    const std::int64_t cpu_ms = (process_cpu_ns() - thread_cpu_ns()) / 1'000'000;
    const std::int64_t io_bytes = disk_bytes();
    const bool has_computed = cpu_ms - window_cpu_ms_ >= kCpuOfWorkMs;
    has_worked = has_worked || has_computed || io_bytes != last_io_bytes_;
    const std::int64_t now_ms = monotonic_ms();
    if (has_computed || now_ms - window_began_ms_ >= kCpuWindowMs) {
      window_cpu_ms_ = cpu_ms;
      window_began_ms_ = now_ms;
    }
    last_io_bytes_ = io_bytes;
  }
  if (has_worked) slot.heart.beat();
}

void Watch::tell_alive(std::int64_t now_ms) noexcept {
  const NotifySocket* const notify = notify_.load();
  if (notify == nullptr || notify->watchdog_ms() == 0 || now_ms - told_ms_ < notify->watchdog_ms() / 4) return;
  const std::uint64_t beats = page_.slots[local_rank_].heart.beats.load(std::memory_order_relaxed);
  if (beats == told_beats_ && !page_.is_waiting(local_rank_)) return;
  told_beats_ = beats;
  told_ms_ = now_ms;
  notify->send("WATCHDOG=1\n");
}

FailureText failure_text(const FailureFacts& failure, const char* how) noexcept {
  FailureText line{};
  char who[sizeof failure.host + 48] = "a rank";
  if (failure.kind == FailureKind::kAbsent) {
    if (failure.rank >= 0) std::snprintf(who, sizeof who, "rank %d", static_cast<int>(failure.rank));
    std::snprintf(
        line.text, sizeof line.text,
        "%s on another machine did not connect within timeout_seconds: it has stopped, or a firewall blocks it", who);
    return line;
  }
  const char* const what = how != nullptr                        ? how
                           : failure.kind == FailureKind::kEnded ? "exited unexpectedly (killed?)"
                           : failure.kind == FailureKind::kStuck ? "has shown no sign of life for timeout_seconds"
                                                                 : "failed with an error";
  char step[48] = "";
  const bool draws = was_drawing(failure);
  if (failure.step > 0)
    std::snprintf(step, sizeof step, draws ? " batch %lld" : " in update %lld", static_cast<long long>(failure.step));
  char operation[48] = "";
  if (failure.phase == RankPhase::kComputing || draws)
    std::snprintf(operation, sizeof operation, ", operation %lld", static_cast<long long>(failure.operation));
  if (failure.phase == RankPhase::kWaitingForData && failure.row > 0)
    std::snprintf(operation, sizeof operation, ", row %lld", static_cast<long long>(failure.row));
  char host[sizeof failure.host + 8] = "";
  if (failure.host[0] != '\0') std::snprintf(host, sizeof host, " on %s", failure.host);
  if (failure.rank >= 0)
    std::snprintf(who, sizeof who, "rank %d (process %d%s)", static_cast<int>(failure.rank),
                  static_cast<int>(failure.pid), host);
  std::snprintf(line.text, sizeof line.text, "%s %s %s%s%s", who, what, phase_words(failure.phase), step, operation);
  return line;
}

}  // namespace bascule
