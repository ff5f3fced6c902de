// SPDX-License-Identifier: Apache-2.0
#include "src/sealed/start_times.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace bascule::test {
namespace {

TEST(StartTimes, NamesEachPhaseAndAddsUpToTheWhole) {
  StartTimes times;
  times.end("settings");
  StartWork::Figures work;
  work.bytes[static_cast<int>(StartWork::Kind::kTouching)] = std::int64_t{300} << 20;
  work.seconds[static_cast<int>(StartWork::Kind::kTouching)] = 0.25;
  work.bytes[static_cast<int>(StartWork::Kind::kReading)] = std::int64_t{9} << 20;
  work.seconds[static_cast<int>(StartWork::Kind::kReading)] = 0.5;
  times.end("memory and weights", work);
  times.end("logs");
  const std::string line = times.line();
  std::smatch found;
  ASSERT_TRUE(std::regex_match(
      line, found,
      std::regex("start: (\\d+)\\.(\\d{3}) s: settings (\\d+)\\.(\\d{3}), memory and weights (\\d+)\\.(\\d{3}) \\(time "
                 "of all threads: touched 300 MiB in 0\\.250, read 9 MiB in 0\\.500\\), logs (\\d+)\\.(\\d{3})")))
      << line;
  const auto milliseconds = [&](std::size_t group) {
    return 1000 * std::stol(found[group]) + std::stol(found[group + 1]);
  };
  EXPECT_EQ(milliseconds(1), milliseconds(3) + milliseconds(5) + milliseconds(7));
}

}  // namespace
}  // namespace bascule::test
