// SPDX-License-Identifier: Apache-2.0
// `bascule settings`: the keys, a settings file with every default filled in, and what may change before a run goes on.
#pragma once

#include "src/settings/run_settings.h"

namespace bascule {

// source: may be empty; without a file, sealed settings and `resume` every key is printed with meaning, range and
// default, for `markdown` as the tables of README.md. Returns the exit code; throws Error.
int settings_command(const SettingsSource& source, bool resume, bool json, bool markdown);

}  // namespace bascule
