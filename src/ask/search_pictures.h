// SPDX-License-Identifier: Apache-2.0
// Finds picture files. Not for the sealed phase: allocates, throws Error.
#pragma once

#include <string>
#include <vector>

namespace bascule {

// Named *.jpg, *.jpeg, *.png or *.webp, in any case of letters.
bool has_picture_name(const std::string& path);

// All such files below a folder, by path. Links to folders are not followed. Throws Error kData if there is none.
std::vector<std::string> find_pictures(const std::string& folder);

}  // namespace bascule
