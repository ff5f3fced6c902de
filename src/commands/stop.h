// SPDX-License-Identifier: Apache-2.0
// `bascule stop RUN`: asks a running run to end training after the update under way, and to finish.
#pragma once

#include <string>

namespace bascule {

// run: its output_dir. Returns the exit code at once; the run evaluates, saves and finishes by itself. Throws Error
// where nothing trains there.
int stop_command(const std::string& run);

}  // namespace bascule
