// SPDX-License-Identifier: Apache-2.0
#include "src/seal/disk_demand.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "src/base/error.h"

namespace bascule {
namespace {

DiskDemand demand_of(std::int64_t saves, std::int64_t limit) {
  DiskDemand demand;
  demand.checkpoint_bytes = 100;
  demand.saves = saves;
  demand.save_total_limit = limit;
  return demand;
}

TEST(DiskNeed, AnOldCheckpointGoesWhenTheNewOneIsWhole) {
  EXPECT_EQ(disk_need(demand_of(1, 2)).bytes, 100);
  EXPECT_EQ(disk_need(demand_of(2, 2)).bytes, 200);
  EXPECT_EQ(disk_need(demand_of(3, 2)).bytes, 300);
  EXPECT_EQ(disk_need(demand_of(1'000'000'000, 2)).bytes, 300);
  EXPECT_EQ(disk_need(demand_of(5, 1)).checkpoints, 2);
  EXPECT_EQ(disk_need(demand_of(0, 2)).bytes, 0);
}

TEST(DiskNeed, WithoutALimitAllAreKept) {
  EXPECT_EQ(disk_need(demand_of(7, 0)).bytes, 700);
  EXPECT_EQ(disk_need(demand_of(7, 0)).checkpoints, 7);
  DiskDemand vast = demand_of(1'000'000'000, 0);
  vast.checkpoint_bytes = 10'000'000'000;
  EXPECT_EQ(disk_need(vast).bytes, 1e19);
}

TEST(DiskNeed, CheckpointsThatAreThereGiveWay) {
  DiskDemand demand = demand_of(4, 2);
  demand.present_checkpoints = {100, 100};
  EXPECT_EQ(disk_need(demand).bytes, 100);
  EXPECT_EQ(disk_need(demand).checkpoints, 3);
  demand.present_checkpoints = {60};  // goes at the second save: its 60 are free at the third
  EXPECT_EQ(disk_need(demand).bytes, 240);
}

TEST(DiskNeed, FilesOfTheFinishedModelAreWrittenBesideTheOldOnes) {
  DiskDemand demand;
  demand.final_files = {{50, 0}, {10, 0}};
  EXPECT_EQ(disk_need(demand).bytes, 60);
  demand.final_files = {{50, 50}, {10, 10}};
  EXPECT_EQ(disk_need(demand).bytes, 50);
}

TEST(DiskNeed, TheFinishedModelComesBesideTheCheckpointsThatAreKept) {
  DiskDemand demand = demand_of(9, 1);
  demand.final_files = {{150, 0}};
  EXPECT_EQ(disk_need(demand).bytes, 250);
}

class DiskSpace : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_ + "/checkpoint-10"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "disk_space_" + std::to_string(getpid());
};

TEST_F(DiskSpace, CheckpointsAreMeasuredOldestFirst) {
  std::filesystem::create_directories(folder_ + "/checkpoint-9");
  std::ofstream(folder_ + "/checkpoint-10/a") << std::string(40'000, 'x') << std::flush;
  std::ofstream(folder_ + "/checkpoint-9/a") << std::string(400'000, 'x') << std::flush;
  std::ofstream(folder_ + "/checkpoint-x") << std::string(400'000, 'x');
  const std::vector<std::int64_t> bytes = checkpoint_bytes_in(folder_);
  ASSERT_EQ(bytes.size(), 2u);
  EXPECT_GE(bytes[0], 400'000);
  EXPECT_LT(bytes[0], 500'000);
  EXPECT_GE(bytes[1], 40'000);
  EXPECT_LT(bytes[1], 100'000);
}

TEST_F(DiskSpace, MoreThanThereIsIsRefusedWithBothFigures) {
  EXPECT_NO_THROW(check_disk_space(folder_, demand_of(3, 2)));
  DiskDemand demand = demand_of(1000, 0);
  demand.checkpoint_bytes = std::int64_t{1} << 50;
  try {
    check_disk_space(folder_, demand);
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDisk);
    const std::string line = error.what();
    EXPECT_NE(line.find("1000 checkpoints of"), std::string::npos) << line;
    EXPECT_NE(line.find("B are available"), std::string::npos) << line;
    EXPECT_NE(line.find("save_total_limit"), std::string::npos) << line;
  }
}

TEST_F(DiskSpace, ARunThatWritesNoModelNamesItsResults) {
  for (const auto& [has_model, what] :
       {std::make_pair(true, "the finished model needs "), std::make_pair(false, "the results need ")}) {
    DiskDemand demand;
    demand.has_model = has_model;
    demand.final_files = {{std::int64_t{1} << 50, 0}};
    try {
      check_disk_space(folder_, demand);
      FAIL() << "was not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.problem().rfind(what, 0), 0u) << error.problem();
    }
  }
}

TEST_F(DiskSpace, FewerCheckpointsAreAdvisedOnlyWhereMoreThanTwoAreKept) {
  for (const auto& [saves, advice] : {std::make_pair(2, "choose another training.output_dir"),
                                      std::make_pair(3, "lower training.save_total_limit")}) {
    DiskDemand demand = demand_of(saves, 0);
    demand.checkpoint_bytes = std::int64_t{1} << 50;
    try {
      check_disk_space(folder_, demand);
      FAIL() << "was not refused";
    } catch (const Error& error) {
      EXPECT_NE(error.what_to_do().find(advice), std::string::npos) << saves << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace bascule
