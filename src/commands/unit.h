// SPDX-License-Identifier: Apache-2.0
// `bascule plan --unit`: a systemd unit for a run, made from its plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/draw_run/recorded_draw_run.h"
#include "src/run/recorded_run.h"

namespace bascule {

struct UnitPlace {
  std::string program, settings_file;  // absolute; no file: the program has sealed settings
  std::vector<int> cores;              // that this process may use
};

std::string unit_text(const RecordedRun& run, const UnitPlace& place);
std::string unit_text(const RecordedDrawRun& run, const UnitPlace& place);

}  // namespace bascule
