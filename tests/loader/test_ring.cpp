// SPDX-License-Identifier: Apache-2.0
#include "src/loader/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace bascule::test_ring {
namespace {

BatchOrder order_of(std::int64_t rows, std::int64_t world_size, std::int64_t rank, std::int64_t batch_per_rank) {
  BatchDealing dealing;
  dealing.rows = rows;
  dealing.world_size = world_size;
  dealing.rank = rank;
  dealing.batch_per_rank = batch_per_rank;
  return BatchOrder(dealing);
}

TEST(Ring, GivesSamplesInOrderAndOnlyOfOpenBatches) {
  const BatchOrder order = order_of(5, 1, 0, 2);  // batches of 2, 2, 1
  Ring ring(order, 2);
  SampleClaim claim;
  EXPECT_FALSE(ring.try_claim(&claim));
  ring.begin(1);
  EXPECT_FALSE(ring.try_claim(&claim));
  ring.open(1);
  ring.open(2);
  const SampleClaim expected[] = {{1, 0}, {1, 1}, {2, 0}};
  for (const SampleClaim& one : expected) {
    ASSERT_TRUE(ring.try_claim(&claim));
    EXPECT_EQ(claim.number, one.number);
    EXPECT_EQ(claim.sample, one.sample);
  }
  EXPECT_FALSE(ring.try_claim(&claim));
}

TEST(Ring, MakesABatchReadyWhenItsLastSampleIsFinishedInWhateverOrder) {
  const BatchOrder order = order_of(6, 1, 0, 3);
  Ring ring(order, 2);
  ring.begin(0);
  ring.open(0);
  SampleClaim claim;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(ring.try_claim(&claim));
  EXPECT_FALSE(ring.finish_sample(0));
  EXPECT_FALSE(ring.finish_sample(0));
  EXPECT_FALSE(ring.is_ready(0));
  EXPECT_TRUE(ring.finish_sample(0));
  ring.publish(0);
  EXPECT_TRUE(ring.is_ready(0));
  ring.await(0);
}

TEST(Ring, HasAnEmptyBatchReadyAtOnceAndGoesOnAfterIt) {
  const BatchOrder order = order_of(5, 4, 3, 1);  // rank 3 has one sample of the first four, none of the last one
  Ring ring(order, 3);
  ring.begin(0);
  for (std::int64_t number = 0; number < 3; ++number) ring.open(number);
  EXPECT_TRUE(ring.is_ready(1));
  SampleClaim claim;
  ASSERT_TRUE(ring.try_claim(&claim));
  EXPECT_EQ(claim.number, 0);
  ASSERT_TRUE(ring.try_claim(&claim));
  EXPECT_EQ(claim.number, 2);
}

TEST(RingDeath, PublishingASlotTwiceEndsTheProgram) {
  const BatchOrder order = order_of(2, 1, 0, 1);
  Ring ring(order, 2);
  ring.begin(0);
  ring.open(0);
  ring.publish(0);
  EXPECT_DEATH(ring.publish(0), "ring.cpp");
}

// Workers write into plain memory what they claimed; the consumer checks all of it. Under the thread sanitizer this is
// the proof that the hand-over orders memory.
class Traffic {
 public:
  Traffic(const BatchOrder& order, std::int64_t slots, int workers) : ring_(order, slots) {
    contents_.resize(static_cast<std::size_t>(slots), std::vector<std::int64_t>(16, -1));
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Traffic() {
    stop_.store(true);
    opened_.raise();
    for (std::thread& thread : threads_) thread.join();
  }

  void start(std::int64_t first) {
    ring_.halt();
    ring_.begin(first);
    for (std::int64_t i = 0; i < ring_.slots(); ++i) open(first + i);
  }
  // Sum of what the batch holds; its slot is opened for the batch that comes `slots` later.
  std::int64_t take(std::int64_t number, std::int64_t samples) {
    ring_.await(number);
    std::vector<std::int64_t>& slot = contents_[ring_.slot_of(number)];
    std::int64_t sum = 0;
    for (std::int64_t b = 0; b < samples; ++b) sum += slot[static_cast<std::size_t>(b)];
    open(number + ring_.slots());
    return sum;
  }

 private:
  void open(std::int64_t number) {
    std::vector<std::int64_t>& slot = contents_[ring_.slot_of(number)];
    std::fill(slot.begin(), slot.end(), -1);
    ring_.open(number);
    opened_.raise();
  }
  void work() {
    while (!stop_.load()) {
      const std::uint32_t seen = opened_.count();
      SampleClaim claim;
      if (!ring_.try_claim(&claim)) {
        if (!stop_.load()) opened_.wait_beyond(seen);
        continue;
      }
      contents_[ring_.slot_of(claim.number)][static_cast<std::size_t>(claim.sample)] =
          claim.number * 100 + claim.sample;
      if (ring_.finish_sample(claim.number)) ring_.publish(claim.number);
      ring_.end_claim();
    }
  }

  Ring ring_;
  Event opened_;
  std::atomic<bool> stop_{false};
  std::vector<std::vector<std::int64_t>> contents_;
  std::vector<std::thread> threads_;
};

std::int64_t expected_sum(const BatchOrder& order, std::int64_t number) {
  const std::int64_t samples = order.place(number).count;
  return samples * number * 100 + samples * (samples - 1) / 2;
}

TEST(Ring, HandsOverWhatWorkersWroteForAnyNumberOfWorkersAndSlots) {
  const BatchOrder order = order_of(23, 1, 0, 5);
  for (const int workers : {1, 2, 4}) {
    for (const std::int64_t slots : {1, 2, 3, 8}) {
      Traffic traffic(order, slots, workers);
      traffic.start(3);
      for (std::int64_t number = 3; number < 600; ++number) {
        ASSERT_EQ(traffic.take(number, order.place(number).count), expected_sum(order, number));
      }
    }
  }
}

TEST(Ring, IsHaltedAndStartedElsewhereWhileWorkersAreBusy) {
  const BatchOrder order = order_of(23, 1, 0, 5);
  Traffic traffic(order, 3, 3);
  for (std::int64_t round = 0; round < 300; ++round) {
    const std::int64_t first = round * 37 % 101;
    traffic.start(first);
    for (std::int64_t number = first; number < first + round % 4; ++number) {
      ASSERT_EQ(traffic.take(number, order.place(number).count), expected_sum(order, number));
    }
  }
}

}  // namespace
}  // namespace bascule::test_ring
