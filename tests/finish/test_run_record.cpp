// SPDX-License-Identifier: Apache-2.0
#include "src/finish/run_record.h"

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/settings/absolute_paths.h"

namespace bascule {
namespace {

RunRecord filled() {
  RunRecord record;
  record.settings = "[model]\n";
  record.settings_file = {"/a/run.toml", "01"};
  record.settings_keys = {"training.seed=7"};
  record.program = {"/a/bascule", "02"};
  record.machine = lasting_facts();
  record.libraries = {{"/lib/libm.so.6", "03"}};
  record.results = {{"model.safetensors", "04"}};
  record.data = {{"train", "05"}};
  record.steps = {{2, "06", "07"}};
  record.evaluations = {{"test", 2, "08"}};
  record.ended_at = 9;
  record.schedule_steps = 30;
  record.train_loss = 1.25;
  record.pace = {3.0, 2.0, 4.0};
  return record;
}

TEST(RunRecord, IsReadAsItWasWritten) {
  const Json written = record_json(filled());
  const RunRecord read = read_record(parse_json(json_text(written), "bascule.json"), "bascule.json");
  EXPECT_EQ(json_text(record_json(read)), json_text(written));
  EXPECT_EQ(read.settings_keys, std::vector<std::string>{"training.seed=7"});
  EXPECT_EQ(read.results[0].sha256, "04");
  EXPECT_EQ(read.steps[0].norm, "07");
  EXPECT_EQ(read.train_loss, 1.25);
  EXPECT_EQ(read.ended_at, 9);
  EXPECT_EQ(read.schedule_steps, 30);
}

TEST(RunRecord, ARunThatWasEndedEarlyIsRepeatedOnItsOwnSchedule) {
  Settings settings;
  settings.training.num_train_epochs = 3.0;
  const Settings whole = repeating_settings(settings, RunRecord());
  EXPECT_EQ(whole.training.num_train_epochs, 3.0);
  EXPECT_EQ(whole.training.max_steps, 0);
  EXPECT_EQ(whole.training.lr_schedule_steps, 0);
  const Settings ended = repeating_settings(settings, filled());
  EXPECT_EQ(ended.training.num_train_epochs, 0.0);
  EXPECT_EQ(ended.training.max_steps, 9);
  EXPECT_EQ(ended.training.lr_schedule_steps, 30);
}

TEST(RunRecord, AChangedOrForeignOneIsRefused) {
  Json changed = record_json(filled());
  changed["train_loss"] = 1.0;
  EXPECT_THROW(read_record(changed, "bascule.json"), Error);
  Json newer = record_json(filled());
  newer["format"] = kRecordFormat + 1;
  EXPECT_THROW(read_record(newer, "bascule.json"), Error);
}

TEST(RunRecord, TheRangeOfRatesLeavesTheWarmUpOut) {
  Report report;
  report.train.whole.samples_per_second = 30.0;
  const auto add = [&](std::int64_t step, std::int64_t steps, double rate) {
    StepRecord record;
    record.global_step = step;
    record.steps = steps;
    record.samples_per_second = rate;
    report.steps.push_back(record);
  };
  add(2, 2, 1.0);
  add(4, 2, 90.0);  // its first update is of the warm-up of three
  add(6, 2, 40.0);
  add(8, 2, 20.0);
  add(9, 1, 0.0);  // no time was measured
  for (const std::int64_t warmup : {3, 4}) {
    const RecordedPace pace = pace_of(report, warmup);
    EXPECT_EQ(pace.whole, 30.0);
    EXPECT_EQ(pace.least, 20.0) << warmup;
    EXPECT_EQ(pace.most, 40.0) << warmup;
  }
  EXPECT_EQ(pace_of(report, 2).most, 90.0);
  EXPECT_EQ(pace_of(report, 9).least, 0.0);
}

// `reproduce` runs these again, wherever it is called.
TEST(RunRecord, EachPathOfAListOfShardsIsAbsolute) {
  Settings settings;
  settings.data.train_file = PathsSetting("../a.tar,b-{0,1}.tar");
  settings.data.train_file.start = "/data/runs";
  settings.data.validation_file = PathsSetting("rows,1.jsonl");
  settings.data.validation_file.start = "/data";
  const Settings absolute = with_absolute_paths(settings);
  EXPECT_EQ(absolute.data.train_file.written, std::vector<std::string>{"/data/a.tar,/data/runs/b-{0,1}.tar"});
  EXPECT_EQ(absolute.data.validation_file.written, std::vector<std::string>{"/data/rows,1.jsonl"});
}

// A path that has no absolute form stays as it was written: the results of a finished run are not lost for it.
TEST(RunRecord, APatternBelowAFolderWithSignsOfAPatternStaysRelative) {
  Settings settings;
  settings.data.train_file = PathsSetting("p*.jsonl");
  settings.data.train_file.start = "/data/g[1]";
  settings.data.validation_file = PathsSetting("a.tar,,b.tar");
  settings.data.validation_file.start = "/data";
  const Settings absolute = with_absolute_paths(settings);
  EXPECT_EQ(absolute.data.train_file.written, std::vector<std::string>{"p*.jsonl"});
  EXPECT_EQ(absolute.data.validation_file.written, std::vector<std::string>{"/data/a.tar,,/data/b.tar"});
}

}  // namespace
}  // namespace bascule
