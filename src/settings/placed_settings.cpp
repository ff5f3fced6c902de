// SPDX-License-Identifier: Apache-2.0
#include "src/base/paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

constexpr char kUnixAddress[] = "unix:";

void place(PathSetting& path, const std::string& start) {
  if (path.is_given()) path.resolved = path_inside(start, path.written);
}

}  // namespace

Settings placed_settings(Settings settings) {
  const std::string start = tree_of_program();
  for (const Key& key : all_keys()) {
    if (const auto* path = std::get_if<PathKey>(&key.kind)) place(path->member.at(settings), start);
    if (const auto* path = std::get_if<ChoiceOrPathKey>(&key.kind)) place(path->path.at(settings), start);
    if (const auto* paths = std::get_if<PathsKey>(&key.kind)) {
      paths->member.at(settings).start = start;
      paths->member.at(settings).stays_inside = true;
    }
  }
  std::string& listen = settings.serve.listen;
  if (listen.rfind(kUnixAddress, 0) == 0)
    listen = kUnixAddress + path_inside(start, listen.substr(sizeof kUnixAddress - 1));
  resolve_tokenizer(settings);
  return settings;
}

}  // namespace bascule
