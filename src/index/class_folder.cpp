// SPDX-License-Identifier: Apache-2.0
// Pictures in a folder for each class: ROOT/CLASS/.../x.jpg.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "src/base/descriptor.h"
#include "src/base/digest.h"
#include "src/base/paths.h"
#include "src/files/input_file.h"
#include "src/index/manifest_readers.h"
#include "src/index/open_manifest.h"

namespace bascule {
namespace {

namespace fs = std::filesystem;

bool begins_with_dot(const fs::path& path) { return path.filename().string().front() == '.'; }

enum class Kind { kPicture, kOtherPicture, kOther };

// Whether a file begins as JPEG, PNG and WebP do.
bool begins_as_picture(const fs::path& path) {
  const int file = open_regular_file(AT_FDCWD, path.c_str());
  if (file < 0) return false;
  const Descriptor owner(file);
  char begin[12] = {};
  if (::read(file, begin, sizeof begin) <= 0) return false;
  const std::string_view bytes(begin, sizeof begin);
  return bytes.substr(0, 3) == "\xFF\xD8\xFF" || bytes.substr(0, 3) == "\x89PN" ||
         (bytes.substr(0, 4) == "RIFF" && bytes.substr(8) == "WEBP");
}

Kind kind_of(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (ending.empty()) return begins_as_picture(path) ? Kind::kOtherPicture : Kind::kOther;
  ending.erase(0, 1);
  if (is_picture_ending(ending)) return Kind::kPicture;
  return is_other_picture_ending(ending) ? Kind::kOtherPicture : Kind::kOther;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do = "") {
  throw Error{ErrorKind::kData, where, what, what_to_do};
}

// Names of the folders in a folder, sorted by their bytes; counts the pictures beside them.
std::vector<std::string> class_names(const std::string& folder, std::int64_t* unread) {
  std::vector<std::string> names;
  std::error_code failed;
  for (const std::string& name : names_in(folder, &failed)) {
    if (begins_with_dot(name)) continue;
    if (is_folder(folder + "/" + name)) {
      names.push_back(name);
    } else if (kind_of(name) != Kind::kOther) {
      ++*unread;
    }
  }
  if (failed) refuse(folder, failed.message());
  return names;
}

// Whether it is a link to a folder that it lies in, which would be walked without end.
bool leads_back(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed) || !fs::is_directory(path, failed)) return false;
  const fs::path target = fs::canonical(path, failed), from = fs::canonical(path.parent_path(), failed);
  const auto [end, ignored] = std::mismatch(target.begin(), target.end(), from.begin(), from.end());
  return !failed && end == target.end();
}

// Paths from `folder` on of the pictures of a class, however deep, sorted by their bytes; counts those of other kinds.
std::vector<std::string> pictures_of(const std::string& folder, const std::string& name, std::int64_t* unread) {
  if (leads_back(folder + "/" + name))
    refuse(folder + "/" + name, "is a link to a folder that it lies in", "remove the link");
  std::vector<std::string> paths;
  const std::int64_t unread_before = *unread;
  std::error_code failed;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (fs::recursive_directory_iterator entry(folder + "/" + name, options, failed), end; !failed && entry != end;
       entry.increment(failed)) {
    std::error_code ignored;
    if (leads_back(entry->path()))
      refuse(entry->path().string(), "is a link to a folder that it lies in", "remove the link");
    const std::string file = entry->path().filename().string();
    if (std::find(std::begin(kMetadataFiles), std::end(kMetadataFiles), file) != std::end(kMetadataFiles)) {
      refuse(entry->path().string(), "lists pictures, but is not read: its folder is one of classes",
             "name the folders that have such a file as data, or remove it");
    }
    if (begins_with_dot(entry->path())) {
      entry.disable_recursion_pending();
    } else if (const Kind kind = kind_of(entry->path()); kind != Kind::kOther && !entry->is_directory(ignored)) {
      if (kind == Kind::kPicture) paths.push_back(entry->path().string().substr(folder.size() + 1));
      if (kind == Kind::kOtherPicture) ++*unread;
    }
  }
  if (failed) refuse(folder + "/" + name, failed.message());
  if (paths.empty()) {
    refuse_foreign_data(folder);
    refuse(folder + "/" + name,
           "has no pictures" + (*unread > unread_before ? ", but " + std::to_string(*unread - unread_before) +
                                                              " whose names do not end in " + kPictureEndings
                                                        : std::string()),
           "add JPEG, PNG or WebP files, or remove the folder");
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

std::uint64_t read_class_folder(const std::string& folder, ManifestBuilder* builder) {
  Digest digest;
  std::int64_t unread = 0;
  for (const std::string& name : class_names(folder, &unread)) {
    for (const std::string& path : pictures_of(folder, name, &unread)) {
      digest.add_number(path.size());
      digest.add(path.data(), path.size());
      builder->add(path, {}, {-1, name}, 0);
    }
  }
  builder->add_unread(
      {unread,
       std::string("their names do not end in ") + kPictureEndings + ", or they are not in the folder of a class",
       "convert them to JPEG, PNG or WebP, or move them to the folder of their class"});
  return digest.value();
}

}  // namespace bascule
