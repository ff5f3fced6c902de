// SPDX-License-Identifier: Apache-2.0
#include "src/distributed/shared_memory.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace bascule::test {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kBatch = 2, kDigests = 3;

// In memory that is zero, as that of ranks is.
class Queue {
 public:
  Queue() : memory_(DrawnQueue::bytes(kRanks, kBatch, kDigests) / kCacheLine), queue(first(), kBatch, kDigests) {}

  bool push(int rank, std::size_t number) {
    const std::vector<std::uint64_t> latents = {number, number + 1, number + 2};
    return queue.push(rank, {number, 0.5, 7 * number}, {latents.data(), latents.size()});
  }
  // The number of the picture that is taken; -1: none.
  std::int64_t take(int rank) {
    DrawnQueue::Entry entry;
    if (!queue.front(rank, &entry)) return -1;
    const std::size_t number = entry.picture.number;
    EXPECT_EQ(entry.picture.seconds, 0.5);
    EXPECT_EQ(entry.picture.digest, 7 * number);
    EXPECT_EQ(entry.latents.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(entry.latents[i], number + i);
    queue.pop(rank);
    return static_cast<std::int64_t>(number);
  }

 private:
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine] = {};
  };
  std::byte* first() { return memory_.front().bytes; }
  std::vector<Line> memory_;

 public:
  DrawnQueue queue;
};

TEST(DrawnQueue, GivesWhatEachRankPushedInOrder) {
  Queue q;
  EXPECT_EQ(q.take(1), -1);
  EXPECT_TRUE(q.push(1, 5));
  EXPECT_TRUE(q.push(2, 9));
  EXPECT_TRUE(q.push(1, 6));
  EXPECT_EQ(q.take(1), 5);
  EXPECT_EQ(q.take(1), 6);
  EXPECT_EQ(q.take(1), -1);
  EXPECT_EQ(q.take(2), 9);
}

TEST(DrawnQueue, TakesTwoBatchesAndNoMoreUntilOneIsTaken) {
  Queue q;
  for (std::size_t n = 0; n < 4; ++n) EXPECT_TRUE(q.push(2, n));
  EXPECT_FALSE(q.push(2, 4));
  EXPECT_TRUE(q.push(1, 100)) << "each rank has a ring of its own";
  EXPECT_EQ(q.take(2), 0);
  EXPECT_TRUE(q.push(2, 4));
  for (std::int64_t n = 1; n < 5; ++n) EXPECT_EQ(q.take(2), n);
}

TEST(DrawnQueue, ARankIsDoneOnceItHasEndedAndAllWasTaken) {
  Queue q;
  EXPECT_TRUE(q.push(1, 3));
  EXPECT_FALSE(q.queue.is_done(1));
  q.queue.end(1);
  EXPECT_FALSE(q.queue.is_done(1));
  EXPECT_EQ(q.take(1), 3);
  EXPECT_TRUE(q.queue.is_done(1));
  EXPECT_FALSE(q.queue.is_done(2));
}

TEST(DrawnQueue, LosesNothingBetweenTwoThreads) {
  Queue q;
  constexpr std::int64_t kPictures = 2000;
  std::thread rank([&] {
    for (std::int64_t n = 0; n < kPictures; ++n) {
      while (!q.push(1, static_cast<std::size_t>(n))) std::this_thread::yield();
    }
    q.queue.end(1);
  });
  for (std::int64_t n = 0; n < kPictures;) {
    const std::int64_t taken = q.take(1);
    if (taken < 0) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_EQ(taken, n++);
  }
  rank.join();
  EXPECT_TRUE(q.queue.is_done(1));
}

}  // namespace
}  // namespace bascule::test
