// SPDX-License-Identifier: Apache-2.0
#include "src/commands/completion.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/base/paths.h"
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

std::vector<std::string> names_of(const std::vector<OptionReference>& options) {
  std::vector<std::string> names;
  for (const OptionReference& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// The values after an option, as a case of "COMMAND:OPTION". bash offers files by itself where it is told so.
std::string bash_value(const CommandReference& command, const OptionReference& option) {
  std::vector<std::string> cases;
  for (const std::string& name : option.names) cases.push_back(command.name + ":" + name);
  const std::string action = option.is_path          ? "compopt -o default"
                             : !option.words.empty() ? "_bascule_words \"$current\" '" + joined(option.words, " ") + "'"
                                                     : ":";
  return "    " + joined(cases, " | ") + ") " + action + "; return ;;\n";
}

std::string bash_command(const CommandReference& command) {
  bool takes_files = false;
  std::vector<std::string> words;
  for (const OptionReference& argument : command.arguments) {
    takes_files = takes_files || argument.is_path;
    words.insert(words.end(), argument.words.begin(), argument.words.end());
  }
  return "    " + command.name + ") options='" + joined(names_of(command.options), " ") + "'" +
         (words.empty() ? "" : " words='" + joined(words, " ") + "'") + (takes_files ? " files=yes" : "") + " ;;\n";
}

// Inside single quotes of the shell, and with the marks of _arguments as letters.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionReference& option) {
  if (option.is_path) return "_files";
  return option.words.empty() ? " " : "(" + joined(option.words, " ") + ")";
}

// One specification of _arguments for each name of an option, which shuts out the other names.
std::string zsh_option(const OptionReference& option, const char* indent) {
  std::string text;
  for (const std::string& name : option.names) {
    std::string excluded = joined(option.excluded, " ");
    for (const std::string& other : option.names) {
      if (option.names.size() > 1) excluded += (excluded.empty() ? "" : " ") + other;
    }
    const bool is_long = name.rfind("--", 0) == 0;
    text += std::string(" \\\n") + indent + "'" + (excluded.empty() ? "" : "(" + excluded + ")") + name +
            (option.value.empty() ? ""
             : is_long            ? "="
                                  : "+") +
            "[" + zsh_text(option.meaning) + "]";
    if (!option.value.empty())
      text += (option.value_is_optional ? "::" : ":") + zsh_text(option.value) + ":" + zsh_action(option);
    text += "'";
  }
  return text;
}

std::string zsh_argument(const OptionReference& argument, const char* indent) {
  return std::string(" \\\n") + indent + "'" +
         (argument.takes_many    ? "*"
          : argument.is_required ? ""
                                 : ":") +
         ":" + zsh_text(argument.names.front()) + ":" + zsh_action(argument) + "'";
}

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

std::string bash_completion(const ProgramReference& program) {
  std::string cases, values;
  std::vector<std::string> commands;
  for (const CommandReference& command : program.commands) {
    commands.push_back(command.name);
    cases += bash_command(command);
    for (const OptionReference& option : command.options) {
      if (!option.value.empty()) values += bash_value(command, option);
    }
  }
  return R"(# Completion of bascule in bash, made from its command line.

_bascule_words() {
  mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

_bascule() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' options='' words='' files='' word
  COMPREPLY=()
  # --option=value is three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do
    if [[ $word != -* ]]; then
      command=$word
      break
    fi
  done
  case $command:$before in
)" + values +
         R"(  esac
  case $command in
    '') options=')" +
         joined(names_of(program.options), " ") + "' words='" + joined(commands, " ") + "' ;;\n" + cases + R"(  esac
  if [[ $current == -* ]]; then
    _bascule_words "$current" "$options"
  elif [[ -n $words ]]; then
    _bascule_words "$current" "$words"
  elif [[ -n $files ]]; then
    compopt -o default
  fi
}

complete -F _bascule bascule
)";
}

std::string zsh_completion(const ProgramReference& program) {
  std::string text =
      "#compdef bascule\n# Completion of bascule in zsh, made from its command line.\n\n_bascule() {\n"
      "  local curcontext=$curcontext state line\n  typeset -A opt_args\n  local -a commands\n  commands=(\n";
  for (const CommandReference& command : program.commands)
    text += "    '" + command.name + ":" + zsh_text(command.purpose) + "'\n";
  text += "  )\n  _arguments -C";
  for (const OptionReference& option : program.options) text += zsh_option(option, "    ");
  text +=
      " \\\n    '1: :->command' \\\n    '*:: :->arguments'\n  case $state in\n"
      "    command) _describe -t commands command commands ;;\n    arguments)\n      case $words[1] in\n";
  for (const CommandReference& command : program.commands) {
    text += "        " + command.name + ")\n          _arguments";
    for (const OptionReference& option : command.options) text += zsh_option(option, "            ");
    for (const OptionReference& argument : command.arguments) text += zsh_argument(argument, "            ");
    text += "\n          ;;\n";
  }
  return text + "      esac\n      ;;\n  esac\n}\n\n_bascule \"$@\"\n";
}

}  // namespace bascule
