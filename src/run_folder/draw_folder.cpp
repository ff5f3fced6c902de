// SPDX-License-Identifier: Apache-2.0
#include "src/run_folder/run_folder.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>

#include "src/base/error.h"
#include "src/checkpoint/find_checkpoint.h"
#include "src/files/durable_write.h"
#include "src/pictures/picture_log.h"
#include "src/record/picture_files.h"
#include "src/run_folder/run_marker.h"
#include "src/settings/resume_rules.h"

namespace bascule {
namespace {

constexpr char kRestoreAdvice[] = "restore it, or choose another folder";

bool has_pictures(const std::string& folder) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(folder + "/" + kPictureLogFile, error);
  return !error && bytes > 0;
}

Settings settings_of_pictures(const RunMarker& marker, const Settings& now) {
  try {
    return marker_settings(marker, now.words);
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, now.run.output_dir.resolved + "/" + kRunMarkerFile,
                "its settings cannot be read: " + error.problem(),
                std::string(kRestoreAdvice) + ", or set draw.resume = \"never\" to draw all anew");
  }
}

// The first setting that draws other pictures. A list of prompts may have moved: each line of images.jsonl is compared
// with it.
std::optional<SettingChange> change_of_pictures(const RunMarker& marker, const Settings& settings) {
  const Settings before = settings_of_pictures(marker, settings);
  for (const SettingChange& change : setting_changes(number_keys(before), other_keys(before), settings)) {
    const bool keeps_pictures = change.effect == KeyEffect::kFree || change.effect == KeyEffect::kFromThereOn ||
                                change.effect == KeyEffect::kWhileTraining || change.key == "draw.prompts_file";
    if (!keeps_pictures) return change;
  }
  return std::nullopt;
}

}  // namespace

void check_draw_folder(const Settings& settings) {
  const std::string& folder = settings.run.output_dir.resolved;
  const std::string where = where_written(settings, "draw.output_dir"), shown = settings.run.output_dir.shown();
  const OutputDir found = classify_output_dir(folder);
  if (found.kind == OutputDirKind::kOther) {
    const std::string marker = folder + "/" + kRunMarkerFile;
    if (has_pictures(folder) && std::filesystem::exists(marker))
      throw Error(ErrorKind::kData, marker, "is damaged, or was not written by Bascule", kRestoreAdvice);
    throw Error(ErrorKind::kSettings, where, shown + " " + found.problem,
                "choose an empty folder, or that of an earlier run");
  }
  if (found.kind == OutputDirKind::kFree) return;
  const RunMarker marker = read_run_marker(folder);
  if (!marker.draws)
    throw Error(ErrorKind::kSettings, where, shown + " holds a run that trains or evaluates", "choose another folder");
  if (settings.draw.resume == ResumeDrawing::kNever || !has_pictures(folder)) return;
  if (const std::optional<SettingChange> change = change_of_pictures(marker, settings))
    throw Error(ErrorKind::kSettings, where,
                shown + " holds pictures of other settings: " + change->key + " was " + change->from,
                "choose another folder, or set draw.resume = \"never\" to draw all anew");
}

void check_picture_places(const Settings& settings, std::size_t pictures) {
  const PathSetting& output = settings.run.output_dir;
  for (const std::string& name : folder_entries(output.resolved)) {
    std::size_t number = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
    if (read.ec != std::errc() || number >= pictures || name != PictureName(number, pictures).text()) continue;
    std::error_code error;
    if (std::filesystem::symlink_status(output.resolved + "/" + name, error).type() ==
        std::filesystem::file_type::directory)
      throw Error(ErrorKind::kSettings, where_written(settings, "draw.output_dir"),
                  output.shown() + "/" + name + " is a folder, but a picture will be written there", "move it away");
  }
}

void remove_pictures(const std::string& folder, const std::vector<std::string>& names) {
  const std::string log = folder + "/" + kPictureLogFile;
  std::vector<std::string> pictures = names;
  try {
    for (const auto& row : read_picture_log(log)) pictures.push_back(row.file);
  } catch (const Error&) {  // damaged lines name nothing
  }
  throw_if_failed(remove_tree(log.c_str()), log, "cannot be removed");
  throw_if_failed(sync_folder(folder.c_str()), folder, "cannot be synced");
  for (const std::string& name : pictures) {
    const std::string path = folder + "/" + name;
    std::error_code error;
    const std::filesystem::file_type type = std::filesystem::symlink_status(path, error).type();
    const bool is_file = type == std::filesystem::file_type::regular || type == std::filesystem::file_type::symlink;
    if (is_file && name.find('/') == std::string::npos)
      throw_if_failed(remove_tree(path.c_str()), path, "cannot be removed");
  }
}

}  // namespace bascule
