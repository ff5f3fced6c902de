// SPDX-License-Identifier: Apache-2.0
#include "src/runtime/loaded_files.h"

#include <link.h>
#include <sys/auxv.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace bascule {
namespace {

// The program has no name here, and the kernel's own library no file.
int add_library(dl_phdr_info* info, std::size_t, void* libraries) {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::canonical(info->dlpi_name, failure);
  if (!failure && std::filesystem::is_regular_file(path, failure))
    static_cast<std::vector<std::string>*>(libraries)->push_back(path.string());
  return 0;
}

}  // namespace

std::string program_file() {
  std::error_code failure;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", failure);
  if (!failure) return path.string();
  const unsigned long started = getauxval(AT_EXECFN);
  return started == 0 ? std::string() : std::string(reinterpret_cast<const char*>(started));
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> libraries;
  dl_iterate_phdr(&add_library, &libraries);
  std::sort(libraries.begin(), libraries.end());
  return libraries;
}

}  // namespace bascule
