// SPDX-License-Identifier: Apache-2.0
#include "src/base/absolute_path.h"

#include <filesystem>

namespace bascule {

std::string absolute_path(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::absolute(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

}  // namespace bascule
