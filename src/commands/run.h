// SPDX-License-Identifier: Apache-2.0
// `bascule run FILE`: trains, evaluates, predicts and reports what one TOML file says. Run again, it goes on where it
// was.
#pragma once

#include <string>

#include "src/seal/start_times.h"
#include "src/settings/run_settings.h"

namespace bascule {

// json: prints all_results.json in place of the summary. Returns the exit code: 0 done, 130 or 143 stopped by a signal
// after saving. Throws Error.
int run_command(const SettingsSource& source, bool json);
// The same with settings that were read from the file, or that differ from those that are sealed in the program.
int run_settings(Settings settings, const std::string& settings_file, bool json, StartTimes times = {});

}  // namespace bascule
