// SPDX-License-Identifier: Apache-2.0
// `bascule settings`: the keys, a settings file with every default filled in, and what may change before a run goes on.
#pragma once

#include <string>

namespace bascule {

// settings_file: may be empty; without it, sealed settings and `resume` every key is printed with meaning, range and
// default, for `markdown` as the tables of README.md. Returns the exit code; throws Error.
int settings_command(const std::string& settings_file, bool resume, bool json, bool markdown);

}  // namespace bascule
