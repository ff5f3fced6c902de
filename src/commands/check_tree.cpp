// SPDX-License-Identifier: Apache-2.0
#include "src/commands/check_tree.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/base/sha256.h"
#include "src/files/input_file.h"

namespace bascule {
namespace {

constexpr char kSums[] = "/SHA256SUMS";
constexpr std::size_t kDigits = 64, kPathAt = kDigits + 2;  // "<digits>  <path>"
constexpr std::size_t kPart = std::size_t{1} << 18;

std::string text_of(const InputFile& file) {
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), 0, text.size());
  return text;
}

std::string sum_of(const InputFile& file, std::vector<char>* part) {
  Sha256 sum;
  for (std::int64_t at = 0; at < file.size(); at += static_cast<std::int64_t>(part->size())) {
    const std::size_t bytes = std::min(part->size(), static_cast<std::size_t>(file.size() - at));
    file.read(part->data(), at, bytes);
    sum.add(part->data(), bytes);
  }
  return sum.hex();
}

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Error(ErrorKind::kNotAsRecorded, file, what, "install the tree again");
}

}  // namespace

void check_tree(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::exists(folder + kSums, ignored)) return;
  const std::string sums = text_of(InputFile(folder + kSums));
  std::vector<char> part(kPart);
  for (std::string_view left = sums; !left.empty();) {
    const std::size_t end = left.find('\n');
    if (end == std::string_view::npos || end <= kPathAt || left.substr(kDigits, 2) != "  ")
      throw Error(ErrorKind::kData, folder + kSums, "is not a list of SHA-256 sums", "install the tree again");
    const std::string path = folder + "/" + std::string(left.substr(kPathAt, end - kPathAt));
    if (!std::filesystem::exists(path, ignored)) refuse(path, "is missing, but SHA256SUMS lists it");
    if (sum_of(InputFile(path), &part) != left.substr(0, kDigits))
      refuse(path, "is not the file that SHA256SUMS lists");
    left.remove_prefix(end + 1);
  }
}

}  // namespace bascule
