// SPDX-License-Identifier: Apache-2.0
// A path from the root. Links in it are not followed.
#pragma once

#include <string>

namespace bascule {

// Without `.`, `..` and a slash at its end: "runs/../demo/" is "/home/me/demo". Allocates.
std::string absolute_path(const std::string& path);

}  // namespace bascule
