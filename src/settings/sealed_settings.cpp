// SPDX-License-Identifier: Apache-2.0
// Settings that are built into a program: the source that has them, and how the program reads them.
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "src/base/digest.h"
#include "src/base/paths.h"
#include "src/settings/command_line_keys.h"
#include "src/settings/keys.h"
#include "src/settings/read_canonical.h"
#include "src/settings/validate.h"

namespace bascule {
namespace {

// A string literal: printable ASCII as it is, every other byte as three octal digits.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?' || byte < 0x20 || byte > 0x7e) {
      char octal[5];
      std::snprintf(octal, sizeof octal, "\\%03o", byte);
      out += octal;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// One literal a line.
std::string lines_literal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    out += "\n    " + literal(text.substr(0, end));
    text.remove_prefix(end);
  }
  return out.empty() ? literal("") : out;
}

void place_paths(Settings* settings) {
  const std::string start = tree_of_program();
  const auto place = [&](PathSetting& path) {
    if (path.is_given()) path.resolved = path_inside(start, path.written);
  };
  for (const Key& key : all_keys()) {
    if (const auto* path = std::get_if<PathKey>(&key.kind)) place(path->member.at(*settings));
    if (const auto* path = std::get_if<ChoiceOrPathKey>(&key.kind)) place(path->path.at(*settings));
    if (const auto* paths = std::get_if<PathsKey>(&key.kind)) {
      paths->member.at(*settings).start = start;
      paths->member.at(*settings).stays_inside = true;
    }
  }
  std::string& listen = settings->serve.listen;
  if (listen.rfind(kUnixAddress, 0) == 0)
    listen = kUnixAddress + path_inside(start, listen.substr(sizeof kUnixAddress - 1));
  resolve_tokenizer(*settings);
}

}  // namespace

std::string sealed_source(const Settings& settings, const std::string& name) {
  const std::string toml = print_settings(settings);
  Sha256 sum;
  sum.add(toml.data(), toml.size());
  std::string places;
  for (const auto& [key, place] : settings.origin.where)
    places += key + " " + place.substr(settings.origin.file.size()) + "\n";
  return "// Written by seal_settings.\n#include \"src/settings/command_line_keys.h\"\n\nnamespace bascule {\n\n"
         "const SealedSettings* sealed_settings() {\n  static constexpr SealedSettings kSealed = {" +
         literal(name) + ", " + literal(settings_digest(settings)) + ", " + literal(sum.hex()) + "," +
         lines_literal(toml) + "," + lines_literal(places) +
         "};\n  return &kSealed;\n}\n\n"
         "Settings settings_of_run(const SettingsSource&, const FindModelWords& find) {\n"
         "  return read_sealed_settings(*sealed_settings(), find);\n}\n\n"
         "Settings settings_of_service(const std::string&, const std::vector<std::string>&, const FindModelWords& "
         "find) {\n  return settings_of_run({}, find);\n}\n\n}  // namespace bascule\n";
}

Settings read_sealed_settings(const SealedSettings& sealed, const FindModelWords& find) {
  const auto read = [&](const ModelWords& words) {
    Settings settings = read_canonical_settings(sealed.toml, sealed.file, words);
    place_paths(&settings);
    return settings;
  };
  Settings settings = read(find(read({}).model.model_name_or_path.resolved));
  settings.origin.where.clear();
  for (std::string_view left = sealed.places; !left.empty();) {
    const std::size_t end = left.find('\n'), space = left.find(' ');
    settings.origin.where[std::string(left.substr(0, space))] =
        sealed.file + std::string(left.substr(space + 1, end - space - 1));
    left.remove_prefix(end + 1);
  }
  return settings;
}

}  // namespace bascule
