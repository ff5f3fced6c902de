// SPDX-License-Identifier: Apache-2.0
#include "src/commands/command_reference.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/commands/command_line.h"

namespace bascule {
namespace {

// CLI11 writes a closed list as "{a,b}".
std::vector<std::string> words_of(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

// CLI11 writes a range as "INT in [1 - 1000]".
std::string range_of(const std::string& type) {
  const std::size_t begin = type.find("in ["), middle = type.find(" - ", begin), end = type.find(']', middle);
  if (begin == std::string::npos || middle == std::string::npos || end == std::string::npos) return "";
  return "; from " + type.substr(begin + 4, middle - begin - 4) + " to " + type.substr(middle + 3, end - middle - 3);
}

std::string name_of(const CLI::Option& option) { return option.get_name(option.get_positional()); }

std::vector<std::string> names_of(const CLI::Option& option) {
  if (option.get_positional()) return {option.get_name(true)};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

// Sorted, as the set is ordered by address.
std::vector<std::string> names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  names.reserve(options.size());
  for (const CLI::Option* option : options) names.push_back(name_of(*option));
  std::sort(names.begin(), names.end());
  return names;
}

OptionReference reference_of(CLI::Option* option) {
  OptionReference one;
  one.names = names_of(*option);
  one.meaning = option->get_description();
  one.is_path = takes_path(option);
  one.is_required = option->get_required();
  one.excluded = names_of(option->get_excludes());
  if (option->get_items_expected_max() > 0) {
    const std::string type = option->get_type_name();
    one.value = type.substr(0, type.find(':'));
    one.words = words_of(type);
    one.takes_many = option->get_items_expected_max() > 1;
    one.value_is_optional = option->get_items_expected_min() == 0;
    one.meaning += range_of(type);
  }
  if (!option->get_default_str().empty()) one.meaning += "; default: " + option->get_default_str();
  for (const std::string& other : names_of(option->get_needs())) one.meaning += "; needs " + other;
  for (const std::string& other : one.excluded) one.meaning += "; not with " + other;
  return one;
}

bool is_in_help(const CLI::Option* option) { return !option->get_group().empty(); }

}  // namespace

ProgramReference program_reference(CLI::App& app) {
  ProgramReference program;
  program.purpose = app.get_description();
  for (CLI::Option* option : app.get_options(is_in_help)) program.options.push_back(reference_of(option));
  std::vector<std::string> names;
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandReference one{command->get_name(), command->get_description(), command->get_footer(), {}, {}};
    for (CLI::Option* option : command->get_options(is_in_help))
      (option->get_positional() ? one.arguments : one.options).push_back(reference_of(option));
    names.push_back(one.name);
    program.commands.push_back(std::move(one));
  }
  // `help` checks its argument itself, to name the nearest command.
  for (OptionReference& argument : program.commands.back().arguments) argument.words = names;
  return program;
}

}  // namespace bascule
