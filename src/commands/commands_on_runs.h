// SPDX-License-Identifier: Apache-2.0
// The commands that look at the folders of runs: list, stop, reproduce, diff.
#pragma once

#include "src/commands/commands.h"

namespace bascule {

// As add_commands().
void add_commands_on_runs(CLI::App& app, Chosen* chosen);

}  // namespace bascule
