// SPDX-License-Identifier: Apache-2.0
// The files beside the pictures of a run that draws, and a summary for people. Finish phase.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/answer/result_pages.h"
#include "src/bringup/machine_limits.h"
#include "src/finish/contracts.h"
#include "src/record/recorded_draw_run.h"
#include "src/seal/sealed_draw_run.h"

namespace bascule {

// Notes as lines for the pages of a run, which prompts that were cut, long or many, do not make large: the first 20, of
// at most 400 bytes each, and how many more there are.
std::vector<std::string> short_notes(const std::vector<std::string>& notes);

// README.md: which pipeline drew the pictures, which parts of it were not used, and the settings. The same for every
// run of the settings on one machine: it has no times.
std::string draw_card(const RecordedDrawRun& run);

// The limits with which report.html compares operations. Before the seal. Zeros where it shows none, where drawing the
// missing pictures is less than 20 times the work of measuring, or where measuring needs more memory than the plan.
MachineLimits limits_for_report(const RecordedDrawRun& run, std::int64_t missing, Isa isa);

// The work of a run that draws, by all ranks together.
struct DrawResults : DrawTimes, SealedFigures {
  std::int64_t found = 0;  // pictures that were there already
  MachineLimits limits;    // zeros: not measured
};

// By all ranks: takes this one's figures, and makes them those of all. The time of a stage is the mean of theirs, as
// they work side by side. False: another rank failed.
[[nodiscard]] bool add_figures(const DrawTimes& times, SealedFigures figures, Group& group, DrawResults* results);
std::vector<ContractResult> contracts_of(const RecordedDrawRun& run, const DrawResults& results);

std::string draw_results_json(const RecordedDrawRun& run, const DrawResults& results);
std::string draw_summary(const RecordedDrawRun& run, const DrawResults& results);
// calls: the tape of the noise graph, after its replays. Reads the first pictures from the run's folder.
DrawPage draw_page_of(const RecordedDrawRun& run, const DrawResults& results, const Tape& calls);
// All files but images.jsonl, which is in order, and the marker of the folder.
void write_drawing(const RecordedDrawRun& run, const DrawResults& results, const Tape& calls);

}  // namespace bascule
