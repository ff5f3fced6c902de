// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/loaded_files.h"

#include <link.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace bascule {
namespace {

// The program has no name here, and the kernel's own library no file.
int add_library(dl_phdr_info* info, std::size_t, void* libraries) {
  std::error_code failure;
  if (std::filesystem::is_regular_file(info->dlpi_name, failure))
    static_cast<std::vector<std::string>*>(libraries)->push_back(std::filesystem::absolute(info->dlpi_name).string());
  return 0;
}

}  // namespace

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> libraries;
  dl_iterate_phdr(&add_library, &libraries);
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

}  // namespace bascule
