// SPDX-License-Identifier: Apache-2.0
#include "src/commands/list.h"

#include <algorithm>
#include <cstdio>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/commands/check_outputs.h"
#include "src/files/durable_write.h"
#include "src/run_folder/run_list.h"

namespace bascule {
namespace {

void write_page(const ListArguments& arguments, const std::vector<ListedRun>& runs) {
  CommandReads reads;
  for (const ListedRun& run : runs) reads.folders.push_back(run.path);
  check_outputs({{"--html", arguments.html}}, reads);
  const auto with_curves = static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const ListedRun& run) { return !run.curves.empty(); }));
  if (with_curves > kMostCurves)
    throw Error(
        ErrorKind::kSettings, "--html",
        std::to_string(with_curves) + " runs have curves, and a chart shows at most " + std::to_string(kMostCurves),
        "name the folders of the runs to compare");
  write_output_file(arguments.html, runs_html(shown_list(arguments.folders), runs));
}

}  // namespace

int list_command(const ListArguments& arguments) {
  std::vector<std::string> notes;
  const std::vector<ListedRun> runs = list_runs(arguments.folders, &notes);
  for (const std::string& note : notes) std::fprintf(stderr, "bascule: list: left out: %s\n", note.c_str());
  if (runs.empty()) std::fprintf(stderr, "bascule: list: no run in %s\n", shown_list(arguments.folders).c_str());
  if (!arguments.html.empty()) write_page(arguments, runs);
  if (arguments.json) {
    std::fputs(runs_json(runs).c_str(), stdout);
  } else if (!runs.empty()) {
    std::fputs(runs_text(runs).c_str(), stdout);
  }
  return 0;
}

}  // namespace bascule
