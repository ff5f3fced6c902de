// SPDX-License-Identifier: Apache-2.0
// README.md of a run that draws: which pipeline drew the pictures, which parts of it were not used, and the settings.
// Finish phase.
#pragma once

#include <string>
#include <vector>

#include "src/record/recorded_draw_run.h"

namespace bascule {

// Notes as lines for the pages of a run, which prompts that were cut, long or many, do not make large: the first 20, of
// at most 400 bytes each, and how many more there are.
std::vector<std::string> short_notes(const std::vector<std::string>& notes);

// Markdown. The same for every run of the settings on one machine: it has no times.
std::string draw_card(const RecordedDrawRun& run);

}  // namespace bascule
