// SPDX-License-Identifier: Apache-2.0
// Shared by the commands' options: paths, settings files and lists of numbers; and the error of a command line that
// was refused.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "src/base/error.h"
#include "src/settings/command_line_keys.h"

namespace bascule {

// For a command line that `app` refused as `failure` says: one line, with the nearest name for a misspelt one.
Error command_line_error(const CLI::App& app, const CLI::ParseError& failure);
// For the name of a command that `app` does not have.
Error unknown_command(const CLI::App& app, const std::string& name);

// "a,b,c", `count` of them; any number of them for 0.
template <typename Number>
std::vector<Number> numbers_of(const char* option, const std::string& text, std::size_t count) {
  std::vector<Number> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    Number number{};
    const auto [after, failure] = std::from_chars(at, end, number);
    if (failure != std::errc() || (after < end && *after != ',') || after + 1 == end) break;
    numbers.push_back(number);
    at = after < end ? after + 1 : after;
  }
  if (at < end || numbers.empty() || (count > 0 && numbers.size() != count)) {
    throw Error(ErrorKind::kSettings, option, "\"" + text + "\" is not a list of numbers",
                count > 0 ? "give " + std::to_string(count) + " numbers separated by commas"
                          : "give numbers separated by commas");
  }
  return numbers;
}

// An empty path, or one that a shell has left as it was ("--output=~/x"), is refused.
CLI::Option* as_path(CLI::Option* option);
// Whether it is one of these, or of those below.
bool takes_path(CLI::Option* option);
// The same, and where there is no such folder.
CLI::Option* as_folder(CLI::Option* option);
// A path that the command will write: the folder that it lies in must exist and be writable, and what is there already
// must be a file, which is checked before any work is done.
CLI::Option* as_output_file(CLI::Option* option);
CLI::Option* as_output_folder(CLI::Option* option);

// An integer from `least` to `most`, in decimal: 010 is ten. All options that take one are read here.
CLI::Option* as_integer(CLI::Option* option, std::uint64_t least, std::uint64_t most);
// Its values, "a,b", as help and completions show those of a closed list: for one whose value is checked elsewhere.
CLI::Option* with_words(CLI::Option* option, const std::string& words);

// A number from `least` to `most`, and one: NaN is in every range that only compares.
CLI::Option* in_range(CLI::Option* option, double least, double most);

// The settings file of a command, and keys in place of the file's. A program with sealed settings takes neither. what:
// the help of the file; null: the command can do without it.
void add_settings(CLI::App* command, SettingsSource* source, const char* what = "settings file");

}  // namespace bascule
