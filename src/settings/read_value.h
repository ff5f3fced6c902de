// SPDX-License-Identifier: Apache-2.0
// The value of one key, from its TOML node: its type, its range, its path. Inside this room only, and beside
// read_toml.cpp the only place that knows toml++. Before the seal.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "src/settings/keys.h"
#include "src/settings/settings.h"

namespace bascule {

// The settings being read, and how places are named.
struct Reading {
  std::string file;
  std::filesystem::path directory;  // that relative paths start from
  Settings settings;
  bool is_command_line = false;  // paths are then written absolute
};

// "file:line:column", or "command line".
std::string position(const Reading& reading, const toml::source_region& source);

// For messages: "a list", "an integer".
const char* type_name(const toml::node& node);
// A quotation, cut between characters: a file that is no settings file may have "keys" of a megabyte.
std::string cut(std::string_view text);

// Throws Error{kSettings}.
[[noreturn]] void refuse(const std::string& where, const std::string& what, const std::string& what_to_do);

// Gives the key its value and the place where it stands. Throws Error{kSettings}.
void read_value(Reading& reading, const Key& key, const toml::node& node);

}  // namespace bascule
