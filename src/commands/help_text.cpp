// SPDX-License-Identifier: Apache-2.0
#include "src/commands/help_text.h"

#include <optional>
#include <vector>

#include "src/settings/nearest_key.h"

namespace bascule {
namespace {

// Where the last column of a line begins; with one column, where the line does.
std::size_t last_column(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t gap = line.find("  ", first);
  const std::size_t second = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  return second == std::string_view::npos || second > kHelpColumns / 2 ? first : second;
}

std::string wrapped_line(std::string_view line) {
  const std::size_t indent = last_column(line);
  std::string text;
  while (line.size() > kHelpColumns - (text.empty() ? 0 : indent)) {
    const std::size_t room = kHelpColumns - (text.empty() ? 0 : indent);
    const std::size_t space = line.rfind(' ', room);
    // A word that is longer than the line stays whole.
    const std::size_t end = space == std::string_view::npos || (text.empty() && space < indent)
                                ? std::min(line.find(' ', room), line.size())
                                : space;
    text += (text.empty() ? "" : "\n" + std::string(indent, ' ')) + std::string(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end + 1));
  }
  if (text.empty()) return std::string(line);
  return line.empty() ? text : text + "\n" + std::string(indent, ' ') + std::string(line);
}

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

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

}  // namespace

std::string wrapped(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += wrapped_line(text.substr(0, end));
    if (end < text.size()) lines += "\n";
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

Error command_line_error(const CLI::App& app, const CLI::ParseError& failure) {
  const CLI::App* const command = chosen_command(app);
  const CLI::App& asked = command != nullptr ? *command : app;
  const std::string help = "see `bascule" + (command != nullptr ? " " + command->get_name() : "") + " --help`";
  const std::string where = command != nullptr ? command->get_name() : "";
  const auto refused = [&](const std::string& what, const std::string& what_to_do) {
    return Error(ErrorKind::kSettings, where, what, what_to_do);
  };
  const auto meant = [](const std::string& prefix, const std::optional<std::string>& name) {
    return "did you mean " + quoted(prefix + *name) + "?";
  };
  for (const std::string& extra : app.remaining(true)) {
    const std::size_t dashes = extra.find_first_not_of('-');
    if (dashes > 0 && dashes != std::string::npos) {
      const std::string name = extra.substr(dashes, extra.find('=') - dashes);
      const std::optional<std::string> near = nearest_name(name, option_names(asked));
      return refused("unknown option " + quoted(extra.substr(0, extra.find('='))), near ? meant("--", near) : help);
    }
    if (command != nullptr) return refused("unexpected argument " + quoted(extra), help);
    const std::vector<std::string> commands = command_names(app);
    const std::optional<std::string> near = nearest_name(extra, commands);
    return refused("unknown command " + quoted(extra), near ? meant("", near) : "commands: " + listed(commands));
  }
  if (command == nullptr) return refused("missing command", "commands: " + listed(command_names(app)));
  return refused(failure.what(), help);
}

}  // namespace bascule
