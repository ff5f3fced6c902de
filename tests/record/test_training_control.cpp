// SPDX-License-Identifier: Apache-2.0
#include "src/record/training_position.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <vector>

#include "src/checkpoint/checkpoint.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
using Steps = std::vector<std::int64_t>;

Interval interval_named(const std::string& name) {
  return name == "no" ? Interval::kNo : name == "steps" ? Interval::kSteps : Interval::kEpoch;
}

// Records what a run did under a control: a training loop without training.
struct Course {
  Steps evaluated, saved, kept;
  std::int64_t ended = 0;
  BestSoFar best;
};

// Checkpoints are folders with nothing but the state file that makes them ours. at_each_step: for an interruption
// there.
template <typename AtEachStep>
Course run_course(TrainingControl control, const Json& figures, std::int64_t limit, const AtEachStep& at_each_step) {
  const TemporaryFolder folder;
  CheckpointRotation rotation(folder.path(), limit);
  Course course;
  std::int64_t step = 0;
  while (!control.ends_after(step)) {
    ++step;
    at_each_step(&control);
    if (control.evaluates_after(step)) {
      const Json& figure = figures[course.evaluated.size()];
      course.evaluated.push_back(step);
      control.judge(step, figure.is_null() ? kNotANumber : figure.number());
    }
    if (!control.saves_after(step)) continue;
    course.saved.push_back(step);
    control.saves(step);
    const std::string checkpoint = folder.path() + "/" + std::string(checkpoint_name(step).text());
    std::filesystem::create_directory(checkpoint);
    std::ofstream(checkpoint + "/" + kStateFile) << "{}";
    EXPECT_TRUE(rotation.remove_old(step, control.best().checkpoint).ok());
  }
  if (limit == 1 && control.best().checkpoint >= 0) {
    EXPECT_TRUE(rotation.keep_only(control.best().checkpoint).ok());
  }
  for (const std::string& name : folder_entries(folder.path())) course.kept.push_back(*checkpoint_step(name));
  std::sort(course.kept.begin(), course.kept.end());
  course.ended = step;
  course.best = control.best();
  return course;
}

ControlSettings settings_of(const Json& c) {
  ControlSettings settings;
  settings.evaluate = interval_named(c["eval_strategy"].string());
  settings.save = interval_named(c["save_strategy"].string());
  settings.eval_steps = c["eval_steps"].integer();
  settings.save_steps = c["save_steps"].integer();
  settings.updates_per_epoch = c["updates_per_epoch"].integer();
  settings.total_updates = c["total_updates"].integer();
  settings.keeps_best = true;
  settings.greater_is_better = c["greater_is_better"].boolean();
  settings.patience = c["patience"].integer();
  settings.threshold = c["threshold"].number();
  return settings;
}

// The cases and what Trainer did: tools/trainer_decisions.py. Trainer saves nothing at the end with save_strategy "no",
// and where it stops early it saves only if that is due; we save always. Those cases are compared up to that.
TEST(TrainingControl, DecidesAsTrainerWithEarlyStopping) {
  const Json file = read_json_file(std::string(BASCULE_TEST_DATA) + "/trainer_decisions.json");
  ASSERT_EQ(file["cases"].size(), 60U);
  int stopped = 0, whole = 0;
  for (const Json& c : file["cases"]) {
    SCOPED_TRACE(json_text(c));
    const Json& expected = c["expected"];
    const Course course = run_course(TrainingControl(settings_of(c), {}), c["figures"], c["save_total_limit"].integer(),
                                     [](TrainingControl*) {});
    const Steps saved = get_ints(expected, "saved", "trainer_decisions.json");
    EXPECT_EQ(course.evaluated, get_ints(expected, "evaluated", "trainer_decisions.json"));
    EXPECT_EQ(course.ended, expected["ended"].integer());
    stopped += course.ended < c["total_updates"].integer() ? 1 : 0;
    if (expected["best_figure"].is_null()) {
      EXPECT_LT(course.best.step, 0);
    } else {
      EXPECT_EQ(course.best.figure, expected["best_figure"].number());
    }
    const bool saves_at_end = !saved.empty() && saved.back() == course.ended;
    if (!saves_at_end) {  // Trainer did not save there
      EXPECT_EQ(Steps(course.saved.begin(), course.saved.end() - 1), saved);
      continue;
    }
    ++whole;
    EXPECT_EQ(course.saved, saved);
    EXPECT_EQ(course.kept, get_ints(expected, "kept", "trainer_decisions.json"));
    EXPECT_EQ(course.best.step, expected["best_step"].is_null() ? -1 : expected["best_step"].integer());
    EXPECT_EQ(course.best.checkpoint,
              expected["best_checkpoint"].is_null() ? -1 : expected["best_checkpoint"].integer());
  }
  EXPECT_GE(stopped, 10);
  EXPECT_GE(whole, 30);
}

// A checkpoint keeps all that the control knows.
TEST(TrainingControl, EndsWithTheUpdateThatIsAskedForAsIfItHadBeenPlanned) {
  ControlSettings settings;
  settings.evaluate = settings.save = Interval::kSteps;
  settings.eval_steps = settings.save_steps = 4;
  settings.total_updates = 20;
  TrainingControl control(settings, {});
  control.end_with(8);
  settings.total_updates = 8;
  const TrainingControl planned(settings, {});
  for (std::int64_t step = 1; step <= 9; ++step) {
    EXPECT_EQ(control.evaluates_after(step), planned.evaluates_after(step)) << step;
    EXPECT_EQ(control.saves_after(step), planned.saves_after(step)) << step;
    EXPECT_EQ(control.ends_after(step), planned.ends_after(step)) << step;
  }
  control.end_with(12);  // no later than planned
  EXPECT_TRUE(control.ends_after(8));
}

TEST(TrainingControl, GoesOnFromItsBestAsIfItHadNeverStopped) {
  const Json file = read_json_file(std::string(BASCULE_TEST_DATA) + "/trainer_decisions.json");
  for (const Json& c : file["cases"]) {
    SCOPED_TRACE(json_text(c));
    const ControlSettings settings = settings_of(c);
    const std::int64_t limit = c["save_total_limit"].integer();
    const Course whole = run_course(TrainingControl(settings, {}), c["figures"], limit, [](TrainingControl*) {});
    const Course pieces = run_course(TrainingControl(settings, {}), c["figures"], limit, [&](TrainingControl* control) {
      *control = TrainingControl(settings, control->best());
    });
    EXPECT_EQ(pieces.evaluated, whole.evaluated);
    EXPECT_EQ(pieces.saved, whole.saved);
    EXPECT_EQ(pieces.kept, whole.kept);
    EXPECT_EQ(pieces.best.checkpoint, whole.best.checkpoint);
  }
}

TEST(TrainingControl, WithoutABestOneItEvaluatesTheEndOutsideOfTraining) {
  ControlSettings settings;
  settings.evaluate = settings.save = Interval::kSteps;
  settings.eval_steps = 4;
  settings.save_steps = 6;
  settings.total_updates = 12;
  const TrainingControl control(settings, {});
  Steps evaluated, saved;
  for (std::int64_t step = 0; step <= 12; ++step) {
    if (control.evaluates_after(step)) evaluated.push_back(step);
    if (step > 0 && control.saves_after(step)) saved.push_back(step);
  }
  EXPECT_EQ(evaluated, (Steps{4, 8}));
  EXPECT_EQ(saved, (Steps{6, 12}));
  EXPECT_FALSE(control.ends_after(11));
  EXPECT_TRUE(control.ends_after(12));
}

// EarlyStoppingCallback asks for more than the threshold; the better figure is the best one all the same.
TEST(TrainingControl, AnImprovementByTheThresholdIsTooLittle) {
  ControlSettings settings;
  settings.evaluate = Interval::kSteps;
  settings.eval_steps = 1;
  settings.total_updates = 9;
  settings.keeps_best = true;
  settings.patience = 1;
  settings.threshold = 0.25;
  TrainingControl control(settings, {});
  EXPECT_TRUE(control.judge(1, 1.0));
  EXPECT_TRUE(control.judge(2, 0.5));
  EXPECT_FALSE(control.stops_early());
  EXPECT_TRUE(control.judge(3, 0.25));
  EXPECT_TRUE(control.stops_early());
  EXPECT_EQ(control.best().step, 3);
}

// A signal's checkpoint is none that a run without the signal has: it must not become the best one.
TEST(TrainingControl, OnlyACheckpointThatWasDueBecomesTheBest) {
  ControlSettings settings;
  settings.evaluate = settings.save = Interval::kSteps;
  settings.eval_steps = 1;
  settings.save_steps = 2;
  settings.total_updates = 9;
  settings.keeps_best = true;
  TrainingControl control(settings, {});
  EXPECT_TRUE(control.judge(1, 0.5));
  EXPECT_FALSE(control.saves_after(1));
  EXPECT_FALSE(control.judge(2, 0.6));
  control.saves(2);
  EXPECT_EQ(control.best().step, 1);
  EXPECT_EQ(control.best().checkpoint, -1);
  EXPECT_TRUE(control.judge(4, 0.4));
  control.saves(4);
  EXPECT_EQ(control.best().checkpoint, 4);
}

// The interval before such an evaluation is closed first.
TEST(TrainingControl, AnEvaluationMayEndTheRunWhereThePatienceIsNearlyAtItsEnd) {
  ControlSettings settings;
  settings.evaluate = Interval::kSteps;
  settings.eval_steps = 2;
  settings.total_updates = 100;
  settings.patience = 2;
  settings.keeps_best = true;
  TrainingControl control(settings, {});
  control.judge(2, 1.0);
  EXPECT_FALSE(control.may_end_after(4)) << "no evaluation was in vain yet";
  control.judge(4, 2.0);
  EXPECT_TRUE(control.may_end_after(6));
  EXPECT_FALSE(control.may_end_after(5)) << "no evaluation";
  EXPECT_FALSE(control.ends_after(6));
  control.judge(6, 2.0);
  EXPECT_TRUE(control.ends_after(6));
}

}  // namespace
}  // namespace bascule::test
