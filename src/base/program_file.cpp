// SPDX-License-Identifier: Apache-2.0
#include "src/base/program_file.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <filesystem>

#include "src/base/error.h"

namespace bascule {

std::string program_file() {
  // As it was given to the system, which found it from the folder that is still the current one.
  const auto* const started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));  // NOLINT
  char* const real = started_as != nullptr ? realpath(started_as, nullptr) : nullptr;
  if (real == nullptr) throw Error(ErrorKind::kInternal, "this program", "its own file cannot be found");
  std::string path = real;
  std::free(real);
  return path;
}

std::string tree_of_program() { return std::filesystem::path(program_file()).parent_path().parent_path().string(); }

std::string path_inside(const std::string& start, std::string_view path) {
  namespace fs = std::filesystem;
  if (fs::path(path).is_absolute()) return fs::path(path).lexically_normal().string();
  const std::string inside = (fs::path("/") / path).lexically_normal().string();
  std::string whole = (fs::path(start) / inside.substr(1)).lexically_normal().string();
  if (whole.size() > 1 && whole.back() == '/') whole.pop_back();
  return whole;
}

}  // namespace bascule
