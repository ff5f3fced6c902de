// SPDX-License-Identifier: Apache-2.0
// Evaluations of the demo's validation file, with weights that are all zero: batches are counted, and nothing is
// judged.
#include "src/replay/evaluate.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "kernels/isa.h"
#include "src/runtime/arena.h"
#include "src/runtime/threads.h"
#include "tests/record/demo_run.h"

namespace bascule::test {
namespace {

constexpr std::int64_t kRows = 200, kBatch = 64, kBatches = 4;  // the last one has 8 rows

// Counts batches. A signal comes while it has the last of `until_signal`; 0: none comes.
class Counter final : public Judge {
 public:
  Counter(const JudgeShape& shape, std::int64_t until_signal) : Judge(shape), until_signal_(until_signal) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes())));
  }
  void seal(GemmLibrary& products) { Judge::seal(memory_.get(), nullptr, {{"loss", 1, &loss_}}, products); }
  std::int64_t batches() const { return batches_; }
  const volatile int* stop() const { return &stop_; }

  const char* file() const override { return ""; }
  std::int64_t file_bytes(std::int64_t) const override { return 0; }
  void write_files(const JudgedFiles&, Report*) const override {}

 protected:
  void found(GemmLibrary&) override {}
  void take_rows(const Batch&, const Manifest&, Sums*) noexcept override {
    if (++batches_ == until_signal_) stop_ = SIGTERM;
  }
  void move_row(std::int64_t, std::int64_t) noexcept override {}
  void judge_rows(Threads&, const Sums*, EvaluationRecord*) noexcept override {}

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  const float loss_ = 0.0f;
  const std::int64_t until_signal_;
  std::int64_t batches_ = 0;
  volatile int stop_ = 0;
};

// A tape whose runs fail from batch `until_failure` on; 0: none does.
class FailingRunner final : public BatchRunner {
 public:
  FailingRunner(const Tape& tape, std::int64_t until_failure) : tape_(tape), until_failure_(until_failure) {}
  Status run(const Batch& batch, Threads& threads, DecodingWatch* watch) noexcept override {
    if (++batches_ == until_failure_) return {StatusCode::kReadFailed, {7, 0}};
    return tape_.run(batch, threads, watch);
  }

 private:
  TapeRunner tape_;
  const std::int64_t until_failure_;
  std::int64_t batches_ = 0;
};

class Evaluated {
 public:
  explicit Evaluated(std::int64_t until_signal, std::int64_t until_failure = 0) : judge_(shape(), until_signal) {
    run_->session.seal(arena_, run_->plan, kernels_for(best_isa()), run_->threads);
    judge_.seal(run_->session.products());
    Loader loader(run_->data.loader, run_->data.plan,
                  Span<std::byte>(arena_.at(run_->plan[kLoaderMemory]), run_->plan[kLoaderMemory].bytes));
    Threads threads(run_->threads, false);
    Group alone(RankPlace{}, GroupOptions{});
    FailingRunner runner(run_->session.tape(run_->graphs[Use::kEvaluate].number), until_failure);
    Evaluation evaluation(judge_, kBatch, runner, alone);
    const RecordedSplit& split = *run_->data.find(Split::kValidation);
    const int log = ::open((folder_.path() + "/log").c_str(), O_CREAT | O_RDWR, 0600);
    Progress progress(log, true, 100);
    status =
        evaluation.run(loader.stream(split.stream), *split.manifest, false, threads, judge_.stop(), &record, &progress);
    ::close(log);
  }
  std::int64_t batches() const { return judge_.batches(); }
  // The last state of the bar.
  std::string progress() const {
    std::ifstream file(folder_.path() + "/log");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.substr(text.rfind('\r') + 1);
  }

  Status status;
  EvaluationRecord record;

 private:
  static JudgeShape shape() {
    JudgeShape shape;
    shape.max_rows = kRows;
    shape.batch = kBatch;
    shape.losses = {{"loss", kSamples}};
    shape.outputs = {{"loss", 1, nullptr}};
    return shape;
  }

  TemporaryFolder folder_;
  DemoRun run_{"", "do_train = false\nper_device_eval_batch_size = 64\n"};
  Arena arena_{run_->plan, HugePages::kOff};
  Counter judge_;
};

TEST(Evaluation, TheLastSmallerBatchIsEvaluatedAndCounted) {
  const Evaluated whole(0);
  ASSERT_TRUE(whole.status.ok());
  EXPECT_EQ(whole.batches(), kBatches);
  EXPECT_EQ(whole.record.steps, kBatches);
  EXPECT_EQ(whole.record.samples, kRows);
  EXPECT_GT(whole.record.seconds, 0.0);
  EXPECT_EQ(whole.progress().rfind("validation 100%", 0), 0u) << whole.progress();
  EXPECT_NE(whole.progress().find(" 4/4 "), std::string::npos) << whole.progress();
}

TEST(Evaluation, ASignalBetweenTwoBatchesStopsIt) {
  const Evaluated stopped(2);
  EXPECT_EQ(stopped.status.code, StatusCode::kStopped);
  EXPECT_EQ(stopped.status.detail[0], SIGTERM);
  EXPECT_EQ(stopped.batches(), 2);
}

TEST(Evaluation, EndsWithTheStatusOfABatchThatCannotBeComputed) {
  const Evaluated failed(0, 3);
  EXPECT_EQ(failed.status.code, StatusCode::kReadFailed);
  EXPECT_EQ(failed.status.detail[0], 7);
  EXPECT_EQ(failed.batches(), 2);
}

}  // namespace
}  // namespace bascule::test
