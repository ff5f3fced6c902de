// SPDX-License-Identifier: Apache-2.0
#include "src/commands/completion.h"

#include <vector>

namespace bascule {
namespace {

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> names_of(const std::vector<OptionReference>& options) {
  std::vector<std::string> names;
  for (const OptionReference& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

// What follows an option, as a case of "COMMAND:OPTION". bash offers files by itself where it is told so.
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
