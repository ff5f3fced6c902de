// SPDX-License-Identifier: Apache-2.0
#include "src/files/input_list.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace bascule {

namespace fs = std::filesystem;

void InputList::add(const std::string& folder, std::string file) {
  folders_[fs::path(folder.empty() ? "." : folder).lexically_normal().string()].push_back(std::move(file));
}

void InputList::add_path(const std::string& written) {
  const fs::path path(written);
  add(path.parent_path().string(), path.filename().string());
}

bool InputList::is_there(const std::string& folder, const char* name) {
  std::error_code ignored;
  return fs::is_regular_file(folder + "/" + name, ignored);
}

std::vector<InputFolder> InputList::sorted() const {
  std::vector<InputFolder> folders;
  for (auto [folder, files] : folders_) {
    std::sort(files.begin(), files.end());
    files.erase(std::unique(files.begin(), files.end()), files.end());
    folders.push_back({folder, std::move(files)});
  }
  return folders;
}

}  // namespace bascule
