// SPDX-License-Identifier: Apache-2.0
// The files whose code this process runs. Before the seal or after the last step.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// The program itself; where /proc is not mounted, the path that it was started with.
std::string program_file();
// Shared libraries that are loaded now, as the loader found them, links resolved, sorted.
std::vector<std::string> loaded_libraries();

}  // namespace bascule
