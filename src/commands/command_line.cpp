// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_line.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "src/base/paths.h"
#include "src/settings/absolute_paths.h"
#include "src/settings/nearest_key.h"

namespace bascule {
namespace {

constexpr char kPathCheck[] = "path";

const CLI::App* chosen_command(const CLI::App& app) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  return commands.empty() ? nullptr : commands.front();
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

std::string meant(const std::string& name) { return "did you mean " + quoted(name) + "?"; }

void refuse_missing_folder(const std::string& option, const std::string& folder) {
  if (is_folder(folder)) return;
  throw Error(ErrorKind::kSettings, option, "there is no folder " + quoted(folder), "create it, or correct the path");
}

// Checks the folder in which `path` is to be written.
void check_folder_of(const std::string& option, const std::string& path) {
  const std::string name = path.substr(0, path.find_last_not_of('/') + 1);
  const std::filesystem::path parent = std::filesystem::path(name).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  refuse_missing_folder(option, folder);
  if (access(folder.c_str(), W_OK | X_OK) == 0) return;
  const int error = errno;
  throw Error(ErrorKind::kDisk, path, std::string("cannot be written: ") + std::strerror(error),
              advice_for_disk(error));
}

}  // namespace

Error unknown_command(const CLI::App& app, const std::string& name) {
  const std::vector<std::string> commands = command_names(app);
  const std::optional<std::string> near = nearest_name(name, commands);
  return Error(ErrorKind::kSettings, "", "unknown command " + quoted(name),
               near ? meant(*near) : "commands: " + joined(commands));
}

Error command_line_error(const CLI::App& app, const CLI::ParseError& failure) {
  const CLI::App* const command = chosen_command(app);
  const CLI::App& asked = command != nullptr ? *command : app;
  const std::string help = "see `bascule" + (command != nullptr ? " " + command->get_name() : "") + " --help`";
  const std::string where = command != nullptr ? command->get_name() : "";
  const auto refused = [&](const std::string& what, const std::string& what_to_do) {
    return Error(ErrorKind::kSettings, where, what, what_to_do);
  };
  for (const std::string& extra : app.remaining(true)) {
    const std::size_t dashes = extra.find_first_not_of('-');
    if (dashes > 0 && dashes != std::string::npos) {
      const std::string name = extra.substr(dashes, extra.find('=') - dashes);
      const std::optional<std::string> near = nearest_name(name, option_names(asked));
      return refused("unknown option " + quoted(extra.substr(0, extra.find('='))), near ? meant("--" + *near) : help);
    }
    if (command != nullptr) return refused("unexpected argument " + quoted(extra), help);
    return unknown_command(app, extra);
  }
  if (command == nullptr) return refused("missing command", "commands: " + joined(command_names(app)));
  return refused(failure.what(), help);
}

CLI::Option* as_path(CLI::Option* option) {
  return option->check(CLI::Validator(
      [](std::string& path) { return path.empty() ? "the path is empty" : unexpanded_problem(path); }, "", kPathCheck));
}

bool takes_path(CLI::Option* option) {
  try {
    option->get_validator(kPathCheck);
    return true;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

CLI::Option* as_folder(CLI::Option* option) {
  return as_path(option)->each(
      [name = option->get_name()](const std::string& path) { refuse_missing_folder(name, path); });
}

CLI::Option* as_output_file(CLI::Option* option) {
  return as_path(option)->each([name = option->get_name()](const std::string& path) {
    check_folder_of(name, path);
    if (path.back() == '/' || is_folder(path))
      throw Error(ErrorKind::kSettings, name, quoted(path) + " is a folder", "name a file");
    // Writing into a pipe would wait for its reader.
    if (is_there(path) && !is_file(path))
      throw Error(ErrorKind::kSettings, name, quoted(path) + " is not a file", "name a file");
  });
}

CLI::Option* as_output_folder(CLI::Option* option) {
  return as_path(option)->each([name = option->get_name()](const std::string& path) { check_folder_of(name, path); });
}

// CLI11 would read 010 as eight and 0x10 as sixteen, and turn what is too large for the type into its largest.
CLI::Option* as_integer(CLI::Option* option, std::uint64_t least, std::uint64_t most) {
  const auto read = [=](std::string& text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [after, failure] = std::from_chars(text.data(), end, number);
    if (failure != std::errc() || after != end || number < least || number > most)
      return "\"" + text + "\" is not a decimal integer from " + std::to_string(least) + " to " + std::to_string(most);
    text = std::to_string(number);
    return std::string();
  };
  const std::string range = "INT in [" + std::to_string(least) + " - " + std::to_string(most) + "]";
  return option->type_name("INT")->transform(CLI::Validator(read, range));
}

CLI::Option* with_words(CLI::Option* option, const std::string& words) {
  return option->type_name("TEXT:{" + words + "}");
}

CLI::Option* in_range(CLI::Option* option, double least, double most) {
  const auto problem = [](std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is not a number" : std::string();
  };
  return option->check(CLI::Range(least, most))->check(CLI::Validator(problem, ""));
}

void add_settings(CLI::App* command, SettingsSource* source, const char* what) {
  const bool needs_file = what != nullptr;
  CLI::Option* const file = as_path(command->add_option(
      "file", source->file,
      needs_file ? what : "settings file; without it: print every key with meaning, range and default"));
  CLI::Option* const keys = command->add_option(
      "keys", source->keys, "TABLE.KEY=VALUE: in place of the key in the file, such as training.seed=7");
  const SealedSettings* const sealed = sealed_settings();
  if (sealed == nullptr) {
    file->required(needs_file);
    return;
  }
  for (CLI::Option* const option : {file, keys}) option->group("");  // not in the help
  file->each([name = command->get_name(), sealed](const std::string& refused) {
    const bool is_key = refused.find('=') != std::string::npos;
    throw Error(
        ErrorKind::kSettings, name,
        std::string(is_key ? "unexpected key \"" : "unexpected settings file \"") + refused +
            "\": this program was built with the settings of " + sealed->file + " (digest " + sealed->digest + ")",
        std::string(is_key ? "leave the key out" : "leave the file out") + "; `bascule settings` prints the settings");
  });
}

}  // namespace bascule
