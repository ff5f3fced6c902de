// SPDX-License-Identifier: Apache-2.0
// `bascule settings`: a settings file with every default filled in, and what may change before a run goes on.
#pragma once

#include <string>

namespace bascule {

// settings_file: may be empty for `resume`. Returns the exit code; throws Error.
int settings_command(const std::string& settings_file, bool resume, bool json);

}  // namespace bascule
