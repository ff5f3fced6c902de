// SPDX-License-Identifier: Apache-2.0
// A comparison of several runs, as text for a terminal and as an HTML page with their curves: one file that asks for
// nothing from anywhere and has no script. Finish phase.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/answer/svg_chart.h"
#include "src/logs/readable.h"

namespace bascule {

// As many as can be told apart by their colours.
inline constexpr std::size_t kMostCurves = 8;

// A figure of log.jsonl over the updates: "loss", "eval_accuracy".
struct RunCurve {
  std::string figure;
  std::vector<ChartPoint> points;  // by update, ascending
};

struct ListedRun {
  std::string path;            // as people see it
  std::string state;           // "running", "finished" or "stopped"
  std::string note;            // more about the state; may be empty
  bool draws = false;          // steps are then pictures
  std::int64_t step = 0;       // updates or pictures that are done
  std::int64_t steps = 0;      // of the whole run; 0: unknown
  double loss = std::nan("");  // of the last logged interval
  std::string best_figure;     // "" where no evaluation was logged
  double best = std::nan("");
  std::int64_t best_step = 0;
  double seconds = std::nan("");    // of the training loop, or of the process that drew
  std::vector<NamedText> settings;  // "training.seed" with its canonical value: those in which listed runs differ
  std::vector<RunCurve> curves;
};

// The value of one of its settings; "" where the run does not have it.
std::string setting_of(const ListedRun& run, std::string_view key);

// A table, and below each run the settings that differ, as words of a shell.
std::string runs_text(const std::vector<ListedRun>& runs);

// title: what was listed. At most kMostCurves of the runs have curves.
std::string runs_html(const std::string& title, const std::vector<ListedRun>& runs);

}  // namespace bascule
