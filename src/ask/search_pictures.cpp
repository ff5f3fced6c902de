// SPDX-License-Identifier: Apache-2.0
#include "src/ask/search_pictures.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "src/base/error.h"
#include "src/base/picture_endings.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool has_picture_name(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return !extension.empty() && is_picture_ending(std::string_view(extension).substr(1));
}

std::vector<std::string> find_pictures(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code failure;
  fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, failure);
  while (!failure && at != fs::recursive_directory_iterator()) {
    std::error_code ignored;  // a link to nothing is no file
    if (has_picture_name(at->path().string()) && at->is_regular_file(ignored)) found.push_back(at->path().string());
    at.increment(failure);
  }
  if (failure) throw Error(ErrorKind::kData, folder, "cannot be searched: " + failure.message());
  if (found.empty())
    throw Error(ErrorKind::kData, folder, std::string("has no ") + kPictureEndings + " file in it or its subfolders");
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace bascule
