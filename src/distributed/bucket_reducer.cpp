// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/bucket_reducer.h"

#include <time.h>

#include <utility>

#include "src/base/elementary.h"

namespace bascule {
namespace {

// How often it looks whether a bucket is final, or the network has moved: often while something moves, else seldom, as
// every look takes its core from the compute thread there. Looking every 100 us throughout cost a step a fifth.
constexpr long kLookNs = 100'000, kSeldomNs = 1'000'000;
constexpr int kLooksBeforeSeldom = 20;

// How often it asks the network before it sleeps: it moves a piece of a block each time.
constexpr int kMoves = 4;

void sleep_for(long nanoseconds) noexcept {
  const timespec pause{0, nanoseconds};
  nanosleep(&pause, nullptr);
}

}  // namespace

BucketReducer::BucketReducer(Group& group, std::vector<std::int64_t> marks, const Work& work)
    : group_(group), marks_(std::move(marks)), work_(work) {
  sem_init(&begun_, 0, 0);
  thread_ = std::thread([this] { serve(); });
}

BucketReducer::~BucketReducer() {
  shall_rest_.store(true);
  update_.store(-1);
  sem_post(&begun_);
  thread_.join();
  sem_destroy(&begun_);
}

void BucketReducer::begin(std::int64_t update) noexcept {
  shall_rest_.store(false);
  update_.store(update);
  sem_post(&begun_);
}

std::size_t BucketReducer::finish() noexcept {
  shall_rest_.store(true);
  while (rested_.load() != update_.load()) sleep_for(kLookNs);
  return done_;
}

void BucketReducer::serve() noexcept {
  use_default_float_environment();
  for (;;) {
    while (sem_wait(&begun_) != 0) continue;  // a signal
    const std::int64_t update = update_.load();
    if (update < 0) return;
    sum_buckets(update);
    rested_.store(update);
  }
}

void BucketReducer::sum_buckets(std::int64_t update) noexcept {
  for (done_ = 0; done_ < marks_.size(); ++done_) {
    while (!is_final(update, done_)) {
      if (shall_rest_.load()) return;
      move_or_sleep();
    }
    if (shall_rest_.load()) return;  // the compute threads are faster
    work_.sum(work_.context, done_);
  }
  while (work_.move != nullptr && !shall_rest_.load()) move_or_sleep();
}

void BucketReducer::move_or_sleep() noexcept {
  bool moved = false;
  for (int i = 0; work_.move != nullptr && i < kMoves; ++i) moved = work_.move(work_.context, done_) || moved;
  still_looks_ = moved ? 0 : still_looks_ + 1;
  if (!moved) sleep_for(work_.move != nullptr && still_looks_ < kLooksBeforeSeldom ? kLookNs : kSeldomNs);
}

bool BucketReducer::is_final(std::int64_t update, std::size_t bucket) const noexcept {
  const ControlPage& page = group_.control();
  for (int rank = 0; rank < page.local_size; ++rank) {
    if (!page.slots[rank].position.has_reached(update, marks_[bucket])) return false;
  }
  return true;
}

}  // namespace bascule
