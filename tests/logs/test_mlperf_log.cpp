// SPDX-License-Identifier: Apache-2.0
#include "src/logs/mlperf_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/clock.h"
#include "src/base/error.h"
#include "src/json/json.h"
#include "tests/support/count_allocations.h"

namespace bascule {
namespace {

constexpr char kPrefix[] = ":::MLLOG ";

class MlperfLines : public testing::Test {
 protected:
  MlperfLines() : folder_(testing::TempDir() + "bascule_mlperf_log") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  std::string path() const { return folder_ + "/mlperf_log.txt"; }
  // The objects after the prefix, which every line has.
  std::vector<Json> lines() const {
    std::vector<Json> all;
    std::ifstream file(path());
    for (std::string line; std::getline(file, line);) {
      EXPECT_EQ(line.rfind(kPrefix, 0), 0u) << line;
      all.push_back(parse_json(line.substr(sizeof kPrefix - 1), "log"));
    }
    return all;
  }
  // "init_start, init_stop, ..."
  std::string keys() const {
    std::string text;
    for (const Json& line : lines()) text += (text.empty() ? "" : ", ") + line["key"].string();
    return text;
  }
  std::string last_status() const { return lines().back()["metadata"]["status"].string(); }

  static void write_run(MlperfLog* log) {
    log->begin_init(monotonic_ns());
    log->fact_of_cache(false);
    log->begin_run();
    log->fact("seed", std::int64_t{42});
    log->begin_block({0, 0, 0.0});
    log->begin_evaluation({3, 24, 0.5});
    log->end_evaluation({3, 24, 0.5}, "accuracy", 0.75);
    log->end_run(true);
  }

  std::string folder_;
};

TEST_F(MlperfLines, ALineHasTheMembersOfMlperfLogging) {
  MlperfLog log = MlperfLog::begin(folder_);
  log.fact("submission_org", "A \"B\" & Söhne");
  log.fact("opt_base_learning_rate", 1e-5);
  log.fact("seed", std::int64_t{42});
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 3u);
  for (const Json& line : all) {
    EXPECT_EQ(line["namespace"].string(), "");
    EXPECT_EQ(line["event_type"].string(), "POINT_IN_TIME");
    EXPECT_EQ(line["metadata"]["file"].string(), "src/logs/mlperf_log.cpp");
    EXPECT_GT(line["metadata"]["lineno"].integer(), 0);
    EXPECT_NEAR(static_cast<double>(line["time_ms"].integer()), 1e3 * unix_seconds(), 60e3);
  }
  EXPECT_EQ(all[0]["value"].string(), "A \"B\" & Söhne");
  EXPECT_EQ(all[1]["value"].number(), 1e-5);
  EXPECT_EQ(all[2]["value"].integer(), 42);
}

// The rules of compliance_checker/training_6.1.0/common.yaml on order.
TEST_F(MlperfLines, ARunIsInTheOrderThatTheRulesAskFor) {
  MlperfLog log = MlperfLog::begin(folder_);
  write_run(&log);
  EXPECT_EQ(keys(),
            "init_start, cache_clear, init_stop, run_start, seed, block_start, block_stop, eval_start, eval_stop, "
            "eval_accuracy, run_stop");
  const std::vector<Json> all = lines();
  const std::string types[] = {"INTERVAL_START", "POINT_IN_TIME",  "INTERVAL_END", "INTERVAL_START",
                               "POINT_IN_TIME",  "INTERVAL_START", "INTERVAL_END", "INTERVAL_START",
                               "INTERVAL_END",   "POINT_IN_TIME",  "INTERVAL_END"};
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i]["event_type"].string(), types[i]) << i;
  const Json& accuracy = all[9];
  EXPECT_EQ(accuracy["value"].number(), 0.75);
  EXPECT_EQ(accuracy["metadata"]["metric"].string(), "accuracy");
  EXPECT_EQ(accuracy["metadata"]["samples_count"].integer(), 24);
  EXPECT_EQ(accuracy["metadata"]["step_num"].integer(), 3);
  EXPECT_EQ(accuracy["metadata"]["epoch_num"].number(), 0.5);
  EXPECT_EQ(last_status(), "success");
  EXPECT_FALSE(log.failed());
}

TEST_F(MlperfLines, TimesNeverFallAndBeginWithTheCommand) {
  const std::int64_t began = monotonic_ns() - 2'000'000'000;
  MlperfLog log = MlperfLog::begin(folder_);
  log.begin_init(began);
  log.begin_run();
  for (int i = 0; i < 50; ++i) log.fact("seed", std::int64_t{i});
  const std::vector<Json> all = lines();
  EXPECT_NEAR(static_cast<double>(all[1]["time_ms"].integer() - all[0]["time_ms"].integer()), 2000.0, 500.0);
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_GE(all[i]["time_ms"].integer(), all[i - 1]["time_ms"].integer()) << i;
}

TEST_F(MlperfLines, ABlockBeginsAndEndsOnce) {
  MlperfLog log = MlperfLog::begin(folder_);
  log.end_block({0, 0, 0.0});
  for (int step = 0; step < 3; ++step) log.begin_block({step, 8 * step, 0.1 * step});
  log.end_block({3, 24, 0.3});
  log.end_block({3, 24, 0.3});
  EXPECT_EQ(keys(), "block_start, block_stop");
  EXPECT_EQ(lines()[0]["metadata"]["samples_count"].integer(), 0);
  EXPECT_EQ(lines()[1]["metadata"]["samples_count"].integer(), 24);
}

// Its result would not be one of MLPerf, whatever its last process did.
TEST_F(MlperfLines, AResumedRunGoesOnBehindTheLinesBeforeAndIsNoSuccess) {
  {
    MlperfLog log = MlperfLog::begin(folder_);
    log.begin_init(monotonic_ns());
    log.begin_run();
  }
  MlperfLog log = MlperfLog::go_on(folder_, 7);
  log.end_run(true);
  EXPECT_EQ(keys(), "init_start, init_stop, run_start, bascule_resumed, run_stop");
  EXPECT_EQ(lines()[3]["value"].integer(), 7);
  EXPECT_EQ(lines()[3]["metadata"]["note"].string(), "a resumed run is not a valid MLPerf result");
  EXPECT_EQ(last_status(), "aborted");
}

TEST_F(MlperfLines, ARunThatIsStoppedIsAborted) {
  MlperfLog log = MlperfLog::begin(folder_);
  log.end_run(false);
  EXPECT_EQ(last_status(), "aborted");
}

TEST_F(MlperfLines, ARunThatBeginsAnewLeavesNoLineOfAnEarlierStart) {
  for (int start = 0; start < 2; ++start) {
    MlperfLog log = MlperfLog::begin(folder_);
    log.begin_init(monotonic_ns());
    log.begin_run();
  }
  EXPECT_EQ(keys(), "init_start, init_stop, run_start");
}

TEST_F(MlperfLines, TheyAreWrittenWithoutAllocating) {
  MlperfLog log = MlperfLog::begin(folder_);
  const std::int64_t before = test::allocations();
  write_run(&log);
  EXPECT_EQ(test::allocations(), before);
}

TEST_F(MlperfLines, WhereALineIsMissingTheLogSaysSo) {
  MlperfLog none;
  write_run(&none);
  EXPECT_FALSE(none.failed());
  std::filesystem::create_symlink("/dev/full", path());
  MlperfLog full = MlperfLog::begin(folder_);
  full.fact("seed", std::int64_t{1});
  EXPECT_TRUE(full.failed());
  std::filesystem::remove(path());
  MlperfLog log = MlperfLog::begin(folder_);
  log.fact("config_filename", std::string(10'000, 'x'));
  EXPECT_TRUE(log.failed());
}

TEST_F(MlperfLines, AFolderThatIsGoneIsNamed) {
  try {
    MlperfLog::begin(folder_ + "/none");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDisk);
    EXPECT_EQ(error.where(), folder_ + "/none/mlperf_log.txt");
  }
}

}  // namespace
}  // namespace bascule
