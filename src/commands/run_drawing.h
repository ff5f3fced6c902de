// SPDX-License-Identifier: Apache-2.0
// `bascule run FILE` with [draw]: draws the pictures of the list that are not there yet, with one process or several
// ranks.
#pragma once

#include <string>

#include "src/distributed/group.h"
#include "src/settings/settings.h"

namespace bascule {

// place: from the environment. Prints the summary, or with `json` all_results.json. Returns the exit code: 0 done, 128
// + the signal where one stopped it: finished pictures are whole, and the same settings go on with the others. Throws
// Error.
int run_drawing(const Settings& settings, const RankPlace& place, const std::string& settings_file, bool json);

}  // namespace bascule
