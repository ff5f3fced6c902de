// SPDX-License-Identifier: Apache-2.0
// Every line of the contracts that a run judges of itself can be seen broken.
#include "src/finish/contracts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace bascule::test {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// The figures of a run that kept all contracts.
ContractFigures good() {
  ContractFigures figures;
  figures.planned_bytes = 1000 * kMib;
  figures.resident_bytes = 990 * kMib;
  figures.guarded = true;
  figures.foreign_calls = 1200;
  figures.foreign_bytes = 3 * kMib;
  figures.checkpoints = 2;
  SplitRows train;
  train.rows = 24;
  train.skipped = train.listed = 4;
  train.skipped_rows = 2;
  SplitRows tested;
  tested.split = Split::kTest;
  tested.rows = 24;
  tested.judged = 23;
  tested.skipped = tested.skipped_rows = tested.listed = 1;
  figures.splits = {train, tested};
  figures.updates = 20;
  figures.recorded_samples = figures.trained_samples = 160;
  figures.counted_updates = 17;
  figures.counted_samples = 136;
  return figures;
}

ContractResult line(const ContractFigures& figures, const std::string& name) {
  const std::vector<ContractResult> lines = judge_contracts(figures);
  const auto found =
      std::find_if(lines.begin(), lines.end(), [&](const ContractResult& one) { return one.name == name; });
  EXPECT_NE(found, lines.end()) << name;
  return found != lines.end() ? *found : ContractResult{};
}

TEST(Contracts, AreKeptByAGoodRunAndTwoAreNotItsToJudge) {
  for (const char* kept : {"Memory", "Sealed", "Durability", "Errors", "Honest figures"})
    EXPECT_EQ(line(good(), kept).state, ContractState::kKept) << kept << ": " << line(good(), kept).detail;
  for (const char* other : {"Numbers", "Bits"})
    EXPECT_EQ(line(good(), other).state, ContractState::kNotChecked) << other;
  EXPECT_EQ(judge_contracts(good()).size(), 7u);
}

TEST(Contracts, BitsSaysWhichCpusGiveTheSame) {
  ContractFigures figures = good();
  EXPECT_EQ(line(figures, "Bits").detail.find("any x86-64 CPU"), 0u);
  figures.products = Products::kOnednn;
  EXPECT_EQ(line(figures, "Bits").detail.find("the same kind of CPU"), 0u);
}

TEST(Contracts, MemoryIsBrokenThreePercentAnd64MibAboveOrBelowThePlan) {
  ContractFigures figures = good();
  for (const auto& [kept, broken] : {std::pair{1094, 1095}, std::pair{906, 905}}) {
    figures.resident_bytes = static_cast<std::uint64_t>(kept) * kMib;
    EXPECT_EQ(line(figures, "Memory").state, ContractState::kKept) << kept;
    figures.resident_bytes = static_cast<std::uint64_t>(broken) * kMib;
    EXPECT_EQ(line(figures, "Memory").state, ContractState::kBroken) << broken;
  }
  EXPECT_EQ(line(figures, "Memory").detail,
            "resident 905.0 MiB, planned 1000.0 MiB: 95.0 MiB apart, where 94.0 MiB are allowed");
  figures.resident_bytes = 0;
  EXPECT_EQ(line(figures, "Memory").state, ContractState::kNotChecked);
  EXPECT_EQ(memory_tolerance(1000 * kMib), 94U * kMib);
  EXPECT_EQ(memory_tolerance(1000 * kMib, 3), 222U * kMib);  // 64 MiB for each process
}

TEST(Contracts, OfARunThatDrawsAreThoseOfItsPictures) {
  const auto state = [](const DrawnPictures& pictures, const std::string& name) {
    for (const ContractResult& one : judge_contracts(good(), pictures)) {
      if (one.name == name) return one.state;
    }
    return ContractState::kBroken;
  };
  const DrawnPictures whole = {9, 2, 7, 0, 5};
  for (const char* kept : {"Memory", "Sealed", "Durability", "Honest figures"})
    EXPECT_EQ(state(whole, kept), ContractState::kKept) << kept;
  EXPECT_EQ(state({9, 2, 7, 1, 5}, "Durability"), ContractState::kBroken);
  EXPECT_EQ(state({9, 9, 0, 0, 0}, "Durability"), ContractState::kNotChecked);
  EXPECT_EQ(state({9, 2, 6, 0, 5}, "Honest figures"), ContractState::kBroken);
  EXPECT_EQ(state({9, 2, 7, 0, 8}, "Honest figures"), ContractState::kBroken);
  EXPECT_EQ(state({9, 2, 7, 0, 0}, "Honest figures"), ContractState::kNotChecked);
}

// What a user reads at the end of a run, whole.
TEST(Contracts, SayWhatTheyCount) {
  const auto details = [](const std::vector<ContractResult>& lines) {
    std::string all;
    for (const ContractResult& one : lines) {
      if (one.name == "Durability" || one.name == "Errors" || one.name == "Honest figures")
        all += one.name + ": " + one.detail + "\n";
    }
    return all;
  };
  EXPECT_EQ(
      details(judge_contracts(good())),
      "Durability: 2 checkpoints, each synced before it was renamed into place\n"
      "Errors: bad samples are counted and listed: train: 2 rows skipped, 4 times in total, each replaced by another "
      "row; test: 1 row skipped, 23 evaluated\n"
      "Honest figures: throughput counts 136 samples of 17 updates; warm-up updates excluded: 3\n");
  EXPECT_EQ(details(judge_contracts(good(), DrawnPictures{9, 2, 7, 0, 5})),
            "Durability: 7 pictures, each synced before it was renamed into place\n"
            "Errors: none occurred in this run; the tests check them\n"
            "Honest figures: throughput counts 5 of 7 pictures drawn; warm-up pictures excluded: 2\n");
  EXPECT_EQ(details(judge_contracts(good(), DrawnPictures{9, 2, 6, 1, 5})),
            "Durability: 1 picture drawn, but missing\n"
            "Errors: none occurred in this run; the tests check them\n"
            "Honest figures: 6 pictures drawn and 2 found of 9; throughput counts 5\n");
  EXPECT_EQ(details(judge_contracts(good(), DrawnPictures{9, 9, 0, 0, 0})),
            "Durability: no picture was due\n"
            "Errors: none occurred in this run; the tests check them\n"
            "Honest figures: 0 pictures drawn, no throughput measured\n");
  ContractFigures wrong = good();
  wrong.newest_is_in_place = false;
  wrong.splits[0].listed = 3;
  wrong.counted_samples = 161;
  EXPECT_EQ(
      details(judge_contracts(wrong)),
      "Durability: 2 checkpoints saved, but the newest one is missing\n"
      "Errors: train: not every skipped sample is listed\n"
      "Honest figures: the records have 160 samples, throughput counts 161 of 17 updates, but 160 were trained in "
      "20\n");
  ContractFigures many = good();
  many.recorded_samples = many.trained_samples = 16000;
  many.counted_samples = 13600;
  EXPECT_EQ(line(many, "Honest figures").detail,
            "throughput counts 13,600 samples of 17 updates; warm-up updates excluded: 3");
  many.trained_samples = 15000;
  EXPECT_EQ(line(many, "Honest figures").detail,
            "the records have 16,000 samples, throughput counts 13,600 of 17 updates, but 15,000 were trained in 20");
  wrong.checkpoints = wrong.updates = 0;
  wrong.resident_bytes = 0;
  EXPECT_EQ(line(wrong, "Durability").detail, "no checkpoint was due");
  EXPECT_EQ(line(wrong, "Honest figures").detail, "nothing was trained");
  EXPECT_EQ(line(wrong, "Memory").detail, "the kernel does not report the resident set");
}

TEST(Contracts, SealedSaysWhatLibrariesAllocated) {
  EXPECT_NE(line(good(), "Sealed").detail.find("libraries made 1,200 allocations, 3.00 MiB over the run"),
            std::string::npos)
      << line(good(), "Sealed").detail;
  ContractFigures figures = good();
  figures.foreign_calls = figures.foreign_bytes = 0;
  EXPECT_NE(line(figures, "Sealed").detail.find("libraries allocated nothing"), std::string::npos);
  figures.guarded = false;
  EXPECT_EQ(line(figures, "Sealed").state, ContractState::kNotChecked);
}

TEST(Contracts, DurabilityIsBrokenWhereTheNewestCheckpointIsGone) {
  ContractFigures figures = good();
  figures.newest_is_in_place = false;
  EXPECT_EQ(line(figures, "Durability").state, ContractState::kBroken);
  figures.checkpoints = 0;
  EXPECT_EQ(line(figures, "Durability").state, ContractState::kNotChecked);
}

TEST(Contracts, ErrorsAreKeptOnlyWhereEverySkippedRowIsAccountedFor) {
  const std::string detail = line(good(), "Errors").detail;
  EXPECT_NE(detail.find("train: 2 rows skipped, 4 times in total"), std::string::npos) << detail;
  EXPECT_NE(detail.find("test: 1 row skipped, 23 evaluated"), std::string::npos) << detail;
  EXPECT_EQ(detail.find("none occurred"), std::string::npos) << detail;

  ContractFigures figures = good();
  figures.splits[1].judged = 24;  // one row twice
  EXPECT_EQ(line(figures, "Errors").state, ContractState::kBroken);
  EXPECT_EQ(line(figures, "Errors").detail, "test: 24 rows evaluated and 1 skipped of 24");
  figures = good();
  figures.splits[0].listed = 3;
  EXPECT_EQ(line(figures, "Errors").state, ContractState::kBroken);
  figures.splits[0].list_is_full = true;
  EXPECT_EQ(line(figures, "Errors").state, ContractState::kKept);

  figures = good();
  figures.splits[0].skipped = figures.splits[0].listed = figures.splits[0].skipped_rows = 0;
  figures.splits.pop_back();
  EXPECT_EQ(line(figures, "Errors").state, ContractState::kNotChecked);
  EXPECT_NE(line(figures, "Errors").detail.find("none occurred in this run"), std::string::npos);
}

TEST(Contracts, HonestFiguresAreBrokenByAnyCountThatDisagrees) {
  ContractFigures figures = good();
  figures.recorded_samples = 176;  // those of an earlier process among them
  EXPECT_EQ(line(figures, "Honest figures").state, ContractState::kBroken);
  figures = good();
  figures.counted_updates = 21;
  EXPECT_EQ(line(figures, "Honest figures").state, ContractState::kBroken);
  figures = good();
  figures.counted_samples = 161;
  EXPECT_EQ(line(figures, "Honest figures").state, ContractState::kBroken);
  figures = good();
  figures.updates = 0;
  EXPECT_EQ(line(figures, "Honest figures").state, ContractState::kNotChecked);
}

TEST(Contracts, FiguresMayCountEveryUpdate) {
  ContractFigures figures = good();
  figures.counted_updates = figures.updates;
  figures.counted_samples = figures.trained_samples;
  EXPECT_EQ(line(figures, "Honest figures").state, ContractState::kKept);
}

}  // namespace
}  // namespace bascule::test
