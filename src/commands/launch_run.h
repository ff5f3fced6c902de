// SPDX-License-Identifier: Apache-2.0
// The process of `bascule run` that starts the ranks of a run, and does nothing else but see them through.
#pragma once

#include <functional>
#include <string>

#include "src/distributed/group.h"
#include "src/settings/settings.h"

namespace bascule {

// Whether this process is that one, not a rank. place: from the environment. Throws Error kSettings where ranks were
// started that the settings do not ask for, or where sealed settings ask for more cores than there are.
bool is_launcher(const Settings& settings, const RankPlace& place);

// is_done: says whether the run is finished, and prints its results then; throws Error where the folder cannot be this
// run's. go_on: what to do where a rank has failed. Returns the run's exit code.
int launch_run(const Settings& settings, const std::string& settings_file, bool json,
               const std::function<bool()>& is_done, const std::string& go_on);

}  // namespace bascule
