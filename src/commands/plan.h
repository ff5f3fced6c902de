// SPDX-License-Identifier: Apache-2.0
// `bascule plan FILE`: the memory plan of a run, without loading weights.
#pragma once

#include <string>

namespace bascule {

// Prints to standard output. Returns 0 if the plan fits the machine (or machine.memory_limit_gib), 4 if not. Throws
// Error.
int plan_command(const std::string& settings_file, bool json);

}  // namespace bascule
