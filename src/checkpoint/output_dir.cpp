// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/output_dir.h"

#include <filesystem>
#include <system_error>

#include "src/base/error.h"
#include "src/base/shown_path.h"
#include "src/checkpoint/checkpoint_names.h"
#include "src/checkpoint/state_file.h"
#include "src/checkpoint/tensor_source.h"
#include "src/files/durable_write.h"
#include "src/json/json.h"

namespace bascule {
namespace {

enum class Marker { kAbsent, kOurs, kOther };

// Every version of Bascule has written these.
bool has_our_keys(const Json& json) {
  return json.is_object() && json.contains("finished") && json["finished"].is_boolean() &&
         json.contains("settings_digest") && json["settings_digest"].is_string();
}

Marker read_marker(const std::string& path) {
  std::error_code failure;
  if (std::filesystem::symlink_status(path, failure).type() == std::filesystem::file_type::not_found)
    return Marker::kAbsent;
  if (!std::filesystem::is_regular_file(path, failure)) return Marker::kOther;
  const InputFile file(path);
  if (file.size() > std::int64_t{1} << 30) return Marker::kOther;
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), 0, text.size());
  Json json;
  try {
    json = parse_json(text, path);
  } catch (const Error&) {
    return Marker::kOther;
  }
  if (!has_our_keys(json)) return Marker::kOther;
  const std::int64_t format = get_int(json, "format", path, 1);
  if (format < 1 || format > kRunMarkerFormat) {
    throw Error(
        ErrorKind::kData, path,
        "has format " + std::to_string(format) + ", this program reads 1 to " + std::to_string(kRunMarkerFormat),
        "use the version of Bascule that wrote it");
  }
  return Marker::kOurs;
}

bool dangles(const std::filesystem::path& link) {
  std::error_code failure;
  return std::filesystem::is_symlink(link, failure) && !std::filesystem::exists(link, failure);
}

// Why no folder can be made at a path where nothing is: the nearest thing above it is none. "" where one can.
std::string problem_above(const std::filesystem::path& path) {
  std::error_code failure;
  for (std::filesystem::path at = path.parent_path(); at.has_relative_path(); at = at.parent_path()) {
    const std::filesystem::file_type type = std::filesystem::symlink_status(at, failure).type();
    if (type == std::filesystem::file_type::not_found) continue;
    if (type == std::filesystem::file_type::none || std::filesystem::is_directory(at, failure)) return "";
    return "lies below " + shown_path(at.string()) + ", which is " +
           (dangles(at) ? "a dangling symbolic link" : "not a folder");
  }
  return "";
}

bool is_ignored(const std::string& name) { return name == "lost+found" || name.front() == '.'; }

}  // namespace

OutputDir classify_output_dir(const std::string& output_dir) {
  std::error_code failure;
  const std::filesystem::file_type type = std::filesystem::symlink_status(output_dir, failure).type();
  if (type == std::filesystem::file_type::not_found) {
    const std::string problem = problem_above(output_dir);
    return {problem.empty() ? OutputDirKind::kFree : OutputDirKind::kOther, problem};
  }
  if (!std::filesystem::is_directory(output_dir, failure)) {
    if (type == std::filesystem::file_type::none)
      return {OutputDirKind::kOther, "cannot be accessed: " + failure.message()};
    return {OutputDirKind::kOther, dangles(output_dir) ? "is a dangling symbolic link" : "is not a folder"};
  }
  const Marker marker = read_marker(output_dir + "/" + kRunMarkerFile);
  if (marker == Marker::kOurs) return {OutputDirKind::kOurs, ""};
  std::string other;
  for (const std::string& name : folder_entries(output_dir)) {
    if (checkpoint_step(name) && holds_state(PathBuffer(output_dir).append("/").append(name))) {
      if (marker == Marker::kAbsent) return {OutputDirKind::kOurs, ""};
      throw Error(ErrorKind::kData, output_dir + "/" + kRunMarkerFile, "is damaged, or was not written by Bascule",
                  "move it away to resume from the checkpoints beside it");
    }
    if (other.empty() && !is_ignored(name)) other = name;
  }
  if (other.empty()) return {};
  return {OutputDirKind::kOther, "contains other files (" + other + ")"};
}

}  // namespace bascule
