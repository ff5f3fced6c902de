// SPDX-License-Identifier: Apache-2.0
// What a checkpoint asks of the run that goes on from it, and what of the run it keeps.
#include "src/record/resume_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "src/record/plan_data.h"
#include "src/record/training_position.h"
#include "tests/record/demo_run.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace bascule::test {
namespace {

// Goes on from update 3 of a run with the first lines of [training], with the second ones. has_ended: `bascule stop`
// ended it there.
ResumeState go_on(const std::string& then, const std::string& now, bool has_ended = false) {
  DemoRun before("", then), after("", now);
  ResumeState resume;
  ResumePoint& point = resume.point.emplace();
  point.folder = "run/checkpoint-3";
  point.global_step = 3;
  point.settings = number_keys(before->settings);
  if (has_ended) {
    point.folder = after->settings.run.output_dir.resolved + "/checkpoint-3";
    TrainingPosition position;
    position.ended_at = 3;
    NamedNumber numbers[kPositionNumbers] = {};
    write_numbers(position, numbers);
    for (const NamedNumber& number : numbers) point.numbers.emplace_back(number.name, number.value);
  }
  check_length(after->settings, after->pace, &resume);
  return resume;
}

// The schedule has the same length in all of them.
TEST(ResumeCheck, ARunHasNoFewerUpdatesThanItWasPlannedWith) {
  const std::string schedule = "lr_schedule_steps = 10\n";
  const std::string line =
      error_of([&] { go_on(schedule + "max_steps = 8\n", schedule + "max_steps = 6\n"); }, ErrorKind::kSettings);
  EXPECT_NE(line.find("training.max_steps is 6 (6 updates), but run/checkpoint-3 was trained with 8 (8 updates)"),
            std::string::npos)
      << line;
  EXPECT_FALSE(go_on(schedule + "max_steps = 8\n", schedule + "max_steps = 8\n").is_longer);
  EXPECT_TRUE(go_on(schedule + "max_steps = 8\n", schedule + "max_steps = 9\n").is_longer);
}

TEST(ResumeCheck, ARunThatWasStoppedGoesOnWithAnyOtherLengthBeyondItsEnd) {
  const auto go_on_with = [](const char* updates) {
    const std::string schedule = "lr_schedule_steps = 10\nmax_steps = ";
    return go_on(schedule + "8\n", schedule + updates, true);
  };
  EXPECT_FALSE(go_on_with("8\n").is_longer) << "it stays ended";
  EXPECT_TRUE(go_on_with("9\n").is_longer);
  const ResumeState shorter = go_on_with("5\n");
  EXPECT_TRUE(shorter.is_longer);
  ASSERT_FALSE(shorter.notes.empty());
  EXPECT_EQ(shorter.notes[0].find("resume: 5 updates instead of 3"), 0U) << shorter.notes[0];
  EXPECT_FALSE(go_on_with("3\n").is_longer);
  EXPECT_NE(error_of([&] { go_on_with("2\n"); }, ErrorKind::kSettings).find("training.max_steps is 2"),
            std::string::npos);
}

TEST(ResumeCheck, AScheduleIsNotShortened) {
  const std::string line =
      error_of([] { go_on("max_steps = 8\nlr_schedule_steps = 10\n", "max_steps = 8\nlr_schedule_steps = 9\n"); },
               ErrorKind::kSettings);
  EXPECT_NE(line.find("training.lr_schedule_steps is 9 (9 updates)"), std::string::npos) << line;
}

constexpr Metric kWritten = {"rouge1", "ROUGE-1", 2, true, false, 0, 0, true};
constexpr Metric kCounted = {"accuracy", "accuracy", 1, true};
constexpr Metric kOfTexts[] = {kCounted, kWritten};

struct Searched {
  std::int64_t total_updates = 8, best = 2, ended = 0;
  bool is_longer = false;
};

// A search for the best by `figure` that goes on from update 3, where it was by `then`, with these keys changed.
ResumeState search_on(const std::string& then, const std::string& figure, const std::vector<std::string>& changed,
                      const Searched& searched = {}, ControlSettings* control = nullptr) {
  const Metrics metrics(kOfTexts, 2);
  TrainingSettings training;
  training.metric_for_best_model = figure;
  training.greater_is_better = true;
  training.predict_with_generate = true;
  Pace before, now;
  before.best_figure = EvaluationFigure::named(then, metrics);
  before.control.greater_is_better = true;
  now.length.total_updates = searched.total_updates;
  ResumeState resume;
  resume.is_longer = searched.is_longer;
  ResumePoint& point = resume.point.emplace();
  point.folder = "run/checkpoint-3";
  point.global_step = 3;
  TrainingPosition position;
  position.best.step = position.best.checkpoint = searched.best;
  position.ended_at = searched.ended;
  NamedNumber numbers[kPositionNumbers] = {};
  write_numbers(position, numbers);
  for (const NamedNumber& number : numbers) point.numbers.emplace_back(number.name, number.value);
  point.numbers.emplace_back("best_figure_number", before.best_figure_number());
  for (const std::string& key : changed) resume.changes.push_back({key, "1", "2"});
  plan_control(training, "run", SettingsOrigin(), RunData(), metrics, 0, &now, &resume);
  if (control != nullptr) *control = now.control;
  EXPECT_EQ(resume.searches_anew, !resume.notes.empty() && resume.notes[0].find("restarting") != std::string::npos);
  return resume;
}

TEST(PlanControl, SaysWhyTheSearchForTheBestBeginsAnew) {
  const std::string end = ": restarting the search for the best, from the weights of update 3";
  const std::vector<std::string> rules = {"training.learning_rate", "generation.num_beams"};
  for (const auto& [then, figure, changed, reason] :
       std::vector<std::tuple<std::string, std::string, std::vector<std::string>, std::string>>{
           {"rouge1", "rouge1", rules, "the rules for writing texts have changed"},
           {"accuracy", "accuracy", rules, ""},
           {"rouge1", "rouge1", {"training.learning_rate", "model.generation.x"}, ""},
           {"rouge1", "rouge1", {}, ""},
           {"accuracy", "rouge1", {}, "the metric for the best has changed"},
           {"accuracy", "rouge1", rules, "the metric for the best has changed"},
           {"accuracy", "accuracy", {"data.max_eval_samples"}, "validation rows or batches have changed"},
           {"accuracy", "accuracy", {"data.validation_file (content)"}, "validation rows or batches have changed"},
           {"accuracy", "accuracy", {"data.max_train_samples"}, ""}}) {
    const std::vector<std::string> expected = {"resume: " + reason + end};
    EXPECT_EQ(search_on(then, figure, changed).notes, reason.empty() ? std::vector<std::string>() : expected)
        << then << " " << figure;
  }
}

// It is by the figure of then.
TEST(PlanControl, TheBestOfARunThatIsOverStays) {
  const auto notes_of = [](const std::string& figure) {
    ControlSettings control;
    const ResumeState resume = search_on("accuracy", figure, {"generation.num_beams"}, {3}, &control);
    EXPECT_TRUE(resume.is_over && control.keeps_best && control.greater_is_better);
    return resume.notes;
  };
  EXPECT_EQ(notes_of("accuracy"), std::vector<std::string>());
  EXPECT_EQ(notes_of("rouge1"),
            std::vector<std::string>{"resume: nothing left to train; update 2 remains the best, by accuracy"});
  ControlSettings control;
  EXPECT_EQ(search_on("", "rouge1", {}, {3, -1}, &control).notes.size(), 1U);
  EXPECT_FALSE(control.keeps_best || control.greater_is_better) << "none was kept";
}

TEST(PlanControl, ARunThatIsOverSearchesAnewWhereNoneWasFound) {
  EXPECT_EQ(search_on("rouge1", "rouge1", {}, {3, -1}).notes,
            std::vector<std::string>{"resume: no evaluation has found rouge1: restarting the search for the best, from "
                                     "the weights of update 3"});
}

TEST(PlanControl, ARunThatWasEndedIsOverUntilItIsMadeLonger) {
  EXPECT_TRUE(search_on("rouge1", "rouge1", {}, {8, 2, 3}).is_over);
  EXPECT_FALSE(search_on("rouge1", "rouge1", {}, {8, 2, 3, true}).is_over);
}

TEST(PlanControl, ValidationRowsAreToldByTheirDigestWhereThereIsOne) {
  ResumeState resume;
  resume.point.emplace();
  resume.changes = {{"data.validation_file", "a", "b"}};
  EXPECT_FALSE(has_same_validation(resume));
  resume.point->data = {{"data.validation_file", "digest"}};
  EXPECT_TRUE(has_same_validation(resume));
}

TEST(PlanControl, ASearchWhoseBestCheckpointIsMissingBeginsAnew) {
  const TemporaryFolder folder;
  RunSettings run;
  run.output_dir.resolved = folder.path();
  TrainingSettings training;
  training.load_best_model_at_end = true;
  const auto begins_anew = [&](std::int64_t best) {
    ResumeState resume = search_on("rouge1", "rouge1", {}, {8, best});
    check_best_checkpoint(run, training, &resume);
    return resume.searches_anew;
  };
  EXPECT_TRUE(begins_anew(2));
  EXPECT_FALSE(begins_anew(-1)) << "there is none yet";
  std::filesystem::create_directory(folder.path() + "/checkpoint-2");
  folder.write(std::string("checkpoint-2/") + kStateFile, "{}");
  EXPECT_FALSE(begins_anew(2));
}

// A search that begins anew needs a first checkpoint of its own, where it is not the one that the run goes on from.
TEST(PlanControl, TheFirstCheckpointOfASearchIsSavedWhereThereIsNone) {
  ResumeState resume = search_on("accuracy", "rouge1", {});
  EXPECT_TRUE(resume.searches_anew);
  EXPECT_FALSE(saves_first("run", resume));
  EXPECT_TRUE(saves_first("other", resume));
  resume.is_over = true;
  EXPECT_TRUE(saves_first("run", resume));
  resume.searches_anew = false;
  EXPECT_FALSE(saves_first("other", resume));
}

TEST(TrainingPosition, IsReadBackAsItWasWritten) {
  // No two numbers are the same, and none is what a missing one is taken for.
  NamedNumber numbers[kPositionNumbers] = {}, again[kPositionNumbers] = {};
  write_numbers({}, numbers);
  ResumePoint point;
  for (std::size_t i = 0; i < kPositionNumbers; ++i)
    point.numbers.emplace_back(numbers[i].name, static_cast<double>(i + 1));
  point.global_step = 77;
  const TrainingPosition position = read_position(point);
  EXPECT_EQ(position.global_step, 77);
  write_numbers(position, again);
  for (std::size_t i = 0; i < kPositionNumbers; ++i)
    EXPECT_EQ(again[i].value, static_cast<double>(i + 1)) << again[i].name;
}

}  // namespace
}  // namespace bascule::test
