// SPDX-License-Identifier: Apache-2.0
#include "src/answer/result_pages.h"

#include <string>

#include <gtest/gtest.h>

#include "tests/answer/page_text.h"

namespace bascule::test_runs_page {
namespace {

ListedRun run_named(const std::string& path) {
  ListedRun run;
  run.path = path;
  run.state = "finished";
  run.step = run.steps = 40;
  run.loss = 0.5;
  run.best_figure = "eval_accuracy";
  run.best = 0.75;
  run.best_step = 30;
  run.seconds = 12.0;
  run.settings = {{"training.seed", "7"}};
  run.curves = {{"eval_accuracy", {{20.0, 0.5}, {40.0, 0.75}}}, {"loss", {{10.0, 1.0}, {40.0, 0.5}}}};
  return run;
}

TEST(RunsPage, TheTextHasALineForEachRunAndItsSettingsBelow) {
  ListedRun stopped = run_named("runs/long-name");
  stopped.state = "stopped";
  stopped.note = "values were not finite at update 12";
  stopped.step = 12;
  stopped.best_figure.clear();
  stopped.seconds = std::nan("");
  stopped.settings = {{"data.train_file", "\"x.jsonl\""}};
  EXPECT_EQ(
      runs_text({run_named("runs/a"), stopped}),
      "run             state                                             step    loss  best                          "
      "time\n"
      "runs/a          finished                                            40  0.5000  eval_accuracy 0.7500 at 30  "
      "12.0 s\n"
      "    training.seed=7\n"
      "runs/long-name  stopped: values were not finite at update 12  12 of 40  0.5000  -                               "
      " "
      "-\n"
      "    'data.train_file=\"x.jsonl\"'\n");
}

// A shell must give them back: braces and quotation marks are its own.
TEST(RunsPage, SettingsAreWordsOfAShell) {
  ListedRun run = run_named("a");
  run.settings = {{"training.groups", "[{match = \"it's\"}]"}, {"training.learning_rate", "1e-05"}};
  const std::string text = runs_text({run});
  EXPECT_NE(text.find("    'training.groups=[{match = \"it'\\''s\"}]'\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    training.learning_rate=1e-05\n"), std::string::npos) << text;
}

TEST(RunsPage, ColumnsAreAsWideAsTheirCharactersAndARunIsOneLine) {
  const std::string text = runs_text({run_named("\u00e9\u00e9"), run_named("a\nb\xff\x1b")});
  EXPECT_NE(text.find("\n\u00e9\u00e9     finished"), std::string::npos) << text;
  EXPECT_NE(text.find("\na b?   finished"), std::string::npos) << text;
}

TEST(RunsPage, ChartsHaveTheTitlesAndTheOrderOfTheReport) {
  ListedRun run = run_named("a");
  run.curves.clear();
  for (const char* figure : {"samples_per_second", "grad_norm", "learning_rate", "eval_recall_at_10",
                             "eval_recall_at_5", "eval_recall", "eval_loss", "loss"})
    run.curves.push_back({figure, {{1.0, 1.0}, {2.0, 1.0}}});
  const std::string page = runs_html("runs", {run});
  std::size_t place = 0;
  for (const char* title : {"Loss", "Validation: loss", "Validation: recall", "Validation: recall at 5",
                            "Validation: recall at 10", "Learning rate", "Gradient norm", "Samples/s"}) {
    const std::size_t found = page.find("<b>" + std::string(title) + "</b>");
    ASSERT_NE(found, std::string::npos) << title;
    EXPECT_LT(place, found) << title;
    place = found;
  }
}

TEST(RunsPage, PicturesAreCountedAsSuch) {
  ListedRun draws = run_named("d");
  draws.draws = true;
  draws.step = 3;
  EXPECT_NE(runs_text({draws}).find("3 of 40 pictures"), std::string::npos);
}

TEST(RunsPage, ARunHasOneColourInAllCharts) {
  ListedRun without_evaluation = run_named("runs/a");
  without_evaluation.curves.erase(without_evaluation.curves.begin());
  const std::string page = runs_html("runs", {without_evaluation, run_named("runs/b")});
  const std::size_t accuracy = page.find("<b>Validation: accuracy</b>");
  ASSERT_NE(accuracy, std::string::npos);
  const std::string caption = page.substr(accuracy, page.find("</figcaption>", accuracy) - accuracy);
  EXPECT_EQ(test::count(caption, "runs/a"), 0U);
  EXPECT_NE(caption.find("<path class=\"line c2\""), std::string::npos) << caption;
  EXPECT_NE(caption.find("</svg>runs/b <b>0.7500</b>"), std::string::npos) << caption;
  EXPECT_LT(page.find("<b>Loss</b>"), accuracy);
  EXPECT_NE(page.find("aria-label=\"Loss by step\""), std::string::npos);
}

TEST(RunsPage, EightRunsHaveColoursOfTheirOwn) {
  std::vector<ListedRun> runs;
  for (std::size_t i = 0; i < kMostCurves; ++i) runs.push_back(run_named("run-" + std::to_string(i)));
  const std::string page = runs_html("runs", runs);
  for (std::size_t i = 1; i <= kMostCurves; ++i)
    EXPECT_NE(page.find("<path class=\"line c" + std::to_string(i) + "\" d=\"M1 6H33\"/>"), std::string::npos) << i;
  EXPECT_NE(page.find(".at .c8"), std::string::npos);
}

TEST(RunsPage, SettingsThatARunLacksAreNotSet) {
  ListedRun other = run_named("b");
  other.settings = {{"draw.seed", "3"}};
  const std::string page = runs_html("runs", {run_named("a"), other});
  EXPECT_NE(page.find("<tr><th scope=\"row\">training.seed</th><td><code>7</code></td><td>not set</td></tr>"),
            std::string::npos);
  EXPECT_NE(page.find("<tr><th scope=\"row\">draw.seed</th><td>not set</td><td><code>3</code></td></tr>"),
            std::string::npos);
}

TEST(RunsPage, LoadsNothingAndHasNoScript) {
  const std::string page = runs_html("runs", {run_named("a")});
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("http://"), std::string::npos);
  EXPECT_EQ(page.find("https://"), std::string::npos);
}

TEST(RunsPage, TextFromOutsideIsEscapedWhereverItStands) {
  ListedRun run = run_named("<b>path");
  run.note = "<b>note";
  run.best_figure = "<b>best";
  run.settings = {{"<b>key", "<b>value"}};
  run.curves = {{"<b>figure", {{1.0, 1.0}}}};
  const std::string page = runs_html("<b>title", {run, run});
  for (const char* const part : {"path", "note", "best", "key", "value", "figure", "title"}) {
    EXPECT_EQ(page.find("<b>" + std::string(part)), std::string::npos) << part;
    EXPECT_NE(page.find("&lt;b&gt;" + std::string(part)), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace bascule::test_runs_page
