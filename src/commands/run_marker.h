// SPDX-License-Identifier: Apache-2.0
// bascule.json of an output folder: says that the folder is ours, what made it, and whether it is finished.
#pragma once

#include <string>
#include <vector>

#include "src/report/report.h"
#include "src/settings/settings.h"

namespace bascule {

struct RunMarker {
  bool exists = false;
  bool finished = false;
  bool trained = false;  // the finished run trained; else it only evaluated
  std::string settings_digest;
  std::int64_t global_step = 0;
};

RunMarker read_run_marker(const std::string& output_dir);
void write_run_marker(const Settings& settings, bool finished, std::int64_t global_step,
                      const std::vector<NamedText>& provenance);

}  // namespace bascule
