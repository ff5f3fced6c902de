// SPDX-License-Identifier: Apache-2.0
// The command line as plain values, its completions for bash and zsh, and the manual pages.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace bascule {

// The command line as plain values, read from the parser itself, so that nothing can list an option that the program
// does not have.

struct OptionReference {
  std::vector<std::string> names;     // {"-o", "--output"}; of an argument without a name: {"file"}
  std::string value;                  // "TEXT", "INT"; of a flag: empty
  std::vector<std::string> words;     // all values, if they are a closed list
  std::vector<std::string> excluded;  // names of options that it cannot be given with
  std::string meaning;                // with range, default and options that it needs
  bool is_path = false, is_required = false, takes_many = false, value_is_optional = false;
};

struct CommandReference {
  std::string name, purpose, footer;
  std::vector<OptionReference> arguments, options;  // arguments: without a name, in their order
};

struct ProgramReference {
  std::string purpose;
  std::vector<OptionReference> options;
  std::vector<CommandReference> commands;  // in the order of the help
};

// app: as describe_program() made it.
ProgramReference program_reference(CLI::App& app);

// Completion of the command line in bash and zsh: commands, options, closed lists of values, and files where an option
// takes a path.

std::string bash_completion(const ProgramReference& program);
std::string zsh_completion(const ProgramReference& program);

// The program's exit codes, as the manual page and the first page list them.

struct ExitCode {
  std::string codes;  // "3"; several with one meaning: "129, 130, 143"
  std::string meaning;
};

std::vector<ExitCode> exit_codes();

// The manual pages bascule(1) and bascule.toml(5), in the macros of man(7), from the tables that the program itself
// works with.

// date: of the page, "2026-11-26"; may be empty.
std::string program_manual(const ProgramReference& program, const std::string& date);
std::string settings_manual(const std::string& date);

}  // namespace bascule
