// SPDX-License-Identifier: Apache-2.0
#include "src/serve/batch_workers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/seeded.h"

namespace bascule {
namespace {

using Numbers = std::vector<std::uint32_t>;

const auto kNone = [](std::uint32_t) { return false; };

TakenInputs taken_room() {
  TakenInputs taken;
  taken.running.reserve(64);
  taken.dropped.reserve(64);
  return taken;
}

TEST(InputQueue, ABatchHoldsWhatFitsInTheOrderOfArrival) {
  InputQueue queue(8);
  TakenInputs taken = taken_room();
  for (const std::uint32_t input : {3u, 1u, 2u, 0u}) queue.push({input, 10, 1, 10});
  EXPECT_EQ(queue.cost(), 40);
  queue.take({8, 25, 8}, kNone, &taken);
  EXPECT_EQ(taken.running, (Numbers{3, 1}));
  queue.take({1, 25, 8}, kNone, &taken);
  EXPECT_EQ(taken.running, (Numbers{2}));
  EXPECT_EQ(queue.cost(), 10);
  queue.push({5, 1, 1, 1});
  queue.take({8, 25, 1}, kNone, &taken);  // of the masks, one more would be too many
  EXPECT_EQ(taken.running, (Numbers{0}));
  queue.take({8, 25, 8}, kNone, &taken);
  EXPECT_EQ(taken.running, (Numbers{5}));
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(queue.cost(), 0);
}

TEST(InputQueue, ALongInputIsNotOvertaken) {
  InputQueue queue(8);
  TakenInputs taken = taken_room();
  queue.push({0, 5, 0, 5});
  queue.push({1, 20, 0, 20});
  queue.push({2, 5, 0, 5});
  queue.take({8, 20, 0}, kNone, &taken);
  EXPECT_EQ(taken.running, (Numbers{0}));
  queue.take({8, 20, 0}, kNone, &taken);
  EXPECT_EQ(taken.running, (Numbers{1}));
}

TEST(InputQueue, DroppedInputsTakeNoRoom) {
  InputQueue queue(8);
  TakenInputs taken = taken_room();
  for (const std::uint32_t input : {0u, 1u, 2u, 3u}) queue.push({input, 10, 0, 10});
  queue.take(
      {8, 20, 0}, [](std::uint32_t input) { return input < 2; }, &taken);
  EXPECT_EQ(taken.dropped, (Numbers{0, 1}));
  EXPECT_EQ(taken.running, (Numbers{2, 3}));
}

TEST(InputQueue, EveryInputIsTakenOnceInOrderWithinTheRoom) {
  test::Seeded random;
  InputQueue queue(64);
  TakenInputs taken = taken_room();
  const TextRoom room = {5, 50, 6};
  Numbers pushed, seen;
  std::vector<std::int64_t> rows(1000), selected(1000);
  for (std::uint32_t next = 0; seen.size() < 1000;) {
    while (next < 1000 && queue.inputs() < 64 && random.chance(0.7)) {
      rows[next] = random.integer(1, 50);
      selected[next] = random.integer(0, 6);
      queue.push({next, rows[next], selected[next], rows[next]});
      pushed.push_back(next++);
    }
    queue.take(room, kNone, &taken);
    std::int64_t all = 0, asked = 0;
    for (const std::uint32_t input : taken.running) {
      all += rows[input];
      asked += selected[input];
    }
    EXPECT_LE(all, room.tokens);
    EXPECT_LE(asked, room.selected);
    EXPECT_LE(taken.running.size(), 5u);
    seen.insert(seen.end(), taken.running.begin(), taken.running.end());
  }
  EXPECT_EQ(seen, pushed);
}

TEST(InputQueue, WhatIsAheadIsSharedOutAmongWorkersAndARequestIsNot) {
  EXPECT_EQ(rows_until_answered(100, 8, 1), 108.0);
  EXPECT_EQ(rows_until_answered(100, 8, 4), 33.0);
}

TEST(PartToMeasure, EveryWorkerHasInputsThatNobodyElseMeasuresWithMeanwhile) {
  for (const std::size_t workers : {1u, 2u, 5u, 64u}) {
    for (const std::size_t inputs : {1u, 2u, 7u, 64u, 512u}) {
      std::vector<std::size_t> part_of(inputs, workers);
      std::set<std::size_t> parts;
      for (std::size_t worker = 0; worker < workers; ++worker) {
        const MeasuredPart own = part_to_measure(worker, workers, inputs);
        EXPECT_GE(own.count, 1u) << worker << " of " << workers << ", " << inputs << " inputs";
        parts.insert(own.part);
        for (std::size_t i = own.first; i < own.first + own.count; ++i) {
          if (part_of.at(i) == workers) part_of[i] = own.part;
          EXPECT_EQ(part_of[i], own.part);
        }
      }
      EXPECT_EQ(parts.size(), std::min(workers, inputs));
    }
  }
}

}  // namespace
}  // namespace bascule
