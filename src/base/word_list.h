// SPDX-License-Identifier: Apache-2.0
// Lists in a message: "a, b and c", "a or b". Allocates.
#pragma once

#include <string>
#include <vector>

namespace bascule {

std::string and_list(const std::vector<std::string>& words);
std::string or_list(const std::vector<std::string>& words);

}  // namespace bascule
