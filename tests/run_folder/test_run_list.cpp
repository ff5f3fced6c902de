// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "src/base/error.h"
#include "src/json/json.h"
#include "src/run_folder/run_marker.h"
#include "tests/support/temporary_folder.h"

namespace bascule {
namespace {

class RunList : public ::testing::Test {
 protected:
  // A folder as a run leaves it. settings: canonical TOML.
  void write_run(const std::string& name, const std::string& settings, bool finished = true, int step = 6) {
    Json marker = {{"format", 1},         {"finished", finished},    {"trained", finished},
                   {"global_step", step}, {"settings_digest", "00"}, {"settings", settings}};
    write(name + "/bascule.json", json_text(marker));
  }
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_.path() + "/" + name).parent_path());
    folder_.write(name, text);
  }
  std::vector<ListedRun> list() { return list_runs({folder_.path()}, &notes_); }

  test::TemporaryFolder folder_;
  std::vector<std::string> notes_;
};

const std::string kLog =
    "{\"step\": 2, \"epoch\": 1.0, \"loss\": 3.0, \"grad_norm\": 1.0, \"time\": 10.0}\n"
    "{\"step\": 2, \"epoch\": 1.0, \"eval_loss\": 2.0, \"eval_runtime\": 1.0, \"eval_samples\": 9, \"eval_recall\": "
    "0.5}\n"
    "{\"step\": 4, \"epoch\": 2.0, \"loss\": 2.5, \"grad_norm\": null, \"time\": 11.0}\n"
    "{\"step\": 4, \"epoch\": 2.0, \"eval_loss\": 2.5, \"eval_recall\": 0.75}\n"
    "{\"step\": 4, \"test_loss\": 1.0}\n"
    "{\"step\": 6, \"lo";

TEST_F(RunList, FindsRunsAtEveryDepthOnceAndNoneWithinARun) {
  write_run("b", "");
  write_run("a/deep/one", "");
  write_run("a/deep/one/inner", "");
  write("other/bascule.json", "{\"finished\": 3}");
  std::filesystem::create_directory_symlink(folder_.path() + "/b", folder_.path() + "/link");
  const std::vector<ListedRun> runs = list_runs({folder_.path() + "/", folder_.path() + "/b"}, &notes_);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].path, folder_.path() + "/a/deep/one");
  EXPECT_EQ(runs[1].path, folder_.path() + "/b");
  EXPECT_TRUE(notes_.empty());
}

TEST_F(RunList, CurvesAndTheLastLossAreThoseOfTheLog) {
  write_run("run", "", false);
  write("run/log.jsonl", kLog);
  const ListedRun run = list().at(0);
  EXPECT_EQ(run.state, "stopped");
  EXPECT_EQ(run.step, 4);
  EXPECT_EQ(run.loss, 2.5);
  std::vector<std::string> figures;
  for (const RunCurve& curve : run.curves) figures.push_back(curve.figure);
  EXPECT_EQ(figures, (std::vector<std::string>{"grad_norm", "loss", "eval_loss", "eval_recall"}));
  EXPECT_EQ(run.curves[0].points.size(), 1U);
  EXPECT_EQ(run.curves[1].points.size(), 2U);
}

TEST_F(RunList, TheBestIsFoundByTheRunsOwnRule) {
  write_run("default", "[training]\nmetric_for_best_model = \"\"\ngreater_is_better = false\n");
  write_run("greater", "[training]\nmetric_for_best_model = \"recall\"\ngreater_is_better = true\n");
  write_run("other_prefix", "[training]\nmetric_for_best_model = \"validation_recall\"\ngreater_is_better = true\n");
  write_run("prefixed", "[training]\nmetric_for_best_model = \"eval_loss\"\ngreater_is_better = false\n");
  for (const char* name : {"default", "greater", "other_prefix", "prefixed"})
    write(std::string(name) + "/log.jsonl", kLog);
  const std::vector<ListedRun> runs = list();
  ASSERT_EQ(runs.size(), 4U);
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}}) {
    EXPECT_EQ(runs[i].best_figure, "eval_loss");
    EXPECT_EQ(runs[i].best, 2.0);
    EXPECT_EQ(runs[i].best_step, 2);
  }
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    EXPECT_EQ(runs[i].best_figure, "eval_recall");
    EXPECT_EQ(runs[i].best, 0.75);
    EXPECT_EQ(runs[i].best_step, 4);
  }
}

TEST_F(RunList, HowFarARunIsComesFromItsFiles) {
  write_run("finished", "", true, 6);
  write("finished/status.json", "{\"update\": 6, \"updates\": 9, \"started\": 1.0, \"time\": 100.0}");
  write("finished/all_results.json", "{\"total_train_runtime\": 7.5}");
  write_run("killed", "", false, 0);
  write("killed/status.json", "{\"update\": 5, \"updates\": 9, \"started\": 1.0, \"time\": 100.0}");
  write("killed/log.jsonl", kLog);
  write_run("drawing", "[model]\n\n[draw]\nseed = 1\n", false, 0);
  write("drawing/status.json", "{\"phase\": \"draw\", \"done\": 1, \"total\": 8, \"started\": 1.0, \"time\": 3.0}");
  write("drawing/images.jsonl", "{}\n{}\n");
  const std::vector<ListedRun> runs = list();
  ASSERT_EQ(runs.size(), 3U);
  EXPECT_TRUE(runs[0].draws);
  EXPECT_EQ(runs[0].step, 2);
  EXPECT_EQ(runs[0].steps, 8);
  EXPECT_EQ(runs[1].state, "finished");
  EXPECT_EQ(runs[1].step, 6);
  EXPECT_EQ(runs[1].steps, 9);
  EXPECT_EQ(runs[1].seconds, 7.5);
  EXPECT_EQ(runs[2].step, 5);
  EXPECT_EQ(runs[2].seconds, 99.0);
}

TEST_F(RunList, SettingsAreThoseThatDiffer) {
  const std::string same = "[model]\nhead = \"x\"\n\n[training]\noutput_dir = ";
  write_run("a", same + "\"a\"\nseed = 1\n");
  write_run("b", same +
                     "\"b\"\nseed = 2\n\n[[training.groups]]\nmatch = \"m\"\nfreeze = "
                     "true\n\n[[training.groups]]\nmatch = \"n\"\n");
  const std::vector<ListedRun> runs = list();
  ASSERT_EQ(runs.size(), 2U);
  ASSERT_EQ(runs[0].settings.size(), 2U);
  EXPECT_EQ(runs[0].settings[0].name, "training.seed");
  EXPECT_EQ(runs[0].settings[0].value, "1");
  EXPECT_EQ(runs[0].settings[1].value, "[]");
  ASSERT_EQ(runs[1].settings.size(), 2U);
  EXPECT_EQ(runs[1].settings[1].name, "training.groups");
  EXPECT_EQ(runs[1].settings[1].value, "[{match = \"m\", freeze = true}, {match = \"n\"}]");
  const Json json = parse_json(runs_json(runs), "");
  EXPECT_EQ(json["runs"][0]["settings"]["training.seed"].string(), "1");
  EXPECT_TRUE(json["runs"][0]["best"].is_null());
  EXPECT_TRUE(json["runs"][0]["loss"].is_null());
}

// A run of another kind, or one whose settings are not known, does not make all others' settings differ.
TEST_F(RunList, ASettingThatOnlySomeRunsHaveDoesNotDiffer) {
  write_run("a", "[model]\nhead = \"x\"\n\n[training]\noutput_dir = \"a\"\nseed = 1\n");
  write_run("b", "[model]\nhead = \"x\"\n\n[training]\noutput_dir = \"b\"\nseed = 2\n");
  write_run("drawing", "[model]\nhead = \"x\"\n\n[draw]\noutput_dir = \"c\"\nheight = 3\n");
  write_run("unknown", "");
  const std::vector<ListedRun> runs = list();
  ASSERT_EQ(runs.size(), 4U);
  const auto text_of = [](const ListedRun& run) {
    std::string text;
    for (const NamedText& setting : run.settings) text += setting.name + "=" + setting.value + " ";
    return text;
  };
  EXPECT_EQ(text_of(runs[0]), "kind=training training.seed=1 ");
  EXPECT_EQ(text_of(runs[1]), "kind=training training.seed=2 ");
  EXPECT_EQ(text_of(runs[2]), "kind=drawing ");
  EXPECT_EQ(text_of(runs[3]), "");
}

// Two files may be written with the same words, and one with two.
TEST_F(RunList, PathsAreComparedByWhereTheyLead) {
  const auto write_marker = [&](const std::string& name, const std::string& start, const std::string& written) {
    std::filesystem::create_directory(folder_.path() + "/" + name);
    Settings settings;
    settings.run.output_dir.written = settings.run.output_dir.resolved = folder_.path() + "/" + name;
    settings.data.train_file = PathsSetting(written);
    settings.data.train_file.start = start;
    write_run_marker(settings, {}, {}, {});
  };
  write_marker("a", "/A", "rows.jsonl");
  write_marker("b", "/A", "/A/rows.jsonl");
  EXPECT_TRUE(list().at(0).settings.empty());
  write_marker("c", "/C", "rows.jsonl");
  const std::vector<ListedRun> runs = list();
  ASSERT_EQ(runs.size(), 3U);
  ASSERT_EQ(runs[2].settings.size(), 1U);
  EXPECT_EQ(runs[2].settings[0].name, "data.train_file");
  EXPECT_EQ(runs[2].settings[0].value, "\"/C/rows.jsonl\"");
}

TEST_F(RunList, ALinkOnTheCommandLineNamesTheSameRun) {
  write_run("b", "");
  std::filesystem::create_directory_symlink(folder_.path() + "/b", folder_.path() + "/link");
  EXPECT_EQ(list_runs({folder_.path(), folder_.path() + "/link"}, &notes_).size(), 1U);
}

TEST_F(RunList, NumbersThatAreNoCountsAreLeftOut) {
  write_run("run", "[a\nseed = 1\n[training]\nmetric_for_best_model = \"\"\n", false);
  write("run/status.json", "{\"update\": 1e300, \"updates\": 9000000000000000000, \"started\": 1.0, \"time\": 3.0}");
  write("run/log.jsonl",
        "{\"step\": 1e300, \"loss\": 1.0}\n{\"step\": 2.5, \"loss\": 1.0}\n{\"step\": -3, \"loss\": 1.0}\n"
        "{\"step\": 9223372036854775807, \"eval_loss\": 1.0}\n{\"step\": 2, \"eval_loss\": 3.0}\n");
  const ListedRun run = list().at(0);
  EXPECT_EQ(run.step, 2);
  EXPECT_EQ(run.steps, 0);
  EXPECT_EQ(run.best_step, 2);
  EXPECT_TRUE(std::isnan(run.loss));
}

TEST_F(RunList, ARunThatCannotBeReadIsNamedAndLeftOut) {
  write_run("good", "");
  write("newer/bascule.json", "{\"format\": 99, \"finished\": true, \"settings_digest\": \"\"}");
  write("damaged/bascule.json", "{\"format\": 1, \"fini");
  write("lost/checkpoint-3/bascule_state.json", "{}");
  write("foreign/bascule.json", "{\"finished\": 3}");
  ASSERT_EQ(list().size(), 1U);
  ASSERT_EQ(notes_.size(), 3U);
  EXPECT_EQ(notes_[0].find(folder_.path() + "/damaged/bascule.json"), 0U) << notes_[0];
  EXPECT_EQ(notes_[1], folder_.path() + "/lost: has checkpoints but no bascule.json");
  EXPECT_NE(notes_[2].find("has format 99"), std::string::npos);
}

TEST_F(RunList, AFolderThatCannotBeReadIsAnErrorIfItIsNamedAndElseANote) {
  namespace fs = std::filesystem;
  write_run("open/run", "");
  fs::create_directory(folder_.path() + "/shut");        // not to be listed
  fs::create_directory(folder_.path() + "/unsearched");  // not to be entered
  fs::permissions(folder_.path(), fs::perms::others_all, fs::perm_options::add);
  fs::permissions(folder_.path() + "/shut", fs::perms::others_exec);
  fs::permissions(folder_.path() + "/unsearched", fs::perms::others_read);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    EXPECT_EQ(list().size(), 1U);
    std::sort(notes_.begin(), notes_.end());
    EXPECT_EQ(notes_, (std::vector<std::string>{folder_.path() + "/shut: cannot be read: Permission denied",
                                                folder_.path() + "/unsearched: cannot be read: Permission denied"}));
    for (const char* name : {"/shut", "/unsearched", "/none"})
      EXPECT_THROW(list_runs({folder_.path() + name}, &notes_), Error) << name;
    ::_exit(HasFailure() ? 1 : 0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  for (const char* name : {"/shut", "/unsearched"}) fs::permissions(folder_.path() + name, fs::perms::owner_all);
}

// Its files may be read, but whether a process holds it cannot be seen.
TEST_F(RunList, ARunWhoseFolderMayNotBeOpenedIsNotCalledStopped) {
  namespace fs = std::filesystem;
  write_run("run", "");
  fs::permissions(folder_.path(), fs::perms::others_all, fs::perm_options::add);
  fs::permissions(folder_.path() + "/run", fs::perms::others_exec);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    EXPECT_TRUE(list().empty());
    EXPECT_EQ(notes_, std::vector<std::string>{folder_.path() + "/run: cannot be read: Permission denied"});
    ::_exit(HasFailure() ? 1 : 0);
  }
  int how = 0;
  ASSERT_EQ(::waitpid(child, &how, 0), child);
  EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  fs::permissions(folder_.path() + "/run", fs::perms::owner_all);
}

}  // namespace
}  // namespace bascule
