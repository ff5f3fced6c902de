// SPDX-License-Identifier: Apache-2.0
// The files of a store of MLflow, byte by byte: what MLflow's own reader makes of them is checked by
// tools/mlflow_check.
#include "src/logs/mlflow_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/logs/json_log.h"
#include "tests/logs/sample_metrics.h"
#include "tests/support/count_allocations.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

struct Mlflow : testing::Test {
  Mlflow() { fs::create_directory(output()); }
  fs::path store() const { return folder.path() + "/a store"; }
  fs::path output(const std::string& name = "demo") const { return folder.path() + "/" + name; }
  MlflowPlace place(const std::string& name = "demo") const {
    return {store().string(),
            name,
            output(name).string(),
            {{"training.seed", "7"}},
            {{"mlflow.source.type", "LOCAL"}, {"bascule.output_dir", output(name).string()}}};
  }
  // The folder of the run whose output folder has that name.
  fs::path run_folder(const std::string& name = "demo") const {
    return store() / "0" / text_of(output(name) / ".mlflow-run").substr(0, 32);
  }
  static StepRecord record(std::int64_t step) {
    StepRecord one;
    one.global_step = step;
    one.loss = 1.0 / static_cast<double>(step);
    one.learning_rate = 1e-5;
    return one;
  }
  static EvaluationRecord evaluation(std::int64_t step) {
    EvaluationRecord one;
    one.global_step = step;
    one.samples = 100000;
    one.loss = 2.5;
    one[test::kAccuracy] = 0.75;
    return one;
  }
  // Both files, as the loop writes them.
  void write(MlflowRun* run, JsonLog* log, std::int64_t step, double time) const {
    const Metrics metrics{test::kOfWords, std::size(test::kOfWords)};
    EXPECT_TRUE(log->step(record(step), time).ok() && run->step(record(step), time).ok());
    EXPECT_TRUE(log->evaluation(evaluation(step), metrics, time).ok() &&
                run->evaluation(evaluation(step), metrics, time).ok());
  }

  test::TemporaryFolder folder;
};

TEST_F(Mlflow, ARunIsAFolderOfPlainFiles) {
  MlflowRun run = MlflowRun::open(place(), 1700000000.5);
  JsonLog log = JsonLog::open(output().string());
  write(&run, &log, 2, 1700000001.25);
  write(&run, &log, 4, 1700000002.5);
  const std::string uri = "file://" + folder.path() + "/a%20store/0";
  EXPECT_EQ(text_of(store() / "0/meta.yaml"),
            "artifact_location: \"" + uri +
                "\"\ncreation_time: 1700000000500\nexperiment_id: '0'\nlast_update_time: 1700000000500\n"
                "lifecycle_stage: active\nname: Default\n");
  const fs::path made = run_folder();
  const std::string id = made.filename().string();
  EXPECT_EQ(names_in(store() / "0"), (std::vector<std::string>{id, "meta.yaml"}));
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  const std::string meta = text_of(made / "meta.yaml");
  EXPECT_EQ(meta.substr(0, meta.find("user_id")),
            "artifact_uri: \"" + uri + "/" + id +
                "/artifacts\"\nend_time: null\nentry_point_name: ''\nexperiment_id: '0'\nlifecycle_stage: active\n"
                "run_id: '" +
                id +
                "'\nrun_name: \"demo\"\nsource_name: ''\nsource_type: 4\nsource_version: ''\n"
                "start_time: 1700000000500\nstatus: 1\ntags: []\n");
  EXPECT_EQ(text_of(made / "params/training.seed"), "7");
  EXPECT_EQ(text_of(made / "tags/mlflow.source.type"), "LOCAL");
  EXPECT_EQ(text_of(made / "tags/mlflow.runName"), "demo");
  EXPECT_EQ(names_in(made / "metrics"),
            (std::vector<std::string>{"epoch", "eval_accuracy", "eval_loss", "eval_runtime", "eval_samples",
                                      "grad_norm", "learning_rate", "loss", "samples_per_second"}));
  EXPECT_EQ(text_of(made / "metrics/loss"), "1700000001250 0.5 2\n1700000002500 0.25 4\n");
  EXPECT_EQ(text_of(made / "metrics/learning_rate"), "1700000001250 1e-05 2\n1700000002500 1e-05 4\n");
  EXPECT_EQ(text_of(made / "metrics/eval_accuracy"), "1700000001250 0.75 2\n1700000002500 0.75 4\n");
}

TEST_F(Mlflow, ARunThatResumesHasThePointsOfItsLogOnce) {
  {
    MlflowRun run = MlflowRun::open(place(), 1.0);
    JsonLog log = JsonLog::open(output().string());
    for (const std::int64_t step : {2, 4, 6}) write(&run, &log, step, 1700000000.0 + static_cast<double>(step));
  }
  const fs::path made = run_folder();
  std::ofstream(made / "metrics/loss", std::ios::app) << "17000000";  // a torn line
  std::ofstream(made / "metrics/of_a_judge_of_before") << "1 2 3\n";
  fs::create_directory(made / ".tmp-bascule-metrics");  // killed while it resumed
  std::ofstream(made / ".tmp-bascule-metrics/loss") << "1 2 3\n";
  std::ofstream(made / "tags/mlflow.runName") << "the name that MLflow's user gave";
  cut_log_after(output().string(), 4, 2);
  MlflowRun run = MlflowRun::open(place(), 2.0);
  EXPECT_EQ(run_folder(), made);
  EXPECT_EQ(text_of(made / "metrics/loss"), "1700000002000 0.5 2\n1700000004000 0.25 4\n");
  EXPECT_EQ(text_of(made / "metrics/eval_loss"), "1700000002000 2.5 2\n");
  EXPECT_EQ(text_of(made / "metrics/eval_samples"), "1700000002000 1e+05 2\n");
  EXPECT_FALSE(fs::exists(made / "metrics/of_a_judge_of_before"));
  EXPECT_FALSE(fs::exists(made / ".tmp-bascule-metrics"));
  EXPECT_NE(text_of(made / "meta.yaml").find("run_name: \"the name that MLflow's user gave\""), std::string::npos);
  EXPECT_NE(text_of(made / "meta.yaml").find("start_time: 1000\n"), std::string::npos);
  JsonLog log = JsonLog::open(output().string());
  write(&run, &log, 6, 1700000008.0);
  EXPECT_EQ(text_of(made / "metrics/loss"),
            "1700000002000 0.5 2\n1700000004000 0.25 4\n1700000008000 0.16666666666666666 6\n");
}

TEST_F(Mlflow, AMovedFolderIsTheSameRunAndACopyAnother) {
  MlflowRun::open(place(), 1.0);
  const fs::path first = run_folder();
  fs::rename(output(), output("moved"));
  MlflowRun::open(place("moved"), 2.0);
  EXPECT_EQ(run_folder("moved"), first);
  EXPECT_EQ(text_of(first / "tags/bascule.output_dir"), output("moved"));
  EXPECT_NE(text_of(first / "meta.yaml").find("start_time: 1000\n"), std::string::npos);
  fs::copy(output("moved"), output("copy"), fs::copy_options::recursive);
  MlflowRun::open(place("copy"), 3.0);
  EXPECT_NE(run_folder("copy"), first);
  MlflowRun::open(place("copy"), 4.0);
  EXPECT_EQ(names_in(store() / "0").size(), 3U);
}

// Tags can be deleted in MLflow: then only the copy itself names the folder that it was made from.
TEST_F(Mlflow, ACopyIsAnotherRunWhereTheTagOfTheFolderIsGone) {
  MlflowRun::open(place(), 1.0);
  fs::remove(run_folder() / "tags/bascule.output_dir");
  fs::copy(output(), output("copy"), fs::copy_options::recursive);
  MlflowRun::open(place("copy"), 2.0);
  EXPECT_NE(run_folder("copy"), run_folder());
}

TEST_F(Mlflow, AnIdIsNoPath) {
  const std::string outside = "../../../../../../../../tmp/else";
  ASSERT_EQ(outside.size(), 32U);
  std::ofstream(output() / ".mlflow-run") << outside << " 1 " << output().string() << "\n";
  MlflowRun::open(place(), 1.0);
  EXPECT_EQ(run_folder().filename().string().find('/'), std::string::npos);
  EXPECT_NE(text_of(output() / ".mlflow-run").substr(0, 32), outside);
}

TEST_F(Mlflow, ACopyAndAFolderThatWasMovedMeanwhileAreTwoRuns) {
  MlflowRun::open(place(), 1.0);
  fs::copy(output(), output("copy"), fs::copy_options::recursive);
  fs::rename(output(), output("moved"));
  MlflowRun::open(place("copy"), 2.0);
  MlflowRun::open(place("moved"), 3.0);
  MlflowRun::open(place("copy"), 4.0);
  EXPECT_NE(run_folder("moved"), run_folder("copy"));
  EXPECT_EQ(names_in(store() / "0").size(), 3U);
}

TEST_F(Mlflow, AnExperimentThatIsThereStays) {
  fs::create_directories(store() / "0");
  std::ofstream(store() / "0/meta.yaml") << "name: made by MLflow\n";
  MlflowRun::open(place(), 1.0);
  EXPECT_EQ(text_of(store() / "0/meta.yaml"), "name: made by MLflow\n");
}

TEST_F(Mlflow, RunsShareAStore) {
  std::vector<std::thread> runs;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "run" + std::to_string(i);
    fs::create_directory(output(name));
    runs.emplace_back([this, name] {
      MlflowRun run = MlflowRun::open(place(name), 1.0);
      EXPECT_TRUE(run.step(record(1), 1.0).ok());
      run.end(MlflowState::kKilled, 2.0);
    });
  }
  for (std::thread& run : runs) run.join();
  EXPECT_EQ(names_in(store() / "0").size(), 9U);
  for (int i = 0; i < 8; ++i) {
    const fs::path made = run_folder("run" + std::to_string(i));
    EXPECT_EQ(text_of(made / "metrics/loss"), "1000 1 1\n");
    EXPECT_NE(text_of(made / "meta.yaml").find("status: 5\n"), std::string::npos);
    EXPECT_NE(text_of(made / "meta.yaml").find("end_time: 2000\n"), std::string::npos);
  }
}

TEST_F(Mlflow, AFinishedRunHasItsResultsButNoWeights) {
  for (const char* name : {"README.md", "model.safetensors", "tensor_hashes.bin", "bascule.json", ".tokens-1"})
    std::ofstream(output() / name) << name;
  fs::create_directory(output() / "runs");
  for (const char* text : {"<p>", "<p>again"}) {
    fs::remove(output() / "report.html");  // results are renamed into place
    std::ofstream(output() / "report.html") << text;
    MlflowRun::open(place(), 1.0).end(MlflowState::kFinished, 2.0);
    const fs::path artifacts = run_folder() / "artifacts";
    EXPECT_EQ(names_in(artifacts), (std::vector<std::string>{"README.md", "report.html"}));
    EXPECT_EQ(text_of(artifacts / "report.html"), text);
    EXPECT_EQ(fs::hard_link_count(artifacts / "report.html"), 2U);
  }
}

TEST_F(Mlflow, AFinishedRunIsWrittenWholeOnce) {
  JsonLog log = JsonLog::open(output().string());
  for (const std::int64_t step : {2, 4})
    EXPECT_TRUE(log.step(record(step), 1700000000.0 + static_cast<double>(step)).ok());
  std::ofstream(output() / "README.md") << "text";
  EXPECT_TRUE(MlflowRun::write_finished(place()));
  const fs::path made = run_folder();
  EXPECT_EQ(text_of(made / "metrics/loss"), "1700000002000 0.5 2\n1700000004000 0.25 4\n");
  EXPECT_EQ(names_in(made / "artifacts"), (std::vector<std::string>{"README.md", "log.jsonl"}));
  const std::string meta = text_of(made / "meta.yaml");
  for (const char* line : {"\nstart_time: 1700000002000\n", "\nend_time: 1700000004000\n", "\nstatus: 3\n"})
    EXPECT_NE(meta.find(line), std::string::npos) << meta;
  EXPECT_FALSE(MlflowRun::write_finished(place()));
  MlflowRun::open(place(), 5.0);  // killed before it could say how it ended
  EXPECT_TRUE(MlflowRun::write_finished(place()));
  EXPECT_EQ(run_folder(), made);
  fs::copy(output(), output("copy"), fs::copy_options::recursive);
  EXPECT_TRUE(MlflowRun::write_finished(place("copy")));
  EXPECT_EQ(names_in(store() / "0").size(), 3U);
}

// A run of a store that MLflow cannot read hides all others.
TEST_F(Mlflow, WhatCannotBeWrittenWholeIsTakenBack) {
  MlflowRun run = MlflowRun::open(place(), 1.0);
  EXPECT_TRUE(run.step(record(1), 1700000000.0).ok());
  const fs::path metrics = run_folder() / "metrics";
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto write_with_room_for = [&](rlim_t bytes, const auto& write) {
    const rlimit limit = {bytes, before.rlim_max};
    void (*const handler)(int) = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_FALSE(write().ok());
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  };
  const std::string first = text_of(metrics / "loss");
  write_with_room_for(first.size() + 5, [&] { return run.step(record(2), 1700000001.0); });
  EXPECT_EQ(text_of(metrics / "loss"), first);
  const Metrics of_words{test::kOfWords, std::size(test::kOfWords)};
  for (const rlim_t bytes : {0U, 5U})
    write_with_room_for(bytes, [&] { return run.evaluation(evaluation(2), of_words, 1700000001.0); });
  EXPECT_FALSE(fs::exists(metrics / "eval_loss"));
  EXPECT_TRUE(run.step(record(3), 1700000002.0).ok());
  EXPECT_EQ(text_of(metrics / "loss"), first + "1700000002000 0.3333333333333333 3\n");
}

TEST_F(Mlflow, ARunThatWasNotEndedHasFailed) {
  MlflowRun::open(place(), 1.0);
  const std::string meta = text_of(run_folder() / "meta.yaml");
  EXPECT_NE(meta.find("status: 4\n"), std::string::npos);
  EXPECT_EQ(meta.find("end_time: null"), std::string::npos);
}

TEST_F(Mlflow, ARunHasEndedAlsoWhereItsResultsCannotBeLinked) {
  std::ofstream(output() / "README.md") << "text";
  MlflowRun run = MlflowRun::open(place(), 1.0);
  fs::create_directories(run_folder() / "artifacts/README.md/in the way");
  EXPECT_THROW(run.end(MlflowState::kFinished, 2.0), Error);
  EXPECT_NE(text_of(run_folder() / "meta.yaml").find("status: 3\n"), std::string::npos);
}

TEST_F(Mlflow, ANameThatIsGivenWhileTheRunGoesOnStays) {
  MlflowRun run = MlflowRun::open(place(), 1.0);
  std::ofstream(run_folder() / "tags/mlflow.runName") << "mine";
  run.end(MlflowState::kFinished, 2.0);
  EXPECT_NE(text_of(run_folder() / "meta.yaml").find("run_name: \"mine\"\n"), std::string::npos);
}

// PyYAML, MLflow's reader, refuses U+007F, U+0090 and U+FFFF, and folds U+0085; text files of MLflow are UTF-8.
TEST_F(Mlflow, NamesAreWhatMlflowReads) {
  MlflowPlace odd = place();
  odd.name = "a\"\\\n\x7f\xc2\x85\xc2\x90\xef\xbf\xbf\xff\xf0\x9f\x98\x80";
  odd.parameters = {{"key", "\"\xc3\xa9\xff\r\nb\""}};
  odd.tags.push_back({"bascule.more", "\xfe"});
  MlflowRun::open(odd, 1.0);
  const fs::path made = run_folder();
  EXPECT_NE(text_of(made / "meta.yaml")
                .find("run_name: \"a\\U00000022\\U0000005C  \\U00000085\\U00000090\\U0000FFFF?\\U0001F600\"\n"),
            std::string::npos)
      << text_of(made / "meta.yaml");
  EXPECT_EQ(text_of(made / "params/key"), "\"\xc3\xa9?  b\"");
  EXPECT_EQ(text_of(made / "tags/bascule.more"), "?");
}

TEST_F(Mlflow, AStepAllocatesNothing) {
  MlflowRun run = MlflowRun::open(place(), 1.0), none;
  const Metrics metrics{test::kOfWords, std::size(test::kOfWords)};
  StepRecord step = record(3);
  step.grad_norm = std::numeric_limits<double>::quiet_NaN();
  step.loss = -1.2345678901234567e-300;
  const std::int64_t before = test::allocations();
  const bool written =
      run.step(step, 1.7e9).ok() && run.evaluation(evaluation(3), metrics, 1.7e9).ok() && none.step(step, 1.0).ok();
  EXPECT_EQ(test::allocations(), before);
  EXPECT_TRUE(written);
  EXPECT_EQ(text_of(run_folder() / "metrics/loss"), "1700000000000 -1.2345678901234568e-300 3\n");
  EXPECT_FALSE(fs::exists(run_folder() / "metrics/grad_norm"));  // as in log.jsonl, which has null
}

TEST_F(Mlflow, AStoreThatCannotBeMadeIsOneLine) {
  std::ofstream(folder.path() + "/file") << "";
  MlflowPlace there = place();
  there.store = folder.path() + "/file";
  try {
    MlflowRun::open(there, 1.0);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kDisk);
    EXPECT_EQ(error.where(), there.store) << error.what();
  }
}

TEST(MlflowUri, EscapesWhatAUriOrAShellMayNotHave) {
  EXPECT_EQ(file_uri("/runs/a b/100%/\xc3\xa9'$"), "file:///runs/a%20b/100%25/%C3%A9%27%24");
  EXPECT_EQ(mlflow_command("/runs/mlruns"),
            "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri file:///runs/mlruns");
}

}  // namespace
}  // namespace bascule
