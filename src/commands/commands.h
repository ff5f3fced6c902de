// SPDX-License-Identifier: Apache-2.0
// The commands and their options, as the command line reads them.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace bascule {

// The command that was chosen; called after the whole command line was read. Returns the exit code.
using Chosen = std::function<int()>;

// In the order in which the help lists them. A command that is read sets *chosen; both outlive the reading.
void add_commands(CLI::App& app, Chosen* chosen);

}  // namespace bascule
