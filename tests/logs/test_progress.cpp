// SPDX-License-Identifier: Apache-2.0
#include "src/logs/progress.h"
#include "tests/logs/sample_metrics.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

namespace bascule {
namespace {

// Holds what was written to a pipe; the amounts here fit into its buffer.
class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) ADD_FAILURE() << "no pipe";
  }
  ~Pipe() {
    ::close(ends_[0]);
    if (ends_[1] >= 0) ::close(ends_[1]);
  }
  int in() const { return ends_[1]; }
  std::string text() {
    ::close(ends_[1]);
    ends_[1] = -1;
    std::string all;
    char part[4096];
    for (ssize_t got = 0; (got = ::read(ends_[0], part, sizeof part)) > 0;) {
      all.append(part, static_cast<std::size_t>(got));
    }
    return all;
  }

 private:
  int ends_[2] = {-1, -1};
};

StepRecord tenth_step() {
  StepRecord record;
  record.global_step = 10;
  record.steps = 10;
  record.epoch = 0.5;
  record.loss = 0.42134;
  record.grad_norm = 1.5;
  record.learning_rate = 1e-5;
  record.wall_seconds = 20.0;
  record.seconds[static_cast<int>(StepPhase::kWaitForData)] = 0.5;
  record.samples_per_second = 34.54;
  return record;
}

TEST(Progress, ALogGetsOnePlainLineARecordAndNoBar) {
  Pipe pipe;
  Progress progress(pipe.in(), false, 80);
  progress.begin("train", 0, 100, 0.0);
  for (int step = 1; step <= 10; ++step) progress.step({step, 0.05 * step, 0.5, 30.0}, step);
  progress.record(tenth_step());
  progress.end(20.0);
  EXPECT_EQ(pipe.text(),
            "bascule: train: step  10/100  epoch 0.50  loss 0.4213  grad norm 1.5000  lr 1.000e-05  34.54 samples/s  "
            "waited for data 2.5 %  3 min 00 s left\n");
}

TEST(Progress, ALogHearsFromALongEvaluationEveryHalfMinute) {
  Pipe pipe;
  Progress progress(pipe.in(), false, 80);
  progress.begin("validation", 0, 100, 1000.0);
  for (int batch = 1; batch <= 80; ++batch) progress.step({batch, -1.0, std::nan(""), 0.0}, 1000.0 + batch);
  progress.end(1080.0);
  progress.begin("test", 0, 20, 1080.0);
  for (int batch = 1; batch <= 20; ++batch) progress.step({batch, -1.0, std::nan(""), 0.0}, 1080.0 + batch);
  progress.end(1100.0);
  EXPECT_EQ(pipe.text(),
            "bascule: validation: batch  30/100  1 min 10 s left\n"
            "bascule: validation: batch  60/100  40.0 s left\n");
}

TEST(Progress, AfterTheLastBatchNoTimeIsLeft) {
  Pipe pipe;
  Progress progress(pipe.in(), false, 80);
  progress.begin("test", 0, 2, 0.0);
  progress.step({1, -1.0, std::nan(""), 0.0}, 10.0);
  progress.step({2, -1.0, std::nan(""), 0.0}, 40.0);
  EXPECT_EQ(pipe.text(), "bascule: test: batch 2/2\n");
}

TEST(Progress, TheBarIsRedrawnAtMostFiveTimesASecond) {
  Pipe pipe;
  Progress progress(pipe.in(), true, 100);
  progress.begin("train", 0, 1000, 0.0);
  for (int step = 1; step <= 1000; ++step) progress.step({step, 0.0, 0.5, 30.0}, 0.001 * step);
  progress.end(1.0);
  const std::string text = pipe.text();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 7);
  EXPECT_NE(text.find("1000/1000"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, TheBarNeverIsWiderThanTheTerminal) {
  for (const int columns : {40, 60, 80, 200}) {
    Pipe pipe;
    Progress progress(pipe.in(), true, columns);
    progress.begin("validation", 0, 1000000, 0.0);
    progress.step({123456, 3.25, 0.4213, 1234.5}, 100.0);
    const std::string text = pipe.text();
    const std::string last = text.substr(text.rfind('\r') + 1);
    const auto shown =
        std::count_if(last.begin(), last.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
    EXPECT_LT(shown - 3, columns) << last;  // the three characters that clear the rest of the line are not shown
  }
}

TEST(Progress, TimeLeftCountsOnlyTheStepsOfThisProcess) {
  Pipe pipe;
  Progress progress(pipe.in(), true, 120);
  progress.begin("train", 900, 1000, 0.0);
  progress.step({950, 1.0, 0.5, 30.0}, 60.0);
  EXPECT_NE(pipe.text().find("01:00 left"), std::string::npos);
}

TEST(Progress, ANoteStandsOnALineOfItsOwn) {
  Pipe pipe;
  Progress progress(pipe.in(), true, 80);
  progress.begin("train", 0, 10, 0.0);
  progress.note("saved checkpoint-5");
  EXPECT_NE(pipe.text().find("\r\033[Kbascule: train: saved checkpoint-5\n"), std::string::npos);
}

TEST(Progress, EvaluationNamesItsMetrics) {
  Pipe pipe;
  Progress progress(pipe.in(), false, 80);
  EvaluationRecord record;
  record.global_step = 100;
  record.loss = 0.7;
  record.samples = 300;
  record.seconds = 2.0;
  record[test::kAccuracy] = 0.875;
  progress.evaluation(record, {test::kOfWords, std::size(test::kOfWords)});
  EXPECT_EQ(pipe.text(), "bascule: validation: step 100  loss 0.7000  accuracy 87.5 %  (300 samples in 2.00 s)\n");
}

TEST(Progress, EvaluationSaysWhereItIsOfTheAveragedWeights) {
  Pipe pipe;
  Progress progress(pipe.in(), false, 80);
  EvaluationRecord record;
  record.split = Split::kTest;
  record.averaged = 1;
  record.global_step = 100;
  record.loss = 0.7;
  record.samples = 300;
  record.seconds = 2.0;
  progress.evaluation(record, {});
  EXPECT_EQ(pipe.text(), "bascule: test, averaged: step 100  loss 0.7000  (300 samples in 2.00 s)\n");
}

TEST(Progress, AClosedOutputIsIgnored) {
  Progress progress = Progress::silent();
  progress.begin("train", 0, 10, 0.0);
  progress.record(tenth_step());
  progress.note("nobody hears this");
  progress.end(1.0);
}

}  // namespace
}  // namespace bascule
