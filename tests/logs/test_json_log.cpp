// SPDX-License-Identifier: Apache-2.0
#include "src/logs/json_log.h"

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "src/json/json.h"
#include "tests/logs/sample_metrics.h"
#include "tests/support/count_allocations.h"
#include "tests/support/files.h"

namespace bascule {
namespace {

bool is_sound(const LogRepair& repair) { return repair.written == 0 && repair.removed == 0; }

class Log : public testing::Test {
 protected:
  Log() : folder_(testing::TempDir() + "bascule_json_log") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  std::vector<Json> lines() const {
    std::vector<Json> all;
    std::ifstream file(path());
    for (std::string line; std::getline(file, line);) all.push_back(parse_json(line, "log"));
    return all;
  }
  std::string path() const { return folder_ + "/log.jsonl"; }

  // Updates 2, 4, ... with an evaluation after every second of them, then the test file.
  void write(std::int64_t updates) {
    JsonLog log = JsonLog::open(folder_);
    for (std::int64_t step = 2; step <= updates; step += 2) {
      StepRecord record;
      record.global_step = step;
      record.loss = 0.1 * static_cast<double>(step);
      EXPECT_TRUE(log.step(record, 1e9).ok());
      if (step % 4 == 0) {
        EXPECT_TRUE(
            log.evaluation(evaluation(step, Split::kValidation), {test::kOfWords, std::size(test::kOfWords)}, 1e9)
                .ok());
      }
    }
    EXPECT_TRUE(
        log.evaluation(evaluation(updates, Split::kTest), {test::kOfWords, std::size(test::kOfWords)}, 1e9).ok());
  }
  static EvaluationRecord evaluation(std::int64_t step, Split split) {
    EvaluationRecord record;
    record.global_step = step;
    record.split = split;
    record.loss = 2.5;
    record.samples = 8;
    record[test::kAccuracy] = 0.75;
    return record;
  }

  std::string folder_;
};

TEST_F(Log, HasALineForEveryIntervalAndEvaluation) {
  write(4);
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0]["step"], 2);
  EXPECT_EQ(all[1]["loss"], 0.4);
  EXPECT_EQ(all[1]["time"], 1e9);
  EXPECT_EQ(all[2]["eval_loss"], 2.5);
  EXPECT_EQ(all[2]["eval_accuracy"], 0.75);
  EXPECT_FALSE(all[2].contains("eval_auc"));
  EXPECT_FALSE(all[2].contains("eval_perplexity"));  // not measured
  EXPECT_EQ(all[3]["test_loss"], 2.5);
}

TEST_F(Log, IsCutAtWhatIsComputedAgain) {
  write(12);
  cut_log_after(folder_, 8, 4);  // the evaluation after update 8 was not part of its checkpoint
  std::vector<std::int64_t> steps, evaluated;
  for (const Json& line : lines()) (line.contains("eval_loss") ? evaluated : steps).push_back(line["step"].integer());
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 4, 6, 8}));
  EXPECT_EQ(evaluated, (std::vector<std::int64_t>{4}));
}

// Of rows without labels, or without a masked token.
TEST_F(Log, EvaluationsWithoutALossAreEvaluations) {
  {
    JsonLog log = JsonLog::open(folder_);
    StepRecord step;
    step.global_step = 4;
    step.loss = 0.5;
    EXPECT_TRUE(log.step(step, 1e9).ok());
    for (const Split split : {Split::kValidation, Split::kTest}) {
      EvaluationRecord record = evaluation(4, split);
      record.loss = std::numeric_limits<double>::quiet_NaN();
      EXPECT_TRUE(log.evaluation(record, {test::kOfWords, std::size(test::kOfWords)}, 1e9).ok());
    }
  }
  StepRecord known;
  known.global_step = 4;
  known.loss = 0.5;
  EXPECT_TRUE(
      is_sound(cut_log_after(folder_, 4, 4, {{&known, 1}, {}, {}, {test::kOfWords, std::size(test::kOfWords)}})));
  std::vector<Json> kept = lines();
  ASSERT_EQ(kept.size(), 2U);  // not that of the test file
  EXPECT_TRUE(kept[1].contains("eval_runtime"));
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 4, 2)));
  EXPECT_EQ(lines().size(), 1U);
}

TEST_F(Log, EvaluationsOfAveragedWeightsAreCutAsThoseOfTheWeights) {
  {
    JsonLog log = JsonLog::open(folder_);
    for (const std::int64_t step : {4, 8}) {
      for (const Split split : {Split::kValidation, Split::kTest}) {
        EvaluationRecord record = evaluation(step, split);
        record.averaged = 1;
        EXPECT_TRUE(log.evaluation(record, {test::kOfWords, std::size(test::kOfWords)}, 1e9).ok());
      }
    }
  }
  const std::vector<Json> all = lines();
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0]["eval_ema_loss"], 2.5);
  EXPECT_EQ(all[0]["eval_ema_accuracy"], 0.75);
  EXPECT_EQ(all[1]["test_ema_loss"], 2.5);
  cut_log_after(folder_, 8, 4);
  ASSERT_EQ(lines().size(), 1U);
  EXPECT_EQ(lines()[0]["step"], 4);
}

TEST_F(Log, ATornLineGoes) {
  write(4);
  std::ofstream(path(), std::ios::app) << R"({"step": 4, "loss": 0.)";
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 4, 4))) << "a kill damages nothing";
  EXPECT_EQ(lines().size(), 3U);
  EXPECT_TRUE(is_sound(cut_log_after(folder_ + "/absent", 4, 4)));
}

// The checkpoint's records were checked; a digit of the log that has changed would be the curve of the run.
TEST_F(Log, ALineWithoutTheFiguresOfItsRecordIsWrittenAnew) {
  write(8);
  const std::string whole = test::read_file(path());
  std::vector<StepRecord> steps(3);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].global_step = 2 + 2 * static_cast<std::int64_t>(i);
    steps[i].loss = 0.1 * static_cast<double>(steps[i].global_step);
  }
  const EvaluationRecord made = evaluation(4, Split::kValidation);
  const KnownRecords known = {
      {steps.data(), steps.size()}, {&made, 1}, {}, {test::kOfWords, std::size(test::kOfWords)}};
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 6, 4, known)));
  const std::string cut = test::read_file(path());
  EXPECT_EQ(whole.substr(0, cut.size()), cut);
  for (const auto& [from, to] : {std::pair<const char*, const char*>{"\"loss\": 0.4", "\"loss\": 0.5"},
                                 {"\"loss\": 0.4", "\"lost\": 0.4"},
                                 {"\"loss\": 0.4", "\"loss\": null"},
                                 {"\"eval_accuracy\": 0.75", "\"eval_accuracy\": 0.25"}}) {
    std::string changed = cut;
    std::ofstream(path()) << changed.replace(changed.find(from), std::string(from).size(), to);
    EXPECT_EQ(cut_log_after(folder_, 6, 4, known).written, 1) << to;
    EXPECT_EQ(test::read_file(path()), cut);
  }
}

// Whatever happened to its lines: the file is that of the records, which a checkpoint promises.
TEST_F(Log, EachRecordHasItsLineAfterwards) {
  write(8);
  std::vector<StepRecord> steps(3);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    steps[i].global_step = 2 + 2 * static_cast<std::int64_t>(i);
    steps[i].loss = 0.1 * static_cast<double>(steps[i].global_step);
  }
  EvaluationRecord made = evaluation(4, Split::kValidation);
  made.samples = 5;
  KnownRecords known = {{steps.data(), steps.size()}, {&made, 1}, {}, {test::kOfWords, std::size(test::kOfWords)}};
  EXPECT_EQ(cut_log_after(folder_, 6, 4, known).written, 1);  // of 5 samples
  const std::string whole = test::read_file(path());
  std::vector<std::string> line;
  for (std::size_t at = 0; at < whole.size(); at += line.back().size())
    line.push_back(whole.substr(at, whole.find('\n', at) + 1 - at));
  ASSERT_EQ(line.size(), 4U);
  struct Case {
    std::string log;
    std::int64_t written, removed;
  };
  const std::string rubbish = "\x01not a line\n", later = line[3].substr(0, 9) + "2" + line[3].substr(9);
  for (const Case& one : {Case{line[0] + rubbish + line[2] + line[3], 1, 0},            // a line overwritten
                          Case{line[0] + line[2] + line[3], 1, 0},                      // a line deleted
                          Case{line[0] + line[1] + line[3], 1, 0},                      // that of the evaluation
                          Case{line[1] + line[2] + line[3], 1, 0},                      // the first
                          Case{line[0] + line[1] + line[2], 1, 0},                      // the last
                          Case{line[0] + rubbish + line[1] + line[2] + line[3], 0, 1},  // a line too many
                          Case{line[0] + rubbish + rubbish + line[2] + line[3], 1, 1},
                          Case{line[0] + line[1] + line[2] + line[3] + rubbish, 0, 0},  // of a later update, it may be
                          Case{line[0] + line[1] + line[2] + later, 1, 0},              // another update's number
                          Case{"", 4, 0}}) {
    std::ofstream(path()) << one.log;
    const LogRepair repair = cut_log_after(folder_, 6, 4, known);
    EXPECT_EQ(repair.written, one.written) << one.log;
    EXPECT_EQ(repair.removed, one.removed) << one.log;
    if (!one.log.empty()) {
      EXPECT_EQ(test::read_file(path()), whole);
    } else {
      EXPECT_EQ(lines().size(), 4U);
    }
    std::ofstream(path()) << whole;
  }
  std::filesystem::remove(path());
  EXPECT_EQ(cut_log_after(folder_, 6, 4, known).written, 4);
  EXPECT_EQ(lines()[3]["step"], 6);
  EXPECT_TRUE(lines()[2].contains("eval_loss"));
  // A number that is of no update: known only where no record was thinned away.
  const std::string foreign = line[0] + line[1].substr(0, 9) + "3" + line[1].substr(10) + line[2] + line[3];
  for (const bool has_every_step : {false, true}) {
    std::ofstream(path()) << foreign;
    known.has_every_step = has_every_step;
    EXPECT_EQ(cut_log_after(folder_, 6, 4, known).written, 1);
    EXPECT_EQ(lines().size(), has_every_step ? 4U : 5U);
  }
  known.steps = {steps.data() + 1, 2};  // the first was thinned away: its line stays
  known.has_every_step = false;
  std::ofstream(path()) << whole;
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 6, 4, known)));
  EXPECT_EQ(test::read_file(path()), whole);
}

// Such a record stands for an evaluation of which a checkpoint of before keeps nothing: no figures are made up for it.
TEST_F(Log, ARecordWithoutSamplesGivesNoLine) {
  write(4);
  EvaluationRecord none = evaluation(4, Split::kValidation);
  none.samples = 0;
  EvaluationRecord averaged = none;
  averaged.averaged = 1;
  StepRecord steps[2];
  for (int i = 0; i < 2; ++i) {
    steps[i].global_step = 2 + 2 * i;
    steps[i].loss = 0.1 * static_cast<double>(steps[i].global_step);
  }
  const KnownRecords known = {{steps, 2}, {&none, 1}, {&averaged, 1}, {test::kOfWords, std::size(test::kOfWords)}};
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 4, 4, known)));
  ASSERT_EQ(lines().size(), 3U);
  EXPECT_EQ(lines()[2]["eval_samples"], 8) << "the line that is there stays";
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 4, 2, known)));
  EXPECT_EQ(lines().size(), 2U);
}

TEST_F(Log, ALineOfTheAveragedWeightsIsWrittenAnewFromTheirOwnRecord) {
  const Metrics metrics = {test::kOfWords, std::size(test::kOfWords)};
  const EvaluationRecord made = evaluation(4, Split::kValidation);
  EvaluationRecord averaged = made;
  averaged.averaged = 1;
  averaged.loss = 1.5;
  for (const EvaluationRecord& record : {made, averaged})
    EXPECT_TRUE(JsonLog::open(folder_).evaluation(record, metrics, 1e9).ok());
  const std::string whole = test::read_file(path());
  const KnownRecords known = {{}, {&made, 1}, {&averaged, 1}, metrics};
  EXPECT_TRUE(is_sound(cut_log_after(folder_, 4, 4, known)));
  std::string changed = whole;
  std::ofstream(path()) << changed.replace(changed.find("1.5"), 3, "1.7");
  EXPECT_EQ(cut_log_after(folder_, 4, 4, known).written, 1);
  EXPECT_EQ(test::read_file(path()), whole);
}

TEST_F(Log, ALineAllocatesNothingWhateverItsFigures) {
  JsonLog log = JsonLog::open(folder_);
  StepRecord step;
  step.global_step = std::numeric_limits<std::int64_t>::max();
  step.loss = step.grad_norm = step.epoch = step.learning_rate = step.samples_per_second = -1.2345678901234567e-300;
  EvaluationRecord evaluation;
  for (double& metric : evaluation.metric) metric = std::numeric_limits<double>::infinity();
  const Metrics metrics{test::kRecalls, std::size(test::kRecalls)};
  const std::int64_t before = test::allocations();
  const bool written = log.step(step, 1.2345678901234567e9).ok() && log.evaluation(evaluation, metrics, 1e300).ok();
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(written);
  EXPECT_EQ(lines().size(), 2U);
}

}  // namespace
}  // namespace bascule
