// SPDX-License-Identifier: Apache-2.0
#include "src/seal/start_times.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>

namespace bascule::test {
namespace {

TEST(StartTimes, NamesEachPhaseAndAddsUpToTheWhole) {
  // Phases that take no time add up to the whole whatever is added.
  const auto pass_time = [] { std::this_thread::sleep_for(std::chrono::milliseconds(3)); };
  StartTimes times;
  pass_time();
  times.end("settings");
  StartWork::Figures work;
  work.bytes[static_cast<int>(StartWork::Kind::kTouching)] = std::int64_t{300} << 20;
  work.seconds[static_cast<int>(StartWork::Kind::kTouching)] = 0.25;
  work.bytes[static_cast<int>(StartWork::Kind::kReading)] = std::int64_t{9} << 20;
  work.seconds[static_cast<int>(StartWork::Kind::kReading)] = 0.5;
  pass_time();
  times.end("memory and weights", work);
  pass_time();
  times.end("logs");
  const std::string line = times.line();
  double whole = 0.0, settings = 0.0, memory = 0.0, logs = 0.0;
  ASSERT_EQ(std::sscanf(line.c_str(),
                        "start: %lf s: settings %lf, memory and weights %lf (time of all threads: touched 300 MiB in "
                        "0.250, read 9 MiB in 0.500), logs %lf",
                        &whole, &settings, &memory, &logs),
            4)
      << line;
  char expected[200];
  std::snprintf(expected, sizeof expected,
                "start: %.3f s: settings %.3f, memory and weights %.3f (time of all threads: touched 300 MiB in "
                "0.250, read 9 MiB in 0.500), logs %.3f",
                whole, settings, memory, logs);
  EXPECT_EQ(line, expected);
  const auto milliseconds = [](double seconds) { return std::lround(1000.0 * seconds); };
  EXPECT_EQ(milliseconds(whole), milliseconds(settings) + milliseconds(memory) + milliseconds(logs));
}

}  // namespace
}  // namespace bascule::test
