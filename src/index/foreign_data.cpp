// SPDX-License-Identifier: Apache-2.0
#include "src/index/foreign_data.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "src/base/error.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 2;                                                        // folders: data/train
constexpr const char* kSavedFiles[] = {"dataset_dict.json", "dataset_info.json"};  // by save_to_disk

std::string kind_of_table(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".parquet" ? "Parquet" : ending == ".arrow" ? "Arrow" : "";
}

// What a folder holds of these forms, or nothing.
std::string found_in(const std::string& folder) {
  std::error_code failed;
  if (std::any_of(std::begin(kSavedFiles), std::end(kSavedFiles),
                  [&](const char* file) { return fs::exists(folder + "/" + file, failed); }))
    return "is a data set that save_to_disk wrote";
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (entry.depth() == kDeepest) entry.disable_recursion_pending();
    const std::string kind = kind_of_table(entry->path());
    if (!kind.empty()) return "holds " + kind + " files";
  }
  return "";
}

}  // namespace

void refuse_foreign_data(const std::string& path) {
  const auto refuse = [&](const std::string& what, const std::string& what_to_do) {
    throw Error(ErrorKind::kData, path, what, what_to_do);
  };
  std::error_code failed;
  if (!fs::exists(path, failed) && !failed) {
    refuse(
        "there is no such file or folder",
        "data are local files, and Bascule downloads nothing: tools/export_dataset.py NAME --output FOLDER downloads "
        "and converts a data set of the hub");
  }
  const std::string kind = kind_of_table(path);
  const std::string found = fs::is_directory(path, failed) ? found_in(path)
                            : kind.empty()                 ? ""
                                                           : "is a file of " + kind;
  if (!found.empty()) refuse(found, "convert it: tools/export_dataset.py " + path + " --output FOLDER");
}

}  // namespace bascule
