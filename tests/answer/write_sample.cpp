// SPDX-License-Identifier: Apache-2.0
// Writes the outputs of the sample report into a folder: report.html, README.md, the result files, runs/ with an event
// file; prints the final tables. For check_tensorboard.py, check_pages.py and for looking at the page. odd.html is a
// page of a run of one step whose texts are very long, average.html one of two ranks with an average of the weights,
// runs.html one of eight runs, map.html one with the largest map.
#include <cstdio>
#include <filesystem>

#include "src/answer/report.h"
#include "src/answer/result_pages.h"
#include "src/base/error.h"
#include "src/files/durable_write.h"
#include "src/logs/tensorboard.h"
#include "tests/answer/sample_report.h"

namespace bascule {
namespace {

Report odd_report() {
  Report report = test::sample_report();
  const std::string long_word(3000, 'x');
  report.steps.resize(1);
  report.title = report.model_name = report.dataset = std::string(200, 'y');
  for (RetrievalExample& example : report.caption_examples) example.text = long_word;
  for (RetrievalExample& example : report.picture_examples) {
    example.hits.front().text = long_word;
    example.right_hit.text = long_word;
  }
  report.all_settings.push_back({"report." + std::string(100, 'z'), long_word});
  report.facts.push_back({std::string(100, 'w'), long_word, {{long_word, long_word}}});
  return report;
}

std::vector<ListedRun> sample_runs() {
  std::vector<ListedRun> runs(kMostCurves);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    ListedRun& run = runs[i];
    run.path = "runs/" + (i == 0 ? std::string(60, 'y') : "run-" + std::to_string(i));
    run.state = "finished";
    run.step = run.steps = 100;
    run.settings = {{"training.seed", std::to_string(i)}, {"data.train_file", "\"" + std::string(200, 'x') + "\""}};
    run.curves = {{"loss", {}}, {"eval_loss", {}}};
    for (int step = 1; step <= 100; ++step)
      run.curves[0].points.push_back({static_cast<double>(step), 5.0 / (step + static_cast<double>(i))});
    run.curves[1].points = {{50.0, 1.0 + static_cast<double>(i)}, {100.0, 0.5}};
  }
  return runs;
}

void write_sample(const std::string& folder) {
  Report report = test::sample_report();
  report.output_dir = folder;
  std::filesystem::create_directories(folder);
  write_output_file(folder + "/report.html", report_html(report));
  write_output_file(folder + "/odd.html", report_html(odd_report()));
  write_output_file(folder + "/average.html", report_html(test::sample_report_with_average()));
  Report large = test::sample_report();
  large.map = test::largest_map(" of something that a picture shows");
  write_output_file(folder + "/map.html", report_html(large));
  write_output_file(folder + "/runs.html", runs_html("runs", sample_runs()));
  write_output_file(folder + "/README.md", model_card(report));
  write_result_files(report);
  TensorBoardWriter events = TensorBoardWriter::open(folder + "/runs/sample", {1700000000, "host", 1});
  events.text("args", "| key | value |\n|---|---|\n| seed | 42 |", 0, 1700000000.0);
  bool written = true;
  for (const StepRecord& record : report.steps) written = written && events.step(record, 1700000001.5).ok();
  for (const EvaluationRecord& record : report.evaluations) {
    written = written && events.evaluation(record, report.metrics, 1700000002.5).ok();
  }
  if (!written) throw Error{ErrorKind::kDisk, folder, "could not write the events"};
  std::fputs(summary_text(report).c_str(), stdout);
}

}  // namespace
}  // namespace bascule

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: write_sample FOLDER\n", stderr);
    return 2;
  }
  try {
    bascule::write_sample(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
