// SPDX-License-Identifier: Apache-2.0
// The shared libraries whose code this process runs. Before the seal or after the last step.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// Those that are loaded now, as the loader found them, sorted.
std::vector<std::string> loaded_libraries();

}  // namespace bascule
