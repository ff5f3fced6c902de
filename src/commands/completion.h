// SPDX-License-Identifier: Apache-2.0
// The command line as plain values, and its completions for bash and zsh.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace bascule {

// The command line as plain values: what the manual page and the completions say of it. Read from the parser itself, so
// that neither can list an option that the program does not have.

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

}  // namespace bascule
