// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/start_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "src/base/mapped_memory.h"
#include "src/base/span.h"

namespace bascule::test {
namespace {

Error unexpected(const Status&) { return Error(ErrorKind::kInternal, "part", "failed"); }

TEST(StartWork, RunsEveryPartOnceWhateverTheThreads) {
  for (const int count : {1, 2, 3, 4}) {
    Threads threads(count, false);
    std::vector<std::atomic<int>> runs(100);
    StartWork work;
    for (std::atomic<int>& part : runs) {
      work.add(
          StartWork::Kind::kReading, 10, [&part] { return ++part, ok_status(); }, unexpected);
    }
    work.run(threads);
    work.run(threads);  // nothing is left
    EXPECT_TRUE(std::all_of(runs.begin(), runs.end(), [](const std::atomic<int>& part) { return part == 1; })) << count;
    EXPECT_EQ(work.figures().bytes[static_cast<int>(StartWork::Kind::kReading)], 1000);
  }
}

TEST(StartWork, ThrowsTheErrorOfTheFirstPartThatFailedInTheOrderOfAdding) {
  for (const int count : {1, 2, 4}) {
    Threads threads(count, false);
    StartWork work;
    for (int part = 0; part < 40; ++part) {
      const auto fails = [part] { return part < 7 ? ok_status() : Status{StatusCode::kReadFailed, {part, 0}}; };
      work.add(StartWork::Kind::kReading, 1, fails, [](const Status& status) {
        return Error(ErrorKind::kData, "part " + std::to_string(status.detail[0]), "failed");
      });
    }
    try {
      work.run(threads);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "part 7");
    }
  }
}

TEST(StartWork, BeginsTouchingAndReadingTogether) {
  Threads threads(1, false);
  std::vector<std::byte> memory(4 * static_cast<std::size_t>(StartWork::kPartBytes));
  StartWork work;
  std::string order;
  for (int i = 0; i < 4; ++i) {
    work.add(
        StartWork::Kind::kTouching, 1, [&] { return order += 't', ok_status(); }, unexpected);
  }
  for (int i = 0; i < 4; ++i) {
    work.add(
        StartWork::Kind::kReading, 1, [&] { return order += 'r', ok_status(); }, unexpected);
  }
  work.run(threads);
  EXPECT_EQ(order, "trtrtrtr");
}

TEST(StartWork, TouchingLeavesBytesAsTheyAre) {
  Threads threads(3, false);
  const std::size_t bytes = 2 * static_cast<std::size_t>(StartWork::kPartBytes) + 3 * kPage;
  std::byte* const memory = map_memory(bytes, HugePages::kTransparent);
  ASSERT_NE(memory, nullptr);
  for (std::size_t i = 0; i < bytes; i += 1000) memory[i] = static_cast<std::byte>(i / 1000 % 251);
  StartWork work;
  work.touch({memory, bytes}, HugePages::kTransparent, true);
  work.run(threads);
  for (std::size_t i = 0; i < bytes; i += 1000) ASSERT_EQ(memory[i], static_cast<std::byte>(i / 1000 % 251)) << i;
  EXPECT_EQ(work.figures().bytes[static_cast<int>(StartWork::Kind::kTouching)], static_cast<std::int64_t>(bytes));
}

}  // namespace
}  // namespace bascule::test
