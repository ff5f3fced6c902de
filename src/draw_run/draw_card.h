// SPDX-License-Identifier: Apache-2.0
// README.md of a run that draws: which pipeline drew the pictures, which parts of it were not used, and the settings.
// Finish phase.
#pragma once

#include <string>

#include "src/draw_run/recorded_draw_run.h"

namespace bascule {

// Markdown. The same for every run of the settings: it has no times.
std::string draw_card(const RecordedDrawRun& run);

}  // namespace bascule
