// SPDX-License-Identifier: Apache-2.0
#include "src/settings/command_line_keys.h"

#include <filesystem>

#include "src/base/paths.h"

namespace bascule {

const SealedSettings* sealed_settings() { return nullptr; }

Settings settings_of_run(const SettingsSource& source, const FindModelWords& find) {
  return read_settings(source.file, source.keys, find);
}

Settings settings_of_service(const std::string& folder_or_file, const std::vector<std::string>& keys,
                             const FindModelWords& find) {
  if (!std::filesystem::is_directory(folder_or_file)) {
    if (std::filesystem::path(folder_or_file).extension() != ".toml") require_model_folder(folder_or_file);
    return settings_of_run({folder_or_file, keys}, find);
  }
  std::string path = std::filesystem::absolute(folder_or_file).lexically_normal().string(), quoted_path;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  for (const char c : path) quoted_path += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return read_settings_text("[model]\nmodel_name_or_path = \"" + quoted_path + "\"\n[serve]\n", folder_or_file, "",
                            keys, find);
}

}  // namespace bascule
